"""Permit: assumed pods that wait until a plugin allows or rejects them."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import ApiCall, Code, Plugin, Reject, Reserver, Wait
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.binding_cycle import AssumedPod, BindingTasks
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo
from holdfast.state.columns.interner import CPU
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.builders import typed
from holdfast.testing.harness import Harness
from scheduler.permit_plugins import RecordCalls, WaitPlugin


class WriteAfterBinding(Reserver):
    """Writes to the API for every bound pod."""

    def __init__(self, *, fails):
        self.seen = []
        self._fails = fails

    def post_bind(self, placement):
        self.seen.append((placement.pod.name, placement.node))
        if self._fails:
            raise ZeroDivisionError("a bug")
        body = {"metadata": {"labels": {"seen": "true"}}}
        path = PODS.path(placement.pod.namespace, placement.pod.name)
        yield ApiCall("patch", path, body, "application/merge-patch+json")


class PostBindWriter(Plugin):
    name = "PostBindWriter"
    plan_classes = (WriteAfterBinding,)

    def __init__(self, *, fails=False):
        self.plan = WriteAfterBinding(fails=fails)

    def pre_filter(self, pod, view):
        return self.plan


def with_plugins(*extra):
    stock = default_profiles()["default-scheduler"]
    return {stock.name: replace(stock, plugins=(*stock.plugins, *extra))}


@pytest.fixture
def wait_plugin():
    return WaitPlugin()


@pytest.fixture
async def cluster(tmp_path, wait_plugin):
    async with Harness(tmp_path / "store", profiles=with_plugins(wait_plugin)) as harness:
        await harness.create(a_node("n", cpu="4"))
        yield harness


def waiting_pod(name, seconds=10, plugin="Wait", **spec):
    return a_pod(name, annotations={plugin: str(seconds)}, **spec)


def used_cpu(cluster):
    return int(cluster.world.nodes.requested[CPU, cluster.world.nodes.row_of["n"]])


def pending(cluster, queue):
    return cluster.metric("pending_pods", queue=queue)


async def condition(cluster, name):
    found = (await cluster.pod(name)).status.conditions
    return next(c for c in found if c.type == "PodScheduled")


async def test_S029_a_pod_that_is_never_allowed_is_rejected_after_the_timeout(cluster, wait_plugin):
    await cluster.create(waiting_pod("p", 10, cpu="3"))
    await cluster.advance(9.9)
    assert await cluster.node_of("p") == ""
    assert used_cpu(cluster) == 3000
    await cluster.advance(0.2)
    rejected = await condition(cluster, "p")
    assert (rejected.reason, rejected.message) == (
        "Unschedulable",
        "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Wait.",
    )
    assert ("FailedScheduling", rejected.message) in await cluster.events("p")
    assert wait_plugin.calls == ["reserve p", "unreserve p"]
    assert used_cpu(cluster) == 0
    blamed = {"plugin": "Wait", "profile": "default-scheduler"}
    assert cluster.metric("unschedulable_pods", **blamed) == 1
    assert cluster.metric("permit_wait_duration_seconds_count", result="Unschedulable") == 1
    assert cluster.metric("permit_wait_duration_seconds_sum", result="Unschedulable") == 10


async def test_S029_its_own_freed_resources_do_not_requeue_it(cluster):
    await cluster.create(waiting_pod("p", 10, cpu="3"))
    await cluster.advance(10)
    assert pending(cluster, "unschedulable") == 1
    # Any other event requeues it: the plugin has no queueing hints.
    await cluster.create(a_node("m"))
    assert pending(cluster, "unschedulable") == 0


async def test_S030_the_shortest_of_several_timeouts_rejects(tmp_path):
    plugins = WaitPlugin("Short"), WaitPlugin("Long")
    async with Harness(tmp_path / "store", profiles=with_plugins(*plugins)) as cluster:
        await cluster.create(a_node("n"))
        await cluster.create(a_pod("p", annotations={"Short": "5", "Long": "60"}))
        plugins[1].pod("p").allow("Long")
        await cluster.advance(4.9)
        assert await cluster.why("p") == ""
        await cluster.advance(0.2)
        assert await cluster.why("p") == (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin Short."
        )


async def test_timeouts_count_only_for_plugins_that_have_not_allowed_the_pod(tmp_path):
    plugins = WaitPlugin("Short"), WaitPlugin("Long")
    async with Harness(tmp_path / "store", profiles=with_plugins(*plugins)) as cluster:
        await cluster.create(a_node("n"))
        await cluster.create(a_pod("p", annotations={"Short": "5", "Long": "60"}))
        plugins[0].pod("p").allow("Short")
        await cluster.advance(59)
        assert await cluster.why("p") == ""
        plugins[1].pod("p").allow("Long")
        await cluster.settle()
        assert await cluster.node_of("p") == "n"


async def test_S031_a_rejection_by_permit_unreserves_all_plugins_in_reverse(tmp_path):
    calls = []
    plugins = [WaitPlugin(name) for name in "abc"]
    for plugin in plugins:
        plugin.plan = RecordCalls(calls, plugin.name)
    plugins[1].plan.refusal = Reject(Code.UNSCHEDULABLE, ("no more today",))
    async with Harness(tmp_path / "store", profiles=with_plugins(*plugins)) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        assert calls == ["reserve a", "reserve b", "unreserve c", "unreserve b", "unreserve a"]
        assert await cluster.why("p") == "0/1 nodes are available: 1 no more today."
        assert used_cpu(cluster) == 0
        blamed = {"plugin": "b", "profile": "default-scheduler"}
        assert cluster.metric("unschedulable_pods", **blamed) == 1


async def test_an_allowed_pod_is_bound(cluster, wait_plugin):
    await cluster.create(waiting_pod("p"))
    assert (await cluster.pod("p")).status.nominated_node_name == "n"
    wait_plugin.pod("p").allow("Wait")
    await cluster.settle()
    assert await cluster.node_of("p") == "n"
    assert len(cluster.world.waiting) == 0
    assert cluster.metric("permit_wait_duration_seconds_count", result="Success") == 1
    done = {"result": "scheduled", "profile": "default-scheduler"}
    assert cluster.metric("schedule_attempts_total", **done) == 1


async def test_other_pods_are_scheduled_meanwhile_but_not_with_its_resources(cluster):
    await cluster.create(waiting_pod("p", 60, cpu="3"), a_pod("small"), a_pod("large", cpu="2"))
    assert await cluster.node_of("small") == "n"
    assert await cluster.node_of("large") == ""
    await cluster.advance(70)
    assert await cluster.node_of("large") == "n"


async def test_many_waiting_pods_do_not_delay_other_pods(tmp_path, wait_plugin):
    async with Harness(tmp_path / "store", profiles=with_plugins(wait_plugin)) as cluster:
        await cluster.create(a_node("n", cpu="400", pods=400))
        await cluster.create(*(waiting_pod(f"w{i}", 600) for i in range(150)), a_pod("p"))
        assert len(cluster.world.waiting) == 150
        assert await cluster.node_of("p") == "n"


async def test_a_plugin_may_allow_all_waiting_pods_when_the_last_one_is_assumed(tmp_path):
    class Gang(WaitPlugin):
        """Allows pods when three of them wait."""

        def permit(self, placement, waiting):
            if len(waiting) < 2:
                return Wait(60)
            for pod in waiting:
                pod.allow(self.name)
            return None

    async with Harness(tmp_path / "store", profiles=with_plugins(Gang())) as cluster:
        await cluster.create(a_node("n"), a_pod("a"), a_pod("b"))
        assert [await cluster.node_of(name) for name in "ab"] == ["", ""]
        await cluster.create(a_pod("c"))
        assert [await cluster.node_of(name) for name in "abc"] == ["n", "n", "n"]


async def test_a_plugin_may_reject_a_waiting_pod(cluster, wait_plugin):
    await cluster.create(waiting_pod("p"))
    assert wait_plugin.pod("p").reject("Wait", "the gang broke up")
    await cluster.settle()
    assert await cluster.why("p") == "0/1 nodes are available: 1 the gang broke up."
    assert (await cluster.pod("p")).status.nominated_node_name == ""


async def test_the_first_decision_counts(cluster, wait_plugin):
    await cluster.create(waiting_pod("p"))
    pod = wait_plugin.pod("p")
    pod.allow("Wait")
    assert not pod.reject("Wait", "too late")
    await cluster.settle()
    assert await cluster.node_of("p") == "n"


async def test_a_rejected_pod_names_the_plugin(cluster, wait_plugin):
    wait_plugin.answer = Reject(Code.UNSCHEDULABLE, ("closed", "for good"))
    await cluster.create(a_pod("p"))
    assert await cluster.why("p") == "0/1 nodes are available: 1 closed, 1 for good."
    assert wait_plugin.calls == ["reserve p", "unreserve p"]
    assert used_cpu(cluster) == 0
    blamed = {"plugin": "Wait", "profile": "default-scheduler"}
    assert cluster.metric("unschedulable_pods", **blamed) == 1


async def test_a_failing_plugin_fails_the_attempt(cluster, wait_plugin):
    wait_plugin.answer = Reject(Code.ERROR, ("out of ink",))
    await cluster.create(a_pod("p"))
    failed = await condition(cluster, "p")
    assert (failed.reason, failed.message) == (
        "SchedulerError",
        'running Permit plugin "Wait": out of ink',
    )
    assert used_cpu(cluster) == 0
    wait_plugin.answer = None
    await cluster.advance(3)
    assert await cluster.node_of("p") == "n"


async def test_a_pod_deleted_while_it_waits_frees_its_resources_at_once(cluster, wait_plugin):
    await cluster.create(waiting_pod("p", 600, cpu="3"), a_pod("q", cpu="3"))
    assert await cluster.node_of("q") == ""
    await cluster.delete(PODS, "p", "default")
    assert "unreserve p" in wait_plugin.calls
    assert await cluster.node_of("q") == "n"
    assert ("FailedScheduling", "0/1 nodes are available: 1 removed.") in await cluster.events("p")
    assert pending(cluster, "unschedulable") == pending(cluster, "backoff") == 0


async def test_a_terminating_pod_stops_waiting_too(cluster, wait_plugin):
    kept = waiting_pod("p", 600, cpu="3")
    kept["metadata"]["finalizers"] = ["example.com/kept"]
    await cluster.create(kept)
    await cluster.delete(PODS, "p", "default")
    assert wait_plugin.calls == ["reserve p", "unreserve p"]
    assert used_cpu(cluster) == 0
    assert len(cluster.components.scheduler.queue) == 0


async def test_a_waiting_pod_can_be_preempted(cluster, wait_plugin):
    await cluster.create(a_priority_class("high", 1000))
    await cluster.create(waiting_pod("p", 600, cpu="3"))
    await cluster.create(a_pod("vip", cpu="3", priority_class_name="high"))
    preempted = await condition(cluster, "p")
    assert (preempted.reason, preempted.message) == (
        "SchedulerError",
        "waiting on permit for pod: preempted",
    )
    uid = (await cluster.pod("vip")).uid
    message = f"Preempted by pod {uid} on node n (in kube-scheduler memory)."
    assert ("Preempted", message) in await cluster.events("p")
    assert cluster.metric("permit_wait_duration_seconds_count", result="Error") == 1
    await cluster.advance(2)
    assert await cluster.node_of("vip") == "n"


async def test_a_rejected_pod_is_requeued_in_its_newest_version(cluster, wait_plugin):
    await cluster.create(waiting_pod("p", 10))
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
    await cluster.settle()
    wait_plugin.pod("p").reject("Wait", "no")
    await cluster.create(a_node("m"))
    await cluster.advance(2)
    assert wait_plugin.pod("p").placement.pod.labels == {"a": "b"}


async def test_no_plugin_waits_longer_than_fifteen_minutes(cluster):
    await cluster.create(waiting_pod("p", 3600))
    await cluster.advance(899)
    assert await cluster.why("p") == ""
    await cluster.advance(2)
    assert "after waiting 15m0s at plugin Wait" in await cluster.why("p")


async def test_stop_does_not_wait_on_permit(cluster):
    await cluster.create(waiting_pod("p", 600))
    before = cluster.clock.now()
    await cluster.restart_components()
    assert cluster.clock.now() - before < 1
    assert len(cluster.world.waiting) == 1


async def test_post_bind_plugins_run_for_bound_pods(tmp_path):
    post_bind_writer = PostBindWriter()
    async with Harness(tmp_path / "store", profiles=with_plugins(post_bind_writer)) as cluster:
        await cluster.create(a_node("n"), a_pod("p"), a_pod("large", cpu="99"))
        assert post_bind_writer.plan.seen == [("p", "n")]
        assert (await cluster.pod("p")).metadata.labels == {"seen": "true"}


async def test_an_error_in_post_bind_does_not_undo_the_binding(tmp_path):
    async with Harness(
        tmp_path / "s", profiles=with_plugins(PostBindWriter(fails=True))
    ) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        assert await cluster.node_of("p") == "n"
        assert [reason for reason, _ in await cluster.events("p")] == ["Scheduled"]


async def test_a_placement_may_activate_other_pods(cluster, wait_plugin):
    await cluster.create(a_pod("large", cpu="99"))
    assert pending(cluster, "unschedulable") == 1
    wait_plugin.activates = ((await cluster.pod("large")).uid,)
    tries = {"result": "unschedulable", "profile": "default-scheduler"}
    before = cluster.metric("schedule_attempts_total", **tries)
    await cluster.create(a_pod("p"))
    assert cluster.metric("schedule_attempts_total", **tries) > before


async def test_the_end_of_a_binding_cycle_leaves_the_next_one_of_the_same_pod_running():
    pod = typed(a_pod("a"))
    tasks = BindingTasks(World())
    queued = QueuedPodInfo(tasks.world.pod_info(pod), since=0.0)
    placement = SimpleNamespace(plans={}, reservers=None)
    assumed = AssumedPod(queued, Profile("x", ()), placement, 0.0)
    may_end = asyncio.Event()

    async def requeue_and_bind_again():
        tasks.start_binding(assumed, may_end.wait())

    tasks.start_binding(assumed, requeue_and_bind_again())
    await tasks.wait_for_one()
    waiting = asyncio.create_task(tasks.wait_for_binding(queued.uid))
    await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    await waiting
