"""The scheduling queue alone: order, backoff, queueing hints, gates; time is an argument."""

from holdfast.scheduling.framework.events import QueueingStrategy
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.scheduler.queued_pods import BackoffQueue
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from scheduler.queued import EVENT, a_queue, pod_info, pop_names
from scheduler.queueing_rules import rules

BACKOFF = BackoffQueue(initial=1.0, maximum=10.0)


def test_S009_higher_priority_first_then_the_longest_waiting():
    queue = a_queue()
    queue.add(pod_info("early", 10), 1.0)
    queue.add(pod_info("late", 10), 2.0)
    queue.add(pod_info("urgent", 20), 3.0)
    assert pop_names(queue) == ["urgent", "early", "late"]


def test_S009_a_failed_pod_is_queued_behind_its_equals():
    queue = a_queue(QueueingStrategy.IMMEDIATELY)
    queue.add(pod_info("a"), 1.0)
    queue.add(pod_info("b"), 2.0)
    first = queue.pop(3.0)
    queue.requeue_unschedulable(first, {"Fit"}, {"Fit"}, 3.0)
    queue.requeue_for_event(EVENT, 4.0)
    assert pop_names(queue) == ["b", "a"]


def test_S010_backoff_doubles_up_to_ten_seconds():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a"), 0.0)
    waits = []
    for _ in range(6):
        pod = queue.pop(0.0)
        queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
        waits.append(BACKOFF.expiry(pod))
        queue.requeue_for_event(EVENT, 0.0)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_S010_backoff_lasts_through_the_second_it_expires_in():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("blocker"), 0.0)
    pod = queue.pop(100.3)
    queue.requeue_unschedulable(pod, {"Fit"}, (), 100.3)
    queue.requeue_for_event(EVENT, 100.4)
    queue.flush(101.9)
    assert queue.counts()["backoff"] == 1
    queue.flush(102.0)
    assert queue.counts()["active"] == 1


def test_pods_in_backoff_are_popped_early_but_not_after_an_error():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("rejected"), 0.0)
    queue.requeue_unschedulable(queue.pop(0.0), {"Fit"}, (), 0.0)
    queue.requeue_for_event(EVENT, 0.0)
    assert pop_names(queue) == ["rejected"]
    queue.add(pod_info("failed"), 0.0)
    queue.requeue_after_error(queue.pop(0.0), 0.0)
    assert pop_names(queue) == []
    queue.flush(2.0)
    assert pop_names(queue) == ["failed"]


def test_S012_errors_are_counted_separately_and_reset_by_a_rejection():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    for expected in (1, 2, 4):
        pod = queue.pop(0.0)
        queue.requeue_after_error(pod, 0.0)
        assert BACKOFF.expiry(pod) == expected
        queue.flush(100.0)
    pod = queue.pop(100.0)
    queue.requeue_unschedulable(pod, {"Fit"}, (), 100.0)
    assert (pod.errors, pod.rejections, BACKOFF.expiry(pod)) == (0, 1, 101)


def test_an_event_during_the_attempt_is_not_missed():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    queue.requeue_for_event(EVENT, 0.0)
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    assert queue.counts()["backoff"] == 1


def test_an_event_without_a_hint_does_not_requeue_the_pod():
    queue = a_queue(QueueingStrategy.SKIP)
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    queue.requeue_for_event(EVENT, 0.0)
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    queue.requeue_for_event(EVENT, 1.0)
    assert queue.counts()["unschedulable"] == 1


def test_events_are_dropped_when_no_pod_is_in_flight():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a"), 0.0)
    pod = queue.pop(0.0)
    queue.requeue_for_event(EVENT, 0.0)
    queue.done(pod.uid)
    queue.add(pod_info("b"), 0.0)
    pod = queue.pop(0.0)
    queue.requeue_unschedulable(pod, {"Fit"}, (), 0.0)
    assert queue.counts()["unschedulable"] == 1


def test_a_pod_is_requeued_after_five_minutes_without_an_event():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    queue.requeue_unschedulable(queue.pop(0.0), {"Fit"}, (), 0.0)
    queue.flush(300.0)
    assert queue.counts()["unschedulable"] == 1
    queue.flush(330.0)
    assert queue.counts()["active"] == 1
    assert queue.pop(330.0).flushed


