"""Retry at a time: a rejected pod is tried again when a plugin says so, without an event."""

import numpy as np
import pytest

from holdfast.api.timestamps import parse_rfc3339
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    Code,
    NodeFilter,
    Plugin,
    Reject,
    Reserver,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.queued_pods import QueuedPodInfo, RetryTimes
from holdfast.testing import a_node, a_pod, check_plugin
from holdfast.testing.harness import Harness
from scheduler.queued import EVENT, a_queue, pod_info


def opens_at(pod):
    return parse_rfc3339(pod.pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z") + 60


class RejectEarly(NodeFilter):
    """Rejects every node in the first minute after the pod was created."""

    reason = "node(s) open later"

    def __init__(self, opened):
        self.opened = opened

    def filter(self, rows, change=NO_CHANGE):
        return np.full(len(rows), 0 if self.opened else 2, np.int8)

    def retry_at(self, pod, rows):
        assert not self.opened and len(rows)
        return opens_at(pod)


class ReserveLater(Reserver):
    """The same, in ``reserve``."""

    def __init__(self, opened):
        self.opened = opened

    def reserve(self, placement):
        if self.opened:
            return None
        return Reject(Code.UNSCHEDULABLE, ("too early",), retry_at=opens_at(placement.pod))

    def unreserve(self, placement):
        pass


class TooLate(RejectEarly):
    def retry_at(self, pod, rows):
        return opens_at(pod) + 60


class InThePast(RejectEarly):
    def retry_at(self, pod, rows):
        return opens_at(pod) - 60


class OpensLater(Plugin):
    name = "OpensLater"
    traits = Traits(scope=Scope.NODE, reads_outside_spec=True, events_to_register={})

    def __init__(self, plan=RejectEarly):
        self.plan_classes = (plan,)

    def reads(self, pod, view):
        return view.now >= opens_at(pod)

    def pre_filter(self, pod, view):
        return self.plan_classes[0](view.now >= opens_at(pod))

    def queueing_hint(self, event, pod, view):
        return False


class RejectsAtPreFilter(OpensLater):
    """The same, in ``pre_filter``."""

    def pre_filter(self, pod, view):
        if view.now >= opens_at(pod):
            return Skip()
        return Reject(Code.UNRESOLVABLE, ("too early",), retry_at=opens_at(pod))


class NeverRead(OpensLater):
    traits = Traits(scope=Scope.NODE, events_to_register={})


def profiles_with(plugin):
    built_in = default_profiles()["default-scheduler"]
    return {"default-scheduler": Profile("default-scheduler", (*built_in.plugins, plugin))}


@pytest.mark.parametrize("plugin", [OpensLater(), OpensLater(ReserveLater), RejectsAtPreFilter()])
async def test_a_pod_is_tried_again_at_the_time_that_its_plugin_gives(tmp_path, plugin):
    async with Harness(tmp_path, profiles=profiles_with(plugin)) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        await cluster.advance(59.9)
        assert await cluster.node_of("p") == ""
        attempts = {"result": "unschedulable", "profile": "default-scheduler"}
        assert cluster.metric("schedule_attempts_total", **attempts) == 1
        await cluster.advance(0.1)
        assert await cluster.node_of("p") == "n"
        assert cluster.metric("schedule_attempts_total", **attempts) == 1
        moved = {"queue": "active", "event": "RetryTime"}
        assert cluster.metric("queue_incoming_pods_total", **moved) == 1


async def test_the_timer_wakes_within_a_second(tmp_path):
    async with Harness(tmp_path, profiles=profiles_with(OpensLater())) as cluster:
        await cluster.advance(0.25)
        await cluster.clock.step(0.5)  # the time of day is now half a second ahead of the timer
        await cluster.create(a_node("n"), a_pod("p"))
        await cluster.advance(59.0)
        assert await cluster.node_of("p") == ""
        await cluster.advance(0.25)
        assert await cluster.node_of("p") == "n"


async def test_a_clock_that_is_set_moves_the_pod_by_the_time_of_day(tmp_path):
    async with Harness(tmp_path, profiles=profiles_with(OpensLater())) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        await cluster.clock.step(60)
        await cluster.advance(1)
        assert await cluster.node_of("p") == "n"


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -float("inf")])
async def test_a_time_that_never_comes_is_ignored(tmp_path, time):
    class Never(RejectEarly):
        def retry_at(self, pod, rows):
            return time

    async with Harness(tmp_path, profiles=profiles_with(OpensLater(Never))) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        await cluster.advance(200)
        assert await cluster.node_of("p") == ""
        await cluster.advance(200)
        assert await cluster.node_of("p") == "n"


