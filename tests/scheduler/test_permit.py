"""Pods that have their room and wait for a word before they are bound."""

from dataclasses import replace

import pytest

from holdfast.api.scheme import PODS
from holdfast.columns.interner import CPU
from holdfast.framework.plugin import ApiCall, Code, Reject, Traits, Wait
from holdfast.plugins import default_profiles
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.harness import Harness


class Usher:
    """A plugin that lets pods wait as long as their annotation says, and notes what happens."""

    traits = Traits()

    def __init__(self, name="Usher"):
        self.name = name
        self.pages = []
        self.answer = None
        """What to say instead, if anything."""
        self.waiting = None
        self.wakes = ()
        """Pods to try at once when another is placed, by uid."""

    def reserve(self, _state, placement):
        self.pages.append(f"reserve {placement.pod.name}")

    def unreserve(self, _state, placement):
        self.pages.append(f"unreserve {placement.pod.name}")

    def permit(self, _state, placement, waiting):
        self.waiting = waiting
        placement.pods_to_activate.update(self.wakes)
        if self.answer is not None:
            return self.answer
        seconds = placement.pod.pod.metadata.annotations.get(self.name)
        return None if seconds is None else Wait(float(seconds))

    def pod(self, name):
        return next(pod for pod in self.waiting if pod.placement.pod.name == name)


class Witness:
    """A plugin that hears of bound pods, and writes about them."""

    name = "Witness"
    traits = Traits()

    def __init__(self, *, fails=False):
        self.seen = []
        self._fails = fails

    def post_bind(self, _state, placement):
        self.seen.append((placement.pod.name, placement.node))
        if self._fails:
            raise ZeroDivisionError("a bug")
        body = {"metadata": {"labels": {"seen": "true"}}}
        path = PODS.path(placement.pod.namespace, placement.pod.name)
        yield ApiCall("patch", path, body, "application/merge-patch+json")


def with_plugins(*extra):
    stock = default_profiles()["default-scheduler"]
    return {stock.name: replace(stock, plugins=(*stock.plugins, *extra))}


@pytest.fixture
def usher():
    return Usher()


@pytest.fixture
async def cluster(tmp_path, usher):
    async with Harness(tmp_path / "store", profiles=with_plugins(usher)) as harness:
        await harness.create(a_node("n", cpu="4"))
        yield harness


def waits(name, seconds=10, plugin="Usher", **spec):
    return a_pod(name, annotations={plugin: str(seconds)}, **spec)


def used_cpu(cluster):
    return int(cluster.world.nodes.requested[CPU, cluster.world.nodes.row_of["n"]])


def pending(cluster, queue):
    return cluster.metric("pending_pods", queue=queue)


async def condition(cluster, name):
    found = (await cluster.pod(name)).status.conditions
    return next(c for c in found if c.type == "PodScheduled")


async def test_S029_a_pod_that_is_never_allowed_is_rejected_when_its_time_is_up(cluster, usher):
    await cluster.create(waits("p", 10, cpu="3"))
    await cluster.advance(9.9)
    assert await cluster.node_of("p") == ""
    assert used_cpu(cluster) == 3000
    await cluster.advance(0.2)
    rejected = await condition(cluster, "p")
    assert (rejected.reason, rejected.message) == (
        "Unschedulable",
        "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Usher.",
    )
    assert ("FailedScheduling", rejected.message) in await cluster.events("p")
    assert usher.pages == ["reserve p", "unreserve p"]
    assert used_cpu(cluster) == 0
    blamed = {"plugin": "Usher", "profile": "default-scheduler"}
    assert cluster.metric("unschedulable_pods", **blamed) == 1
    assert cluster.metric("permit_wait_duration_seconds_count", result="Unschedulable") == 1
    assert cluster.metric("permit_wait_duration_seconds_sum", result="Unschedulable") == 10


async def test_S029_its_own_room_coming_back_does_not_bring_it_back(cluster):
    await cluster.create(waits("p", 10, cpu="3"))
    await cluster.advance(10)
    assert pending(cluster, "unschedulable") == 1
    # But any other news does: the plugin has no hints.
    await cluster.create(a_node("m"))
    assert pending(cluster, "unschedulable") == 0


async def test_S030_the_shortest_of_several_waits_rejects(tmp_path):
    ushers = Usher("Short"), Usher("Long")
    async with Harness(tmp_path / "store", profiles=with_plugins(*ushers)) as cluster:
        await cluster.create(a_node("n"))
        await cluster.create(a_pod("p", annotations={"Short": "5", "Long": "60"}))
        ushers[1].pod("p").allow("Long")
        await cluster.advance(4.9)
        assert await cluster.why("p") == ""
        await cluster.advance(0.2)
        assert await cluster.why("p") == (
            "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin Short."
        )


