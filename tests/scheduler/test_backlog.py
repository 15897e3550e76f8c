"""Many pods wait: who is asked when something happens, and who is tried again."""

import pytest

from holdfast.framework.world import World
from holdfast.plugins import default_profiles
from holdfast.scheduler.cycle import SchedulingFailure, schedule_pod
from holdfast.scheduler.event_handlers import EventHandlers
from holdfast.scheduler.queueing_hints import QueueingHints
from holdfast.scheduler.scheduling_queue import SchedulingQueue
from holdfast.testing import a_node, a_pod, typed

PROFILES = default_profiles()
NAME = "default-scheduler"
OWN = "statefulset.kubernetes.io/pod-name"


class Backlog:
    """A news desk with a queue whose judgements are counted."""

    def __init__(self):
        self.world, self.now, self.judged = World(), 0.0, []
        queueing_hints = QueueingHints(PROFILES, self.world, lambda: self.now)

        def queueing_strategy(queued, event):
            self.judged.append(queued.pod_info.name)
            return queueing_hints.queueing_strategy(queued, event)

        self.queue = SchedulingQueue(
            queueing_strategy=queueing_strategy,
            interested_plugins=queueing_hints.interested_plugins,
            equivalence_key=queueing_hints.equivalence_key,
            mark=queueing_hints.mark,
        )
        self.desk = EventHandlers(self.world, self.queue, PROFILES.__contains__, lambda: self.now)

    def notify_queue(self, *objects):
        for raw in objects:
            obj = typed(raw)
            (self.desk.on_node if obj.kind == "Node" else self.desk.on_pod)("added", None, obj)

    def try_all(self):
        """Give everybody a try; answers who found no room."""
        away = []
        while (queued := self.queue.pop(self.now)) is not None:
            outcome = schedule_pod(PROFILES[NAME], queued.pod_info, self.world, self.now, None)
            assert isinstance(outcome, SchedulingFailure)
            self.queue.requeue_unschedulable(
                queued, outcome.unschedulable_plugins, outcome.pending_plugins, self.now
            )
            away.append(queued.pod_info.name)
        self.judged.clear()
        return sorted(away)

    def grow(self, name, **amounts):
        """A node gets more of something."""
        old = self.world.nodes.nodes[self.world.nodes.row_of[name]]
        self.desk.on_node("modified", old, typed(a_node(name, **amounts)))


@pytest.fixture
def backlog():
    found = Backlog()
    found.notify_queue(a_node("n1", cpu="4", memory="8Gi"), a_pod("old", cpu="4", node="n1"))
    return found


def test_pods_that_differ_in_labels_nobody_looks_at_are_asked_about_once(backlog):
    backlog.notify_queue(*(a_pod(f"web-{i}", cpu="2", labels={OWN: f"web-{i}"}) for i in range(10)))
    assert len(backlog.try_all()) == 10
    backlog.grow("n1", cpu="4", memory="9Gi")
    assert len(backlog.judged) == 1
    assert backlog.queue.counts()["unschedulable"] == 10
    backlog.grow("n1", cpu="8", memory="9Gi")
    assert backlog.queue.counts()["unschedulable"] == 0


def a_picky_pod(name, node, app):
    """One that wants a certain other pod nowhere near."""
    term = {"labelSelector": {"matchLabels": {OWN: app}}, "topologyKey": "zone"}
    picky = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return a_pod(name, cpu="100m", node=node, affinity=picky)


def test_they_are_told_apart_once_somebody_looks(backlog):
    backlog.notify_queue(*(a_pod(f"web-{i}", cpu="2", labels={OWN: f"web-{i}"}) for i in range(3)))
    backlog.try_all()
    backlog.notify_queue(a_picky_pod("picky", "n1", "web-1"))
    backlog.judged.clear()
    backlog.grow("n1", cpu="4", memory="9Gi")
    assert sorted(backlog.judged) == ["web-0", "web-1", "web-2"]


def test_only_whom_the_news_concerns_is_tried_again():
    backlog = Backlog()
    backlog.notify_queue(a_node("n2", cpu="4", labels={"zone": "a"}))
    pods = [a_picky_pod(f"picky-{i}", "n2", f"web-{i}") for i in (1, 2)]
    backlog.notify_queue(
        *pods, *(a_pod(f"web-{i}", cpu="1", labels={OWN: f"web-{i}"}) for i in (1, 2))
    )
    assert backlog.try_all() == ["web-1", "web-2"]
    backlog.desk.on_pod("deleted", typed(pods[0]), None)
    assert backlog.queue.pods_by_queue()["unschedulable"] == ["default/web-2"]


def test_pods_spread_by_their_own_constraints_are_asked_about_once(backlog):
    constraint = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    more = {"labels": {"app": "web"}, "topology_spread_constraints": [constraint]}
    backlog.notify_queue(*(a_pod(f"web-{i}", cpu="100m", **more) for i in range(5)))
    assert len(backlog.try_all()) == 5
    backlog.notify_queue(a_node("n3", cpu="4"))
    assert len(backlog.judged) == 1
