"""The queue alone: order, backoff, hints, gates. Time is an argument, so nothing waits."""

from holdfast.api.meta import ObjectMeta
from holdfast.api.pod import Pod, PodSpec
from holdfast.columns.interner import ResourceNames
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import ClusterEvent
from holdfast.scheduler.queue import SchedulingQueue, Worth

NAMES = ResourceNames()
EVENT = ClusterEvent("Node", "Add")


def facts(name, priority=0):
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    return PodFacts.of(Pod(metadata=meta, spec=PodSpec(priority=priority)), NAMES)


def a_queue(worth=Worth.NOTHING, gatekeeper=lambda _: ""):
    return SchedulingQueue(judge=lambda *_: worth, gatekeeper=gatekeeper)


def popped(queue, now=0.0):
    names = []
    while (pod := queue.pop(now)) is not None:
        names.append(pod.facts.name)
    return names


def test_higher_priority_goes_first_then_the_one_that_waits_longest():
    queue = a_queue()
    queue.add(facts("early", 10), 1.0)
    queue.add(facts("late", 10), 2.0)
    queue.add(facts("urgent", 20), 3.0)
    assert popped(queue) == ["urgent", "early", "late"]


def test_a_failed_pod_goes_behind_its_equals():
    queue = a_queue(Worth.AT_ONCE)
    queue.add(facts("a"), 1.0)
    queue.add(facts("b"), 2.0)
    first = queue.pop(3.0)
    queue.reject(first, {"Fit"}, {"Fit"}, 3.0)
    queue.notify(EVENT, 4.0)
    assert popped(queue) == ["b", "a"]


def test_backoff_doubles_up_to_ten_seconds():
    queue = a_queue(Worth.AFTER_BACKOFF)
    queue.add(facts("a"), 0.0)
    waits = []
    for _ in range(6):
        pod = queue.pop(0.0)
        queue.reject(pod, {"Fit"}, (), 0.0)
        waits.append(queue.backoff_expiry(pod))
        queue.notify(EVENT, 0.0)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_backoff_lasts_through_the_second_it_expires_in():
    queue = a_queue(Worth.AFTER_BACKOFF)
    queue.add(facts("blocker"), 0.0)
    pod = queue.pop(100.3)
    queue.reject(pod, {"Fit"}, (), 100.3)
    queue.notify(EVENT, 100.4)
    queue.flush(101.9)
    assert queue.count("backoff") == 1
    queue.flush(102.0)
    assert queue.count("active") == 1


def test_with_nothing_active_the_next_in_backoff_is_taken_early_but_not_after_an_error():
    queue = a_queue(Worth.AFTER_BACKOFF)
    queue.add(facts("rejected"), 0.0)
    queue.reject(queue.pop(0.0), {"Fit"}, (), 0.0)
    queue.notify(EVENT, 0.0)
    assert popped(queue) == ["rejected"]
    queue.add(facts("failed"), 0.0)
    queue.fail(queue.pop(0.0), 0.0)
    assert popped(queue) == []
    queue.flush(2.0)
    assert popped(queue) == ["failed"]


def test_an_error_counts_apart_and_a_rejection_resets_it():
    queue = a_queue()
    queue.add(facts("a"), 0.0)
    for expected in (1, 2, 4):
        pod = queue.pop(0.0)
        queue.fail(pod, 0.0)
        assert queue.backoff_expiry(pod) == expected
        queue.flush(100.0)
    pod = queue.pop(100.0)
    queue.reject(pod, {"Fit"}, (), 100.0)
    assert (pod.errors, pod.rejections, queue.backoff_expiry(pod)) == (0, 1, 101)


def test_an_event_during_the_attempt_is_not_missed():
    queue = a_queue(Worth.AFTER_BACKOFF)
    queue.add(facts("a"), 0.0)
    pod = queue.pop(0.0)
    queue.notify(EVENT, 0.0)
    queue.reject(pod, {"Fit"}, (), 0.0)
    assert queue.count("backoff") == 1


