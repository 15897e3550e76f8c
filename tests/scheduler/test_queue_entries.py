"""The state of the scheduling queue: stale entries, in-flight events, counts."""

import pytest

from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from scheduler.queued import EVENT, a_queue, pod_info, pop_names
from scheduler.queueing_rules import rules


def add_rejected(queue, name, now=0.0, by=("Fit",), priority=0):
    """Add a pod and reject its first attempt."""
    queue.add(pod_info(name, priority), now)
    pod = queue.pop(now)
    queue.requeue_unschedulable(pod, set(by), (), now)
    return pod


def test_a_pod_with_lowered_priority_is_popped_once_in_its_new_order():
    queue = a_queue()
    queue.add(pod_info("a", 10), 0.0)
    queue.update(pod_info("a", 1), 0.0)
    queue.add(pod_info("b", 5), 0.0)
    assert pop_names(queue) == ["b", "a"]


def test_a_stale_entry_does_not_advance_a_requeued_pod():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    queue.add(pod_info("a", 10), 0.0)
    queue.update(pod_info("a", 20), 0.0)
    queue.update(pod_info("a", 1), 0.0)
    queue.add(pod_info("b", 5), 1.0)
    queue.requeue_unschedulable(queue.pop(1.0), {"Fit"}, {"Fit"}, 1.0)
    queue.requeue_for_event(EVENT, 1.0)
    assert pop_names(queue, 1.0) == ["b", "a"]


def test_a_pod_deleted_and_created_again_is_popped_once():
    queue = a_queue()
    queue.add(pod_info("a", 10), 0.0)
    queue.delete("a")
    queue.add(pod_info("a", 1), 1.0)
    queue.add(pod_info("b", 5), 1.0)
    assert pop_names(queue, 1.0) == ["b", "a"]


def test_a_pod_in_backoff_is_not_popped_by_a_stale_entry():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    queue.update(pod_info("a"), 0.0)
    queue.requeue_unschedulable(queue.pop(0.0), {"Fit"}, (), 0.0)
    assert queue.pop(0.0) is None
    assert queue.counts()["unschedulable"] == 1


def test_backoff_ties_are_broken_by_priority_then_age():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    for name, priority, now in (("late", 1, 0.2), ("early", 1, 0.1), ("urgent", 2, 0.3)):
        add_rejected(queue, name, now, priority=priority)
    queue.requeue_for_event(EVENT, 0.5)
    assert pop_names(queue, 0.5) == ["urgent", "early", "late"]


def test_the_time_of_the_first_attempt_is_kept():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    queue.add(pod_info("a"), 3.0)
    pod = queue.pop(5.0)
    assert (pod.initial_attempt_time, pod.attempts) == (3.0, 1)
    queue.requeue_unschedulable(pod, {"Fit"}, (), 6.0)
    queue.requeue_for_event(EVENT, 7.0)
    assert (queue.pop(8.0).initial_attempt_time, pod.attempts) == (3.0, 2)


def test_an_activated_gated_pod_gets_its_first_time_when_popped():
    closed = {"a"}
    queue = a_queue(gating_plugin=lambda f: "gate" if f.name in closed else "")
    queue.add(pod_info("a"), 1.0)
    closed.clear()
    queue.activate(["a"])
    assert queue.pop(9.0).initial_attempt_time == 9.0


def test_a_pod_deleted_in_flight_is_not_requeued():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    queue.delete("a")
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    assert (len(queue), "a" in queue) == (0, False)
    queue.delete("a")


def test_an_update_in_flight_counts_for_the_next_attempt():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a", 1), 0.0)
    pod = queue.pop(0.0)
    queue.update(pod_info("a", 2), 0.0, [EVENT])
    assert "a" not in queue
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    assert (pod.queue_name, pod.pod_info.priority) == ("backoff", 2)


def test_only_events_since_the_pop_count_for_a_pod():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a"), 0.0)
    queue.add(pod_info("b"), 0.0)
    a = queue.pop(0.0)
    queue.requeue_for_event(EVENT, 0.0)
    b = queue.pop(0.0)
    assert queue.in_flight_events() == {"NodeAdd": 1, "PodPopped": 2}
    queue.requeue_unschedulable(b, {"Fit"}, (), 0.0)
    queue.requeue_unschedulable(a, {"Fit"}, (), 0.0)
    assert (a.queue_name, b.queue_name) == ("backoff", "unschedulable")
    assert queue.in_flight_events() == {"PodPopped": 0}


