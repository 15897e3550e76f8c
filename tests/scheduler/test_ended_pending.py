"""PreBind may write and end the attempt: the pod then waits for an event of that plugin."""

from dataclasses import replace

import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.plugin import (
    MERGE_PATCH,
    ApiCall,
    Code,
    Plugin,
    Reject,
    Reserver,
    Traits,
)
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.harness import Harness


def label(pod, key, value):
    path = PODS.path(pod.namespace, pod.name)
    return ApiCall("patch", path, {"metadata": {"labels": {key: value}}}, MERGE_PATCH)


class AskAndWait(Reserver):
    """Writes a question into a label of the pod, and waits until a label answers it."""

    def __init__(self, plugin, pod):
        self.plugin, self.pod, self.calls = plugin, pod, plugin.calls

    def reserve(self, placement):
        self.calls.append("reserve")

    def unreserve(self, placement):
        self.calls.append("unreserve")

    def may_end_pending(self, placement):
        return self.plugin.declared

    def pre_bind(self, placement):
        if "answer" in self.pod.labels:
            return None
        if "question" not in self.pod.labels:
            self.calls.append("ask")
            yield label(self.pod, "question", "q")
        if self.plugin.answered_at_once:
            yield label(self.pod, "answer", "a")
        return Reject(self.plugin.code, ("waiting for an answer",))

    def undo_pre_bind(self, placement):
        self.calls.append("undo")
        yield from ()


class Asks(Plugin):
    name = "Asks"
    traits = Traits(events_to_register={"Pod": ("UpdatePodLabel",)})
    plan_classes = (AskAndWait,)

    def __init__(self, code=Code.PENDING, declared=True):
        self.code, self.declared = code, declared
        self.calls = []
        self.answered_at_once = False
        """The answer comes while the attempt still runs."""

    def pre_filter(self, pod, view):
        return AskAndWait(self, pod)

    def queueing_hint(self, event, pod, view):
        return event.is_for_pod(pod) and "answer" in event.new.metadata.labels


class WriteLabel(Reserver):
    def pre_bind(self, placement):
        yield label(placement.pod, "written", "yes")

    def undo_pre_bind(self, placement):
        yield label(placement.pod, "written", None)


class WritesBefore(Plugin):
    """A PreBind plugin before ``Asks``, whose write must be undone."""

    name = "WritesBefore"
    plan_classes = (WriteLabel,)

    def pre_filter(self, pod, view):
        return WriteLabel()


def a_harness(tmp_path, asks):
    (name, profile), *_ = default_profiles().items()
    return Harness(
        tmp_path / "store",
        profiles={name: replace(profile, plugins=(*profile.plugins, WritesBefore(), asks))},
    )


async def labels_of(cluster, name):
    return (await cluster.pod(name)).metadata.labels


async def test_a_pod_waits_for_the_event_without_an_error(tmp_path):
    asks = Asks()
    async with a_harness(tmp_path, asks) as cluster:
        await cluster.create(a_node("n", cpu="2"), a_pod("p", cpu="2"))
        assert await cluster.why("p") == "0/1 nodes are available: 1 waiting for an answer."
        assert asks.calls == ["reserve", "ask", "unreserve"]
        assert "written" not in await labels_of(cluster, "p")
        assert (await cluster.pod("p")).status.nominated_node_name == ""
        assert cluster.metric("pending_pods", queue="unschedulable") == 1
        # Its resources are free while it waits, and its own write does not requeue it.
        await cluster.create(a_pod("other", cpu="1", labels={"answer": "a"}))
        assert await cluster.node_of("other") == "n"
        await cluster.delete(PODS, "other", "default")
        await cluster.advance(60)
        assert asks.calls.count("ask") == 1
        await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"answer": "a"}}}, "default")
        await cluster.settle()
        assert await cluster.node_of("p") == "n"
        assert "undo" not in asks.calls


async def test_an_event_before_the_end_of_the_attempt_is_not_lost(tmp_path):
    asks = Asks()
    asks.answered_at_once = True
    async with a_harness(tmp_path, asks) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        assert await cluster.node_of("p") == "n"
        assert cluster.components.scheduler.queue.in_flight_events().total() == 0


async def test_a_pod_that_is_deleted_meanwhile_is_not_requeued(tmp_path):
    asks = Asks()
    async with a_harness(tmp_path, asks) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        await cluster.delete(PODS, "p", "default")
        assert len(cluster.components.scheduler.queue) == 0
        assert cluster.components.scheduler.queue.in_flight_events().total() == 0


async def test_a_pod_that_preempted_stays_nominated_while_it_waits(tmp_path):
    asks = Asks()
    async with a_harness(tmp_path, asks) as cluster:
        answered = {"answer": "a"}
        await cluster.create(a_node("n", cpu="2"), a_pod("low", cpu="2", labels=answered))
        assert await cluster.node_of("low") == "n"
        await cluster.create(
            a_priority_class("high", 10), a_pod("p", cpu="2", priority_class_name="high")
        )
        await cluster.advance(60)
        assert "ask" in asks.calls
        assert (await cluster.pod("p")).status.nominated_node_name == "n"
        await cluster.create(a_pod("other", cpu="1", labels=answered))
        assert await cluster.node_of("other") == ""


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        (Asks(Code.ERROR), "pre_bind may not return ERROR: raise an error instead"),
        (Asks(declared=False), "returned PENDING, but may_end_pending does not return True"),
    ],
)
async def test_what_the_contract_does_not_allow_is_an_error(tmp_path, asks, message):
    async with a_harness(tmp_path, asks) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        [(_, said)] = await cluster.events("p")
        assert message in said
        assert "written" not in await labels_of(cluster, "p")


async def test_a_rejected_pod_waits_unbound_without_its_writes_until_its_event(tmp_path):
    asks = Asks(Code.UNSCHEDULABLE, declared=False)
    async with a_harness(tmp_path, asks) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        await cluster.advance(60)
        said = "0/1 nodes are available: 1 waiting for an answer."
        assert await cluster.events("p") == [("FailedScheduling", said)]
        assert asks.calls == ["reserve", "ask", "undo", "unreserve"]
        assert "written" not in await labels_of(cluster, "p")
        await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"answer": "a"}}}, "default")
        await cluster.advance(5)
        assert await cluster.node_of("p") == "n"
