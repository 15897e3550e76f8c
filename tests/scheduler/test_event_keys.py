"""A plugin that has keys for pods and events is asked only about the pods of an event."""

import pytest

from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.events import ClusterEvent, QueueingStrategy
from holdfast.scheduling.framework.plugin import Plugin
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.queueing_hints import QueueingHints
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.testing import a_pod, typed

EVENT = ClusterEvent("Claim", "Update", None, "b")


class ByName(Plugin):
    """Waits for an event that has the pod's name as key."""

    name = "ByName"

    def __init__(self, hint=True):
        self.hint = hint
        self.asked = []

    def pod_keys(self, pod):
        return [pod.name, pod.name]

    def event_keys(self, event):
        return None if event.resource == "Node" else [event.new]

    def queueing_hint(self, event, pod, view):
        self.asked.append(pod.name)
        return self.hint


def waiting(plugin, *names, pending=False):
    """A queue in which the plugin has rejected these pods."""
    world = World()
    hints = QueueingHints({"default-scheduler": Profile("x", (plugin,))}, world, lambda: 0.0)
    queue = SchedulingQueue(hints)
    for name in names:
        queue.add(world.pod_info(typed(a_pod(name))), 0.0)
        rejected = {plugin.name}
        queue.requeue_unschedulable(queue.pop(0.0), rejected, rejected if pending else (), 0.0)
    return queue


def test_only_pods_with_a_key_of_the_event_are_asked():
    plugin = ByName()
    queue = waiting(plugin, "a", "b", "c")
    queue.requeue_for_event(ClusterEvent("Claim", "Update", None, "z"), 100.0)
    assert plugin.asked == []
    queue.requeue_for_event(EVENT, 100.0)
    assert plugin.asked == ["b"]
    assert queue.counts() == {"unschedulable": 2, "active": 1}
    queue.requeue_for_event(ClusterEvent("Node", "Add", None, "n"), 100.0)
    assert sorted(plugin.asked) == ["a", "b", "c"]


def test_a_deleted_pod_has_no_keys():
    plugin = ByName()
    queue = waiting(plugin, "a", "b")
    queue.delete("uid-pod-default-b")
    queue.requeue_for_event(EVENT, 100.0)
    assert plugin.asked == []


@pytest.mark.parametrize(
    ("hint", "pending", "queue_name"),
    [
        (True, False, "backoff"),
        (True, True, "active"),
        (QueueingStrategy.IMMEDIATELY, False, "active"),
        (QueueingStrategy.AFTER_BACKOFF, True, "backoff"),
        (QueueingStrategy.SKIP, True, "unschedulable"),
        (False, True, "unschedulable"),
    ],
)
def test_a_hint_may_decide_about_backoff(hint, pending, queue_name):
    queue = waiting(ByName(hint), "b", pending=pending)
    queue.requeue_for_event(EVENT, 0.5)
    assert queue.counts() == {queue_name: 1}