def test_events_are_kept_since_the_oldest_in_flight_pod():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    for name in "abc":
        queue.add(pod_info(name), 0.0)
    a, b = queue.pop(0.0), queue.pop(0.0)
    queue.requeue_for_event(EVENT, 0.0)
    c = queue.pop(0.0)
    queue.requeue_for_event(ClusterEvent("Node", "Delete"), 0.0)
    queue.done(a.uid)
    assert queue.in_flight_events() == {"NodeAdd": 1, "NodeDelete": 1, "PodPopped": 2}
    queue.done(b.uid)
    assert queue.in_flight_events() == {"NodeDelete": 1, "PodPopped": 1}
    queue.requeue_unschedulable(c, {"Fit"}, (), 0.0)
    assert c.queue_name == "backoff"


def test_pods_are_counted_by_queue_plugin_and_profile():
    queue = a_queue(gating_plugin=lambda f: "gate" if f.name == "gated" else "")
    add_rejected(queue, "a", by=("Fit", "Taints"))
    add_rejected(queue, "b")
    queue.add(pod_info("gated"), 0.0)
    queue.add(pod_info("c"), 0.0)
    name = queue.pop(0.0).pod_info.scheduler_name
    queue.add(pod_info("d"), 0.0)
    assert queue.pods_by_queue() == {"unschedulable": ["default/a", "default/b"],
                              "gated": ["default/gated"], "active": ["default/d"]}  # fmt: skip
    assert queue.unschedulable_by_plugin() == {
        ("Fit", name): 2,
        ("Taints", name): 1,
        ("gate", name): 1,
    }
    assert (len(queue), "a" in queue, "c" in queue) == (4, True, False)


def test_unschedulable_pods_are_flushed_every_thirty_seconds():
    queue = a_queue()
    queue.flush(0.0)
    add_rejected(queue, "a", 0.0)
    add_rejected(queue, "b", 0.1)
    queue.flush(300.0)
    queue.flush(329.9)
    assert queue.counts()["unschedulable"] == 2
    queue.flush(330.0)
    assert queue.counts()["active"] == 2


def test_a_pod_is_unschedulable_for_at_least_five_minutes():
    queue = a_queue()
    add_rejected(queue, "a", 0.0)
    add_rejected(queue, "b", 1.0)
    queue.flush(301.0)
    assert pop_names(queue, 301.0) == ["a"]
    assert queue.counts()["unschedulable"] == 1


def test_flushed_is_set_until_the_next_rejection():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    assert not pod.flushed
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    assert not pod.flushed
    queue.flush(301.0)
    assert queue.pop(301.0).flushed
    queue.requeue_unschedulable(pod, {"Fit"}, (), 301.0)
    assert not pod.flushed


def test_an_event_can_be_limited_to_some_pods():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    for name in "ab":
        add_rejected(queue, name)
    queue.requeue_for_event(EVENT, 0.0, only=lambda pod: pod.pod_info.name == "b")
    assert pop_names(queue) == ["b"]


def test_a_gated_pod_is_checked_again():
    closed = {"a"}
    queue = a_queue(gating_plugin=lambda f: "gate" if f.name in closed else "")
    queue.add(pod_info("a"), 0.0)
    queue.recheck_gate("a", "Opened", 1.0)
    assert queue.counts()["gated"] == 1
    closed.clear()
    queue.recheck_gate("a", "Opened", 1.0)
    assert pop_names(queue, 1.0) == ["a"]
    add_rejected(queue, "b", 1.0)
    queue.recheck_gate("b", "Opened", 100.0)
    queue.recheck_gate("unknown", "Opened", 100.0)
    assert queue.counts()["unschedulable"] == 1


def test_activating_an_active_or_unknown_pod_changes_nothing():
    moves = []
    queue = a_queue()
    queue.on_move = lambda *move: moves.append(move)
    queue.add(pod_info("a"), 0.0)
    queue.activate(["a", "unknown"])
    assert moves == [("active", "UnschedulablePodAdd")]
    assert pop_names(queue) == ["a"]


