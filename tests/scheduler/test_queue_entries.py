"""What the queue keeps: stale entries, events for attempts under way, who waits where, and why."""

import pytest

from holdfast.framework.plugin import ClusterEvent
from holdfast.scheduler.queued_pods import QueueingStrategy
from holdfast.scheduler.scheduling_queue import SchedulingQueue
from scheduler.test_queue import EVENT, a_queue, pod_info, popped


def rejected(queue, name, now=0.0, by=("Fit",), priority=0):
    """A pod that was tried once and fits nowhere."""
    queue.add(pod_info(name, priority), now)
    pod = queue.pop(now)
    queue.requeue_unschedulable(pod, set(by), (), now)
    return pod


def test_a_pod_of_lowered_priority_is_tried_once_and_in_its_new_place():
    queue = a_queue()
    queue.add(pod_info("a", 10), 0.0)
    queue.update(pod_info("a", 1), 0.0)
    queue.add(pod_info("b", 5), 0.0)
    assert popped(queue) == ["b", "a"]


def test_an_entry_left_behind_does_not_bring_a_pod_forward_that_came_back():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    queue.add(pod_info("a", 10), 0.0)
    queue.update(pod_info("a", 20), 0.0)
    queue.update(pod_info("a", 1), 0.0)
    queue.add(pod_info("b", 5), 1.0)
    queue.requeue_unschedulable(queue.pop(1.0), {"Fit"}, {"Fit"}, 1.0)
    queue.requeue_for_event(EVENT, 1.0)
    assert popped(queue, 1.0) == ["b", "a"]


def test_a_pod_deleted_and_made_again_is_tried_once():
    queue = a_queue()
    queue.add(pod_info("a", 10), 0.0)
    queue.delete("a")
    queue.add(pod_info("a", 1), 1.0)
    queue.add(pod_info("b", 5), 1.0)
    assert popped(queue, 1.0) == ["b", "a"]


def test_a_pod_that_waits_is_not_popped_through_an_older_entry():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    queue.update(pod_info("a"), 0.0)
    queue.requeue_unschedulable(queue.pop(0.0), {"Fit"}, (), 0.0)
    assert queue.pop(0.0) is None
    assert queue.counts()["unschedulable"] == 1


def test_of_equal_pods_in_backoff_the_more_important_then_the_earlier_comes_first():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    for name, priority, now in (("late", 1, 0.2), ("early", 1, 0.1), ("urgent", 2, 0.3)):
        rejected(queue, name, now, priority=priority)
    queue.requeue_for_event(EVENT, 0.5)
    assert popped(queue, 0.5) == ["urgent", "early", "late"]


def test_when_a_pod_first_stood_in_line_is_kept():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    queue.add(pod_info("a"), 3.0)
    pod = queue.pop(5.0)
    assert (pod.initial_attempt_time, pod.attempts) == (3.0, 1)
    queue.requeue_unschedulable(pod, {"Fit"}, (), 6.0)
    queue.requeue_for_event(EVENT, 7.0)
    assert (queue.pop(8.0).initial_attempt_time, pod.attempts) == (3.0, 2)


def test_a_pod_let_in_without_a_time_entered_when_it_was_popped():
    closed = {"a"}
    queue = a_queue(gating_plugin=lambda f: "gate" if f.name in closed else "")
    queue.add(pod_info("a"), 1.0)
    closed.clear()
    queue.activate(["a"])
    assert queue.pop(9.0).initial_attempt_time == 9.0


def test_a_pod_deleted_while_it_is_tried_does_not_come_back():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    queue.delete("a")
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    assert (len(queue), "a" in queue) == (0, False)
    queue.delete("a")


def test_what_changed_while_a_pod_was_tried_counts_for_its_next_try():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a", 1), 0.0)
    pod = queue.pop(0.0)
    queue.update(pod_info("a", 2), 0.0, [EVENT])
    assert "a" not in queue
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    assert (pod.queue_name, pod.pod_info.priority) == ("backoff", 2)


def test_only_events_since_its_pop_count_for_a_pod():
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


def test_events_are_kept_for_the_oldest_attempt_only():
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


def test_waiting_pods_are_counted_by_place_plugin_and_profile():
    queue = a_queue(gating_plugin=lambda f: "gate" if f.name == "gated" else "")
    rejected(queue, "a", by=("Fit", "Taints"))
    rejected(queue, "b")
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


def test_long_waiting_pods_are_looked_for_every_thirty_seconds():
    queue = a_queue()
    queue.flush(0.0)
    rejected(queue, "a", 0.0)
    rejected(queue, "b", 0.1)
    queue.flush(300.0)
    queue.flush(329.9)
    assert queue.counts()["unschedulable"] == 2
    queue.flush(330.0)
    assert queue.counts()["active"] == 2


def test_a_pod_waits_five_minutes_and_not_a_moment_less():
    queue = a_queue()
    rejected(queue, "a", 0.0)
    rejected(queue, "b", 1.0)
    queue.flush(301.0)
    assert popped(queue, 301.0) == ["a"]
    assert queue.counts()["unschedulable"] == 1


def test_a_pod_that_was_flushed_says_so_until_it_is_tried_again():
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