def test_an_event_nobody_hinted_leaves_the_pod_waiting():
    queue = a_queue(Worth.NOTHING)
    queue.add(facts("a"), 0.0)
    pod = queue.pop(0.0)
    queue.notify(EVENT, 0.0)
    queue.reject(pod, {"Fit"}, (), 0.0)
    queue.notify(EVENT, 1.0)
    assert queue.count("unschedulable") == 1


def test_events_are_forgotten_once_nothing_is_in_flight():
    queue = a_queue(Worth.AFTER_BACKOFF)
    queue.add(facts("a"), 0.0)
    pod = queue.pop(0.0)
    queue.notify(EVENT, 0.0)
    queue.done(pod.uid)
    queue.add(facts("b"), 0.0)
    pod = queue.pop(0.0)
    queue.reject(pod, {"Fit"}, (), 0.0)
    assert queue.count("unschedulable") == 1


def test_five_minutes_without_an_event_are_enough():
    queue = a_queue()
    queue.add(facts("a"), 0.0)
    queue.reject(queue.pop(0.0), {"Fit"}, (), 0.0)
    queue.flush(300.0)
    assert queue.count("unschedulable") == 1
    queue.flush(301.0)
    assert queue.count("active") == 1


def test_a_gated_pod_waits_without_an_attempt_until_its_gate_opens():
    closed = {"a"}
    queue = a_queue(gatekeeper=lambda f: "gate" if f.name in closed else "")
    queue.add(facts("a"), 0.0)
    assert popped(queue) == [] and queue.count("gated") == 1
    queue.flush(1000.0)
    assert queue.count("gated") == 1
    closed.clear()
    queue.update(facts("a"), 1001.0)
    pod = queue.pop(1001.0)
    assert pod.attempts == 1


def test_a_deleted_pod_is_nowhere():
    queue = a_queue()
    queue.add(facts("a"), 0.0)
    queue.delete("a")
    assert popped(queue) == [] and "a" not in queue


def test_an_updated_pod_is_tried_in_its_newest_version():
    queue = a_queue()
    queue.add(facts("a", priority=1), 0.0)
    queue.update(facts("a", priority=5), 1.0)
    pod = queue.pop(2.0)
    assert pod.facts.priority == 5
    assert queue.pop(2.0) is None


def test_an_event_is_weighed_only_for_pods_that_wait_for_somebody_it_concerns():
    weighed = []
    closed = {"gated"}

    def judge(pod, _event):
        weighed.append(pod.facts.name)
        return Worth.AFTER_BACKOFF

    queue = SchedulingQueue(
        judge=judge,
        gatekeeper=lambda f: "Gate" if f.name in closed else "",
        concerns=lambda blamed, event: event.resource in blamed[1],
    )
    for name, rejectors in (("a", {"Node"}), ("b", {"Pod"}), ("c", {"Node", "Pod"})):
        queue.add(facts(name), 0.0)
        queue.reject(queue.pop(0.0), rejectors, (), 0.0)
    queue.add(facts("gated"), 0.0)
    closed.clear()
    queue.notify(ClusterEvent("Node", "Add"), 0.0)
    assert sorted(weighed) == ["a", "c"]
    assert (queue.count("unschedulable"), queue.count("gated")) == (1, 1)
    queue.notify(ClusterEvent("Gate", "Add"), 0.0)
    assert queue.pop(0.0).facts.name == "gated"
    queue.delete("b")
    weighed.clear()
    queue.notify(ClusterEvent("Pod", "Add"), 0.0)
    assert weighed == []


def test_a_pod_tried_out_of_turn_waits_its_whole_next_backoff():
    queue = a_queue(Worth.AFTER_BACKOFF)
    queue.add(facts("a"), 0.0)
    for now in (0.0, 0.1):
        queue.fail(queue.pop(now), now)
        queue.activate(["a"])
    queue.fail(queue.pop(0.2), 0.2)
    queue.flush(3.0)
    assert queue.pop(3.0) is None
    queue.flush(5.0)
    assert popped(queue, 5.0) == ["a"]