def test_check_plugin_proves_the_claim():
    check_plugin(OpensLater)


@pytest.mark.parametrize(
    ("plugin", "law"),
    [
        (OpensLater(TooLate), "rejected rows stay rejected until retry_at"),
        (OpensLater(InThePast), "retry_at is later than now"),
        (NeverRead(), "a plugin with retry_at reads the time"),
    ],
)
def test_check_plugin_finds_a_wrong_time(plugin, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: plugin)


def unschedulable(queue, name="a", retry_at=100.0, now=0.0, by=("Fit",)):
    queue.add(pod_info(name), now)
    pod = queue.pop(now)
    queue.requeue_unschedulable(pod, set(by), (), now, retry_at=retry_at)
    return pod


def test_a_pod_leaves_the_unschedulable_pods_at_its_time():
    queue = a_queue()
    pod = unschedulable(queue)
    queue.flush(50.0, 99.9)
    assert (pod.queue_name, queue.next_retry) == ("unschedulable", 100.0)
    queue.flush(51.0, 100.0)
    assert (pod.queue_name, queue.next_retry) == ("active", None)


def test_it_waits_for_the_end_of_its_backoff():
    queue = a_queue()
    pod = unschedulable(queue, retry_at=100.0)
    queue.flush(0.5, 100.0)
    assert pod.queue_name == "backoff"
    queue.flush(2.0, 101.5)
    assert pod.queue_name == "active"


def test_a_time_that_passed_during_the_attempt_counts():
    queue = a_queue()
    pod = unschedulable(queue, retry_at=100.0)
    queue.flush(2.0, 500.0)
    assert pod.queue_name == "active"


def test_the_time_of_an_earlier_attempt_is_ignored():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    pod = unschedulable(queue, retry_at=100.0)
    queue.requeue_for_event(EVENT, 1.0)
    queue.requeue_unschedulable(queue.pop(1.0), {"Fit"}, (), 1.0, retry_at=200.0)
    queue.flush(100.0, 150.0)
    assert (pod.queue_name, queue.next_retry) == ("unschedulable", 200.0)
    queue.requeue_for_event(EVENT, 101.0)
    queue.requeue_unschedulable(queue.pop(101.0), {"Fit"}, (), 101.0)
    assert queue.next_retry is None
    queue.flush(300.0, 300.0)
    assert pod.queue_name == "unschedulable"


def test_the_same_time_is_stored_once():
    times = RetryTimes()
    pod = QueuedPodInfo(pod_info("a"), since=0.0, queue_name="unschedulable", retry_at=100.0)
    for _ in range(5):
        times.add(pod)
    assert (list(times.pop_due(100.0)), times.next) == ([pod], None)


def test_the_same_time_counts_for_the_last_attempt():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    pod = unschedulable(queue, retry_at=100.0)
    queue.requeue_for_event(EVENT, 1.0)
    queue.requeue_unschedulable(queue.pop(1.0), {"Fit"}, (), 1.0, retry_at=100.0)
    queue.flush(100.0, 100.0)
    assert pod.queue_name == "active"


def test_a_deleted_pod_is_not_moved_and_its_successor_is():
    queue = a_queue()
    unschedulable(queue, retry_at=100.0)
    queue.delete("a")
    assert (queue.next_retry, len(queue)) == (None, 0)
    again = unschedulable(queue, retry_at=100.0)
    queue.flush(100.0, 100.0)
    assert again.queue_name == "active"


def test_a_gated_pod_stays_gated():
    gates = [""]
    queue = a_queue(QueueingStrategy.IMMEDIATELY, gating_plugin=lambda _: gates[0])
    pod = unschedulable(queue, retry_at=100.0)
    gates[0] = "Gate"
    queue.requeue_for_event(EVENT, 1.0)
    assert pod.queue_name == "gated"
    queue.flush(200.0, 200.0)
    assert pod.queue_name == "gated"


def test_times_of_pods_that_are_gone_are_removed_when_they_are_many():
    def waiting(name, at):
        return QueuedPodInfo(pod_info(name), since=0.0, queue_name="unschedulable", retry_at=at)

    times, first, passing = RetryTimes(), waiting("first", 1.0), waiting("passing", 2.0)
    times.add(first)
    times.add(passing)
    passing.queue_name = ""  # tried just now
    for i in range(5000):
        pod = waiting(f"p{i}", 1e9 + i)
        times.add(pod)
        pod.queue_name = ""
        assert len(times._heap) <= 1001
    passing.queue_name = "unschedulable"
    times.add(passing)
    assert list(times.pop_due(3.0)) == [first, passing]