def test_only_some_of_the_pods_that_an_event_helps_can_be_meant():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    for name in "ab":
        rejected(queue, name)
    queue.requeue_for_event(EVENT, 0.0, only=lambda pod: pod.pod_info.name == "b")
    assert popped(queue) == ["b"]


def test_a_gate_that_was_opened_is_looked_at_again():
    closed = {"a"}
    queue = a_queue(gating_plugin=lambda f: "gate" if f.name in closed else "")
    queue.add(pod_info("a"), 0.0)
    queue.recheck_gate("a", "Opened", 1.0)
    assert queue.counts()["gated"] == 1
    closed.clear()
    queue.recheck_gate("a", "Opened", 1.0)
    assert popped(queue, 1.0) == ["a"]
    rejected(queue, "b", 1.0)
    queue.recheck_gate("b", "Opened", 100.0)
    queue.recheck_gate("nobody", "Opened", 100.0)
    assert queue.counts()["unschedulable"] == 1


def test_activating_what_is_active_or_unknown_changes_nothing():
    moves = []
    queue = a_queue()
    queue.on_move = lambda *move: moves.append(move)
    queue.add(pod_info("a"), 0.0)
    queue.activate(["a", "nobody"])
    assert moves == [("active", "UnschedulablePodAdd")]
    assert popped(queue) == ["a"]


def test_whoever_waits_for_work_is_woken_by_pods_to_try_and_pods_in_backoff():
    woken = []
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.on_ready = lambda: woken.append(queue.counts())
    queue.add(pod_info("a"), 0.0)
    queue.requeue_after_error(queue.pop(0.0), 0.0)
    queue.flush(2.0)
    assert woken == [{"active": 1}, {"backoff": 1}, {"active": 1}]


@pytest.mark.parametrize("tries", [5, 31, 32, 2000])
def test_backoff_never_exceeds_the_longest(tries):
    queue = SchedulingQueue(queueing_strategy=lambda *_: QueueingStrategy.SKIP, longest_backoff=9.0)
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    pod.errors = tries - 1
    queue.requeue_after_error(pod, 4.0)
    queue.flush(13.9)
    assert queue.counts() == {"backoff": 1}
    queue.flush(14.0)
    assert queue.counts() == {"active": 1}


def test_without_anybody_to_blame_a_rejection_is_an_error():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    queue.requeue_unschedulable(pod, (), (), 0.0)
    assert (pod.queue_name, pod.errors, pod.rejections) == ("backoff", 1, 0)


def test_pods_are_alike_only_while_the_mark_stays():
    asked, filed, mark = [], [], [0]

    def equivalence_key(pod):
        filed.append(pod.pod_info.name)
        return kinds[pod.pod_info.name]

    def queueing_strategy(pod, _event):
        asked.append(pod.pod_info.name)
        return QueueingStrategy.SKIP

    kinds = {"a": 1, "b": 1}
    queue = SchedulingQueue(
        queueing_strategy=queueing_strategy,
        interested_plugins=lambda _: {"Fit"},
        equivalence_key=equivalence_key,
        mark=lambda: mark[0],
    )
    for name in "ab":
        rejected(queue, name)
    queue.requeue_for_event(EVENT, 0.0)
    kinds["b"] = 2
    queue.requeue_for_event(EVENT, 0.0)
    assert asked == ["a", "a"]
    filed.clear()
    mark[0] = 1
    for _ in range(2):
        queue.requeue_for_event(EVENT, 0.0)
    assert asked == ["a", "a", "a", "b", "a", "b"]
    assert filed == ["a", "b"], "filed anew once"


def test_an_update_of_a_waiting_pod_is_weighed_event_by_event():
    queue = SchedulingQueue(
        queueing_strategy=lambda _pod, event: (
            QueueingStrategy.IMMEDIATELY if event.action == "B" else QueueingStrategy.SKIP
        )
    )
    moves = []
    rejected(queue, "a")
    queue.on_move = lambda *move: moves.append(move)
    queue.update(pod_info("a"), 0.0, [ClusterEvent("Pod", "A")])
    assert queue.counts()["unschedulable"] == 1
    events = [ClusterEvent("Pod", action) for action in "ABB"]
    queue.update(pod_info("a"), 0.0, events)
    assert moves == [("active", "PodB")]


def test_a_gated_pod_is_told_of_once_however_often_its_gate_is_tried():
    moves = []
    queue = a_queue(gating_plugin=lambda _: "gate")
    queue.on_move = lambda *move: moves.append(move)
    queue.add(pod_info("a"), 0.0)
    queue.activate(["a"])
    queue.recheck_gate("a", "Opened", 1.0)
    assert moves == [("unschedulable", "UnschedulablePodAdd")]


def test_events_are_dropped_attempt_by_attempt():
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


def test_by_default_a_pod_waits_one_second_and_never_more_than_ten():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    waits, now = [], 0.0
    for _ in range(6):
        began = now
        queue.requeue_after_error(queue.pop(now), now)
        while not queue.counts()["active"]:
            now += 1
            queue.flush(now)
        waits.append(now - began - 1)  # it waits through the second in which its time is over
    assert waits == [1, 2, 4, 8, 10, 10]
