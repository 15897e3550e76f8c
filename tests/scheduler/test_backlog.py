"""Many unschedulable pods: how often hints run after an event, and which pods are requeued."""

import pytest

from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import SchedulingFailure, schedule_pod
from holdfast.scheduling.scheduler.event_handlers import EventHandlers
from holdfast.scheduling.scheduler.queueing_hints import QueueingHints
from holdfast.scheduling.scheduler.scheduling_queue import SchedulingQueue
from holdfast.testing import a_node, a_pod, typed
from scheduler.queueing_rules import rules

PROFILES = default_profiles()
NAME = "default-scheduler"
OWN = "statefulset.kubernetes.io/pod-name"


class Backlog:
    """Event handlers with a queue that lists the pods whose hints run."""

    def __init__(self):
        self.world, self.now, self.hinted = World(), 0.0, []
        queueing_hints = QueueingHints(PROFILES, self.world, lambda: self.now)

        def queueing_strategy(queued, event):
            self.hinted.append(queued.pod_info.name)
            return queueing_hints.queueing_strategy(queued, event)

        self.queue = SchedulingQueue(rules(queueing_hints, queueing_strategy=queueing_strategy))
        self.handlers = EventHandlers(
            self.world, self.queue, PROFILES.__contains__, lambda: self.now
        )

    def create(self, *objects):
        for raw in objects:
            obj = typed(raw)
            (self.handlers.on_node if obj.kind == "Node" else self.handlers.on_pod)(
                "added", None, obj
            )

    def try_all(self):
        """Schedule every pod once; return the names of those that fit no node."""
        rejected = []
        while (queued := self.queue.pop(self.now)) is not None:
            outcome = schedule_pod(
                PROFILES[NAME], PROFILES[NAME].view(queued.pod_info, self.world, self.now), None
            )
            assert isinstance(outcome, SchedulingFailure)
            self.queue.requeue_unschedulable(
                queued, outcome.unschedulable_plugins, outcome.pending_plugins, self.now
            )
            rejected.append(queued.pod_info.name)
        self.hinted.clear()
        return sorted(rejected)

    def grow(self, name, **amounts):
        """Update a node to other allocatable amounts."""
        old = self.world.nodes.nodes[self.world.nodes.row_of[name]]
        self.handlers.on_node("modified", old, typed(a_node(name, **amounts)))


@pytest.fixture
def backlog():
    found = Backlog()
    found.create(a_node("n1", cpu="4", memory="8Gi"), a_pod("old", cpu="4", node="n1"))
    return found


def test_hints_run_once_for_pods_that_differ_only_in_invisible_labels(backlog):
    backlog.create(*(a_pod(f"web-{i}", cpu="2", labels={OWN: f"web-{i}"}) for i in range(10)))
    assert len(backlog.try_all()) == 10
    backlog.grow("n1", cpu="4", memory="9Gi")
    assert len(backlog.hinted) == 1
    assert backlog.queue.counts()["unschedulable"] == 10
    backlog.grow("n1", cpu="8", memory="9Gi")
    assert backlog.queue.counts()["unschedulable"] == 0


def with_anti_affinity(name, node, app):
    """Return a pod with required anti-affinity to another pod."""
    term = {"labelSelector": {"matchLabels": {OWN: app}}, "topologyKey": "zone"}
    picky = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return a_pod(name, cpu="100m", node=node, affinity=picky)


def test_hints_run_for_each_pod_once_a_selector_names_the_label(backlog):
    backlog.create(*(a_pod(f"web-{i}", cpu="2", labels={OWN: f"web-{i}"}) for i in range(3)))
    backlog.try_all()
    backlog.create(with_anti_affinity("picky", "n1", "web-1"))
    backlog.hinted.clear()
    backlog.grow("n1", cpu="4", memory="9Gi")
    assert sorted(backlog.hinted) == ["web-0", "web-1", "web-2"]


def test_an_event_requeues_only_pods_it_may_help():
    backlog = Backlog()
    backlog.create(a_node("n2", cpu="4", labels={"zone": "a"}))
    pods = [with_anti_affinity(f"picky-{i}", "n2", f"web-{i}") for i in (1, 2)]
    backlog.create(*pods, *(a_pod(f"web-{i}", cpu="1", labels={OWN: f"web-{i}"}) for i in (1, 2)))
    assert backlog.try_all() == ["web-1", "web-2"]
    backlog.handlers.on_pod("deleted", typed(pods[0]), None)
    assert backlog.queue.pods_by_queue()["unschedulable"] == ["default/web-2"]


def test_hints_run_once_for_pods_with_the_same_spread_constraint(backlog):
    constraint = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    more = {"labels": {"app": "web"}, "topology_spread_constraints": [constraint]}
    backlog.create(*(a_pod(f"web-{i}", cpu="100m", **more) for i in range(5)))
    assert len(backlog.try_all()) == 5
    backlog.create(a_node("n3", cpu="4"))
    assert len(backlog.hinted) == 1