async def test_time_is_up_only_for_plugins_that_have_not_allowed_the_pod(tmp_path):
    ushers = Usher("Short"), Usher("Long")
    async with Harness(tmp_path / "store", profiles=with_plugins(*ushers)) as cluster:
        await cluster.create(a_node("n"))
        await cluster.create(a_pod("p", annotations={"Short": "5", "Long": "60"}))
        ushers[0].pod("p").allow("Short")
        await cluster.advance(59)
        assert await cluster.why("p") == ""
        ushers[1].pod("p").allow("Long")
        await cluster.settle()
        assert await cluster.node_of("p") == "n"


async def test_S031_a_refused_promise_is_withdrawn_from_all_in_reverse(tmp_path):
    pages = []
    ushers = [Usher(name) for name in "abc"]
    for one in ushers:
        one.reserve = lambda _s, _p, one=one: pages.append(f"reserve {one.name}")
        one.unreserve = lambda _s, _p, one=one: pages.append(f"unreserve {one.name}")
    refusal = Reject(Code.UNSCHEDULABLE, ("no more today",))
    ushers[1].reserve = lambda _s, _p: pages.append("refuse b") or refusal
    async with Harness(tmp_path / "store", profiles=with_plugins(*ushers)) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        assert pages == ["reserve a", "refuse b", "unreserve c", "unreserve b", "unreserve a"]
        assert await cluster.why("p") == "0/1 nodes are available: 1 no more today."
        assert used_cpu(cluster) == 0
        blamed = {"plugin": "b", "profile": "default-scheduler"}
        assert cluster.metric("unschedulable_pods", **blamed) == 1


async def test_an_allowed_pod_is_bound(cluster, usher):
    await cluster.create(waits("p"))
    assert (await cluster.pod("p")).status.nominated_node_name == "n"
    usher.pod("p").allow("Usher")
    await cluster.settle()
    assert await cluster.node_of("p") == "n"
    assert len(cluster.world.waiting) == 0
    assert cluster.metric("permit_wait_duration_seconds_count", result="Success") == 1
    done = {"result": "scheduled", "profile": "default-scheduler"}
    assert cluster.metric("schedule_attempts_total", **done) == 1


async def test_others_are_placed_while_one_waits_and_cannot_take_its_room(cluster):
    await cluster.create(waits("p", 60, cpu="3"), a_pod("small"), a_pod("large", cpu="2"))
    assert await cluster.node_of("small") == "n"
    assert await cluster.node_of("large") == ""
    await cluster.advance(70)
    assert await cluster.node_of("large") == "n"


async def test_many_waiting_pods_do_not_hold_up_the_rest(tmp_path, usher):
    async with Harness(tmp_path / "store", profiles=with_plugins(usher)) as cluster:
        await cluster.create(a_node("n", cpu="400", pods=400))
        await cluster.create(*(waits(f"w{i}", 600) for i in range(150)), a_pod("p"))
        assert len(cluster.world.waiting) == 150
        assert await cluster.node_of("p") == "n"


async def test_a_plugin_may_allow_those_who_wait_when_the_last_of_them_comes(tmp_path):
    class Gang(Usher):
        """Three or none."""

        def permit(self, _state, _placement, waiting):
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


async def test_a_plugin_may_reject_a_pod_that_waits(cluster, usher):
    await cluster.create(waits("p"))
    assert usher.pod("p").reject("Usher", "the gang broke up")
    await cluster.settle()
    assert await cluster.why("p") == "0/1 nodes are available: 1 the gang broke up."
    assert (await cluster.pod("p")).status.nominated_node_name == ""


async def test_the_first_word_counts(cluster, usher):
    await cluster.create(waits("p"))
    pod = usher.pod("p")
    pod.allow("Usher")
    assert not pod.reject("Usher", "too late")
    await cluster.settle()
    assert await cluster.node_of("p") == "n"


async def test_a_refused_pod_is_blamed_on_the_plugin(cluster, usher):
    usher.answer = Reject(Code.UNSCHEDULABLE, ("closed", "for good"))
    await cluster.create(a_pod("p"))
    assert await cluster.why("p") == "0/1 nodes are available: 1 closed, 1 for good."
    assert usher.pages == ["reserve p", "unreserve p"]
    assert used_cpu(cluster) == 0
    blamed = {"plugin": "Usher", "profile": "default-scheduler"}
    assert cluster.metric("unschedulable_pods", **blamed) == 1


