"""Queueing hints: which events requeue a rejected pod."""

import itertools

import pytest

from holdfast.scheduling.framework.plugin import ClusterEvent, Plugin
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.scheduler.event_handlers import node_changes, pod_changes
from holdfast.testing import a_node, a_pod, typed
from plugins.deciding import PROFILE, a_world


def is_requeued(plugin, pod, resource, action, old=None, new=None):
    world = a_world(a_node("n1"))
    pod_info = world.pod_info(typed(pod))
    old, new = (None if raw is None else typed(raw) for raw in (old, new))
    event = ClusterEvent(resource, action, old, new)
    return PROFILE.plugin(plugin).queueing_hint(event, pod_info, View(world, pod_info, 0.0))


def test_S015_more_allocatable_requeues_and_a_label_does_not():
    pod = a_pod(cpu="3")

    def grew(before, after, action="UpdateNodeAllocatable"):
        old, new = a_node("n1", cpu=before), a_node("n1", cpu=after)
        return is_requeued("NodeResourcesFit", pod, "Node", action, old, new)

    assert grew("2", "4")
    assert not grew("2", "2500m")
    assert not grew("4", "4", "UpdateNodeLabel")


def test_S018_only_the_untolerated_taint_matters():
    def taint(*keys):
        return a_node("n1", taints=[{"key": k, "value": "", "effect": "NoSchedule"} for k in keys])

    def changed(before, after):
        return is_requeued("TaintToleration", a_pod(), "Node", "UpdateNodeTaint", before, after)

    assert changed(taint("a"), taint())
    assert not changed(taint("a"), taint("a", "b"))
    assert not changed(taint(), taint())


def test_every_deleted_pod_may_help():
    deleted = a_pod("gone", node="n1")
    assert is_requeued("NodeResourcesFit", a_pod(), "AssignedPod", "Delete", deleted)
    assert not is_requeued("NodeResourcesFit", a_pod(), "UnschedulablePod", "Delete", a_pod("w"))


def test_a_pod_that_requests_less_may_help():
    big, small = a_pod("o", cpu="4", node="n1"), a_pod("o", cpu="1", node="n1")
    action = "UpdatePodScaleDown"
    assert is_requeued("NodeResourcesFit", a_pod(), "AssignedPod", action, big, small)
    memory = a_pod(cpu=None, memory="1Gi")
    assert not is_requeued("NodeResourcesFit", memory, "AssignedPod", action, big, small)


def test_only_the_pods_own_gates_count():
    pod = a_pod("mine")
    action = "UpdatePodSchedulingGatesEliminated"
    assert is_requeued("SchedulingGates", pod, "UnschedulablePod", action, pod, pod)
    other = a_pod("other")
    assert not is_requeued("SchedulingGates", pod, "UnschedulablePod", action, other, other)


def test_uncordoning_a_node_requeues():
    open_, closed = a_node("n1"), a_node("n1", unschedulable=True)
    assert is_requeued("NodeUnschedulable", a_pod(), "Node", "UpdateNodeTaint", closed, open_)
    assert not is_requeued("NodeUnschedulable", a_pod(), "Node", "UpdateNodeTaint", open_, closed)


TAINT = [{"key": "k", "effect": "NoSchedule"}]
NODES = [
    None, a_node("n"), a_node("n", cpu="99"), a_node("n", labels={"zone": "a"}),
    a_node("n", taints=TAINT), a_node("n", unschedulable=True), a_node("n", ready=False),
    a_node("n", cpu="99", labels={"zone": "a"}, taints=TAINT, annotations={"a": "b"}),
]  # fmt: skip
PODS = [
    None, a_pod("q", cpu="2", node="n"), a_pod("q", cpu="1", node="n"),
    a_pod("q", cpu="2", node="n", labels={"app": "web"}),
    a_pod("q", cpu="1", node="n", labels={"app": "web"}, annotations={"a": "b"}),
    a_pod("q", cpu="2", node="n", metadata={"deletion_timestamp": "2030-01-01T00:00:00Z"}),
    a_pod("q", cpu="2", node="n", containers=[{"name": "c", "ports": [{"hostPort": 80}]}]),
]  # fmt: skip
WAITING = [
    a_pod("w"), a_pod("w", cpu="50"), a_pod("w", node_selector={"zone": "a"}),
    a_pod("w", tolerations=[{"operator": "Exists"}]), a_pod("w", labels={"app": "web"}),
    a_pod("w", containers=[{"name": "c", "ports": [{"hostPort": 80}]}]),
]  # fmt: skip


def all_events(resource, changes, versions):
    """Every way the object can change, as the events the scheduler makes of it."""
    for old, new in itertools.permutations(versions, 2):
        before, after = old and typed(old), new and typed(new)
        actions = ["Delete" if new is None else "Add"]
        if before is not None and after is not None:
            actions = changes(before, after)
        yield [ClusterEvent(resource, action, before, after) for action in actions]


@pytest.mark.parametrize(
    "plugin", PROFILE.plugins_with(Plugin.queueing_hint), ids=lambda plugin: plugin.name
)
def test_plugins_register_every_event_that_their_hint_accepts(plugin):
    world = a_world(a_node("n"))
    waiting = [world.pod_info(typed(pod)) for pod in WAITING]
    events_by_change = [
        *all_events("Node", node_changes, NODES),
        *all_events("AssignedPod", pod_changes, PODS),
    ]
    for events, pod in itertools.product(events_by_change, waiting):
        helpful = [e for e in events if plugin.queueing_hint(e, pod, View(world, pod, 0.0))]
        assert not helpful or any(map(plugin.traits.registers, helpful)), helpful


def test_a_plugin_without_registered_events_gets_all():
    class Own(Plugin):
        name = "Own"

        def queueing_hint(self, event, pod, view):
            return True

    assert Own().traits.registers(ClusterEvent("Node", "Add"))
    assert PROFILE.plugin("DefaultBinder").traits.registers(ClusterEvent("Node", "Add"))
    assert not PROFILE.plugin("NodeName").traits.registers(ClusterEvent("AssignedPod", "Add"))