def test_on_ready_is_called_for_active_pods_and_pods_in_backoff():
    woken = []
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.on_ready = lambda: woken.append(queue.counts())
    queue.add(pod_info("a"), 0.0)
    queue.requeue_after_error(queue.pop(0.0), 0.0)
    queue.flush(2.0)
    assert woken == [{"active": 1}, {"backoff": 1}, {"active": 1}]


@pytest.mark.parametrize("tries", [5, 31, 32, 2000])
def test_backoff_never_exceeds_the_maximum(tries):
    queue = SchedulingQueue(
        rules(queueing_strategy=lambda *_: QueueingStrategy.SKIP), maximum_backoff=9.0
    )
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    pod.errors = tries - 1
    queue.requeue_after_error(pod, 4.0)
    queue.flush(13.9)
    assert queue.counts() == {"backoff": 1}
    queue.flush(14.0)
    assert queue.counts() == {"active": 1}


def test_a_rejection_without_plugins_counts_as_an_error():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    queue.requeue_unschedulable(pod, (), (), 0.0)
    assert (pod.queue_name, pod.errors, pod.rejections) == ("backoff", 1, 0)


def test_equivalence_keys_are_computed_again_in_a_new_epoch():
    asked, grouped, mark = [], [], [0]

    def equivalence_key(pod):
        grouped.append(pod.pod_info.name)
        return kinds[pod.pod_info.name]

    def queueing_strategy(pod, _event):
        asked.append(pod.pod_info.name)
        return QueueingStrategy.SKIP

    kinds = {"a": 1, "b": 1}
    queue = SchedulingQueue(
        rules(
            queueing_strategy=queueing_strategy,
            interested_plugins=lambda _: {"Fit"},
            equivalence_key=equivalence_key,
            equivalence_epoch=lambda: mark[0],
        )
    )
    for name in "ab":
        add_rejected(queue, name)
    queue.requeue_for_event(EVENT, 0.0)
    kinds["b"] = 2
    queue.requeue_for_event(EVENT, 0.0)
    assert asked == ["a", "a"]
    grouped.clear()
    mark[0] = 1
    for _ in range(2):
        queue.requeue_for_event(EVENT, 0.0)
    assert asked == ["a", "a", "a", "b", "a", "b"]
    assert grouped == ["a", "b"], "keys are computed again once"


def test_hints_run_for_each_event_of_an_update():
    queue = SchedulingQueue(
        rules(
            queueing_strategy=lambda _pod, event: (
                QueueingStrategy.IMMEDIATELY if event.action == "B" else QueueingStrategy.SKIP
            )
        )
    )
    moves = []
    add_rejected(queue, "a")
    queue.on_move = lambda *move: moves.append(move)
    queue.update(pod_info("a"), 0.0, [ClusterEvent("Pod", "A")])
    assert queue.counts()["unschedulable"] == 1
    events = [ClusterEvent("Pod", action) for action in "ABB"]
    queue.update(pod_info("a"), 0.0, events)
    assert moves == [("active", "PodB")]


def test_a_gated_pod_is_counted_once_however_often_it_is_checked():
    moves = []
    queue = a_queue(gating_plugin=lambda _: "gate")
    queue.on_move = lambda *move: moves.append(move)
    queue.add(pod_info("a"), 0.0)
    queue.activate(["a"])
    queue.recheck_gate("a", "Opened", 1.0)
    assert moves == [("unschedulable", "UnschedulablePodAdd")]


def test_events_are_dropped_as_attempts_end():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    for name in "abc":
        queue.add(pod_info(name), 0.0)
    pods = []
    for action in ("One", "Two", "Three"):
        pods.append(queue.pop(0.0))
        queue.requeue_for_event(ClusterEvent("Node", action), 0.0)
    queue.done("a")
    queue.done("b")
    assert queue.in_flight_events() == {"NodeThree": 1, "PodPopped": 1}
    queue.requeue_unschedulable(pods[2], {"Fit"}, (), 0.0)
    assert pods[2].queue_name == "backoff"


def test_default_backoff_is_one_to_ten_seconds():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    waits, now = [], 0.0
    for _ in range(6):
        began = now
        queue.requeue_after_error(queue.pop(now), now)
        while not queue.counts()["active"]:
            now += 1
            queue.flush(now)
        waits.append(now - began - 1)  # it waits through the second in which its backoff ends
    assert waits == [1, 2, 4, 8, 10, 10]