def test_a_gated_pod_is_not_tried_until_its_gate_is_removed():
    closed = {"a"}
    queue = a_queue(
        QueueingStrategy.IMMEDIATELY, gating_plugin=lambda f: "gate" if f.name in closed else ""
    )
    queue.add(pod_info("a"), 0.0)
    assert pop_names(queue) == [] and queue.counts()["gated"] == 1
    queue.flush(1000.0)
    queue.update(pod_info("a"), 1001.0, [EVENT])
    assert queue.counts()["gated"] == 1
    closed.clear()
    queue.update(pod_info("a"), 1001.0, [EVENT])
    pod = queue.pop(1001.0)
    assert pod.attempts == 1


def test_a_gated_pod_ignores_events_its_gating_plugin_did_not_register_for():
    closed = {"a"}
    queue = a_queue(
        QueueingStrategy.IMMEDIATELY, gating_plugin=lambda f: "gate" if f.name in closed else ""
    )
    queue.rules = rules(
        queue.rules,
        interested_plugins=lambda event: {"Fit", "gate"} if event.action == "Open" else {"Fit"},
    )
    queue.add(pod_info("a"), 0.0)
    closed.clear()
    queue.update(pod_info("a"), 1.0, [EVENT])
    queue.requeue_for_event(EVENT, 1.0)
    assert queue.counts()["gated"] == 1
    queue.requeue_for_event(ClusterEvent("Node", "Open"), 1.0)
    assert queue.counts()["active"] == 1


def test_an_event_without_interested_plugins_runs_no_hints():
    asked = []
    queue = SchedulingQueue(
        rules(
            queueing_strategy=lambda *event: asked.append(event), interested_plugins=lambda _: set()
        )
    )
    queue.add(pod_info("a"), 0.0)
    queue.requeue_unschedulable(queue.pop(0.0), {"Fit"}, (), 0.0)
    queue.requeue_for_event(EVENT, 1.0)
    assert (asked, queue.counts()["unschedulable"]) == ([], 1)


def test_hints_do_not_run_for_each_of_ten_thousand_pods():
    """Hints run only for plugins interested in the event, and once for equivalent pods."""
    asked = []

    def queueing_strategy(pod, event):
        asked.append((pod.pod_info.name, event.action))
        return QueueingStrategy.AFTER_BACKOFF if event.action == "Delete" else QueueingStrategy.SKIP

    interested = {"Add": {"Fit"}, "Delete": {"Fit"}, "UpdateNodeTaint": {"Taints"}}
    queue = SchedulingQueue(
        rules(
            queueing_strategy=queueing_strategy,
            interested_plugins=lambda e: interested.get(e.action, set()),
            equivalence_key=lambda pod: pod.pod_info.priority,
        )
    )
    for i in range(10_000):
        queue.add(pod_info(f"p{i}", priority=i % 5), 0.0)
        queue.requeue_unschedulable(queue.pop(0.0), {"Fit"} if i else {"Taints"}, (), 0.0)
    for action in ("UpdateNodeLabel", "Add", "UpdateNodeTaint"):
        for _ in range(100):
            queue.requeue_for_event(ClusterEvent("Node", action), 0.0)
    assert len(asked) == 100 * 5 + 100
    queue.requeue_for_event(ClusterEvent("AssignedPod", "Delete"), 0.0)
    assert len(asked) == 600 + 5
    assert queue.counts() == {"backoff": 9_999, "unschedulable": 1}


def test_a_stale_backoff_entry_is_skipped():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a"), 0.0)
    for now in (0.0, 0.5):
        queue.requeue_unschedulable(queue.pop(now), {"Fit"}, (), now)
        queue.requeue_for_event(EVENT, now)
        queue.activate(["a"])
    queue.requeue_unschedulable(queue.pop(0.6), {"Fit"}, (), 0.6)
    queue.requeue_for_event(EVENT, 0.6)
    queue.flush(3.0)
    assert queue.counts()["backoff"] == 1