async def test_a_failing_plugin_fails_the_attempt(cluster, usher):
    usher.answer = Reject(Code.ERROR, ("out of ink",))
    await cluster.create(a_pod("p"))
    failed = await condition(cluster, "p")
    assert (failed.reason, failed.message) == (
        "SchedulerError",
        'running Permit plugin "Usher": out of ink',
    )
    assert used_cpu(cluster) == 0
    usher.answer = None
    await cluster.advance(3)
    assert await cluster.node_of("p") == "n"


async def test_a_pod_deleted_while_it_waits_frees_its_room_at_once(cluster, usher):
    await cluster.create(waits("p", 600, cpu="3"), a_pod("q", cpu="3"))
    assert await cluster.node_of("q") == ""
    await cluster.delete(PODS, "p", "default")
    assert "unreserve p" in usher.pages
    assert await cluster.node_of("q") == "n"
    assert ("FailedScheduling", "0/1 nodes are available: 1 removed.") in await cluster.events("p")
    assert pending(cluster, "unschedulable") == pending(cluster, "backoff") == 0


async def test_a_pod_that_only_begins_to_go_stops_waiting_too(cluster, usher):
    kept = waits("p", 600, cpu="3")
    kept["metadata"]["finalizers"] = ["example.com/kept"]
    await cluster.create(kept)
    await cluster.delete(PODS, "p", "default")
    assert usher.pages == ["reserve p", "unreserve p"]
    assert used_cpu(cluster) == 0
    assert len(cluster.components.scheduler.queue) == 0


async def test_a_more_important_pod_takes_the_room_of_one_that_waits(cluster, usher):
    await cluster.create(a_priority_class("high", 1000))
    await cluster.create(waits("p", 600, cpu="3"))
    await cluster.create(a_pod("vip", cpu="3", priority_class_name="high"))
    preempted = await condition(cluster, "p")
    assert (preempted.reason, preempted.message) == (
        "SchedulerError",
        "waiting on permit for pod: preempted",
    )
    uid = (await cluster.pod("vip")).uid
    told = f"Preempted by pod {uid} on node n (in kube-scheduler memory)."
    assert ("Preempted", told) in await cluster.events("p")
    assert cluster.metric("permit_wait_duration_seconds_count", result="Error") == 1
    await cluster.advance(2)
    assert await cluster.node_of("vip") == "n"


async def test_a_pod_comes_back_as_it_was_last_seen(cluster, usher):
    await cluster.create(waits("p", 10))
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
    await cluster.settle()
    usher.pod("p").reject("Usher", "no")
    await cluster.create(a_node("m"))
    await cluster.advance(2)
    assert usher.pod("p").placement.pod.labels == {"a": "b"}


async def test_no_plugin_waits_longer_than_a_quarter_of_an_hour(cluster):
    await cluster.create(waits("p", 3600))
    await cluster.advance(899)
    assert await cluster.why("p") == ""
    await cluster.advance(2)
    assert "after waiting 15m0s at plugin Usher" in await cluster.why("p")


async def test_stopping_does_not_wait_for_words(cluster):
    await cluster.create(waits("p", 600))
    before = cluster.clock.now()
    await cluster.restart_components()
    assert cluster.clock.now() - before < 1
    assert len(cluster.world.waiting) == 1


async def test_plugins_hear_that_a_pod_is_bound(tmp_path):
    witness = Witness()
    async with Harness(tmp_path / "store", profiles=with_plugins(witness)) as cluster:
        await cluster.create(a_node("n"), a_pod("p"), a_pod("large", cpu="99"))
        assert witness.seen == [("p", "n")]
        assert (await cluster.pod("p")).metadata.labels == {"seen": "true"}


async def test_what_fails_after_binding_does_not_unbind(tmp_path):
    async with Harness(tmp_path / "s", profiles=with_plugins(Witness(fails=True))) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        assert await cluster.node_of("p") == "n"
        assert [reason for reason, _ in await cluster.events("p")] == ["Scheduled"]


async def test_a_placement_may_wake_pods_that_wait_for_a_try(cluster, usher):
    await cluster.create(a_pod("large", cpu="99"))
    assert pending(cluster, "unschedulable") == 1
    usher.wakes = ((await cluster.pod("large")).uid,)
    tries = {"result": "unschedulable", "profile": "default-scheduler"}
    before = cluster.metric("schedule_attempts_total", **tries)
    await cluster.create(a_pod("p"))
    assert cluster.metric("schedule_attempts_total", **tries) > before