def test_activating_an_in_flight_pod_requeues_only_that_pod():
    queue = a_queue(QueueingStrategy.SKIP)
    queue.add(pod_info("a"), 0.0)
    queue.add(pod_info("b"), 0.0)
    a, b = queue.pop(0.0), queue.pop(0.0)
    queue.activate(["a"])
    queue.requeue_unschedulable(a, {"Fit"}, (), 0.0)
    queue.requeue_unschedulable(b, {"Fit"}, (), 0.0)
    assert (a.queue_name, b.queue_name) == ("backoff", "unschedulable")


def test_on_move_gets_the_queue_and_the_event():
    moves = []
    queue = SchedulingQueue(rules(queueing_strategy=lambda *_: QueueingStrategy.AFTER_BACKOFF))
    queue.on_move = lambda *move: moves.append(move)
    queue.add(pod_info("a"), 0.0)
    queue.requeue_unschedulable(queue.pop(0.0), {"Fit"}, (), 0.0)
    queue.requeue_for_event(EVENT, 0.0)
    queue.flush(2.0)
    queue.requeue_after_error(queue.pop(2.0), 2.0)
    queue.activate(["a"])
    queue.requeue_unschedulable(queue.pop(2.0), {"Fit"}, (), 2.0)
    queue.requeue_for_event(EVENT, 2.0)
    queue.pop(2.0)
    assert moves == [
        ("active", "UnschedulablePodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "BackoffComplete"),
        ("backoff", "ScheduleAttemptFailure"),
        ("active", "ForceActivate"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "PopFromBackoffQ"),
    ]


def test_a_deleted_pod_is_in_no_queue():
    queue = a_queue()
    queue.add(pod_info("a"), 0.0)
    queue.delete("a")
    assert pop_names(queue) == [] and "a" not in queue


def test_the_newest_version_of_a_pod_is_popped():
    queue = a_queue()
    queue.add(pod_info("a", priority=1), 0.0)
    queue.update(pod_info("a", priority=5), 1.0)
    pod = queue.pop(2.0)
    assert pod.pod_info.priority == 5
    assert queue.pop(2.0) is None


def test_adding_a_queued_pod_again_updates_it():
    queue = a_queue()
    queue.add(pod_info("a", priority=1), 0.0)
    queue.add(pod_info("a", priority=5), 1.0)
    assert queue.pop(2.0).pod_info.priority == 5
    assert queue.pop(2.0) is None


def test_hints_run_only_for_pods_rejected_by_interested_plugins():
    weighed = []
    closed = {"gated"}

    def queueing_strategy(pod, _event):
        weighed.append(pod.pod_info.name)
        return QueueingStrategy.AFTER_BACKOFF

    queue = SchedulingQueue(
        rules(
            queueing_strategy=queueing_strategy,
            gating_plugin=lambda f: "Gate" if f.name in closed else "",
            interested_plugins=lambda event: {event.resource},
        )
    )
    for name, rejectors in (("a", {"Node"}), ("b", {"Pod"}), ("c", {"Node", "Pod"})):
        queue.add(pod_info(name), 0.0)
        queue.requeue_unschedulable(queue.pop(0.0), rejectors, (), 0.0)
    queue.add(pod_info("gated"), 0.0)
    closed.clear()
    queue.requeue_for_event(ClusterEvent("Node", "Add"), 0.0)
    assert sorted(weighed) == ["a", "c"]
    assert (queue.counts()["unschedulable"], queue.counts()["gated"]) == (1, 1)
    queue.requeue_for_event(ClusterEvent("Gate", "Add"), 0.0)
    assert queue.pop(0.0).pod_info.name == "gated"
    queue.delete("b")
    weighed.clear()
    queue.requeue_for_event(ClusterEvent("Pod", "Add"), 0.0)
    assert weighed == []


def test_a_pod_popped_early_waits_its_whole_next_backoff():
    queue = a_queue(QueueingStrategy.AFTER_BACKOFF)
    queue.add(pod_info("a"), 0.0)
    for now in (0.0, 0.1):
        queue.requeue_after_error(queue.pop(now), now)
        queue.activate(["a"])
    queue.requeue_after_error(queue.pop(0.2), 0.2)
    queue.flush(3.0)
    assert queue.pop(3.0) is None
    queue.flush(5.0)
    assert pop_names(queue, 5.0) == ["a"]
