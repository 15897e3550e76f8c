"""ClassicDynamicResources on a world of objects, its writes carried out by an API in memory."""

from dataclasses import dataclass

import numpy as np

from holdfast.scheduling.engine.decision import feasible
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.events import ClusterEvent
from holdfast.scheduling.framework.plugin import NodeScorer, Placement, Reject
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.classic_dynamic_resources import ClassicDynamicResources
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.classic_dra.builders import a_classic_class, named
from holdfast.testing.memory_api import MemoryApi

STORED = ("ResourceClass", "ResourceClaim", "Pod", "PodScheduling")


@dataclass
class Attempt:
    """One attempt: the plan, the placement and what PreBind returned."""

    plan: object
    placement: Placement
    ended: Reject | None


class Desk:
    """A cluster of objects and the plugin under test."""

    def __init__(self, *objects, fail=lambda call: None):
        self.world = World()
        self.api = MemoryApi(self.world, fail)
        self.plugin = ClassicDynamicResources({})
        self.profile = Profile("desk", (self.plugin,))
        for raw in objects:
            self.put(raw)

    @property
    def ledger(self):
        return self.world.classic

    def put(self, raw):
        if raw["kind"] in STORED:
            self.api.put(raw)
        else:
            self.world.upsert(typed(raw))

    def pod_info(self, raw):
        return self.world.pod_info(typed(raw))

    def view(self, raw):
        return View(self.world, self.pod_info(raw), 0.0)

    def pre_filter(self, raw):
        return self.plugin.pre_filter(self.pod_info(raw), self.view(raw))

    def why_waiting(self, raw):
        """The reason with which PreFilter rejects the pod."""
        rejected = self.pre_filter(raw)
        assert isinstance(rejected, Reject), rejected
        return rejected.reasons[0]

    def reasons(self, raw):
        """The reason of each node, "" where the pod fits."""
        plan, rows = self.pre_filter(raw), self.world.nodes.rows
        verdicts = plan.filter(rows)
        return {
            self.world.nodes.names[row]: plan.reasons(int(row))[0] if verdict else ""
            for row, verdict in zip(rows, verdicts, strict=True)
        }

    def scores(self, raw):
        """The normalized score of each node."""
        plan, rows = self.pre_filter(raw), self.world.nodes.rows
        found = plan.normalize_score(rows, plan.score(rows))
        return {self.world.nodes.names[row]: score for row, score in zip(rows, found, strict=True)}

    def attempt(self, raw, node):
        """Decide for a node, and carry out PreBind."""
        plan = self.pre_filter(raw)
        rows = self.world.nodes.rows
        fitting = rows[plan.filter(rows) == 0]
        row = self.world.nodes.row_of[node]
        assert row in fitting
        if len(fitting) > 1 and isinstance(plan, NodeScorer):
            plan.pre_score(fitting)
        placement = Placement(self.pod_info(raw), row, node, {self.plugin.name: plan})
        assert plan.reserve(placement) is None
        ended = None
        if plan.pre_bind_pre_flight(placement):
            ended = self.api.drive(plan.pre_bind(placement))
        assert (ended is not None) <= plan.may_end_pending(placement)
        plan.unreserve(placement)
        return Attempt(plan, placement, ended)

    def reject(self, raw, seed=0):
        """Run PostFilter for a pod that fits nowhere, carry out its calls, return its result."""
        rejection = feasible(self.profile, self.profile.view(self.pod_info(raw), self.world, 0.0))
        assert isinstance(rejection, Rejection)
        rejection.rng = np.random.default_rng(seed)
        result = self.plugin.post_filter(rejection, self.view(raw))
        for call in result.calls:
            self.api.carry_out(call)
        return result

    def hint(self, pod, resource, old, new):
        """Run the hint for an event about raw objects."""
        action = "Add" if old is None else "Delete" if new is None else "Update"
        event = ClusterEvent(resource, action, old and typed(old), new and typed(new))
        return self.plugin.queueing_hint(event, self.pod_info(pod), self.view(pod)).name

    def spec_of(self, pod):
        """The spec of the stored PodScheduling of a pod, or None."""
        name = pod["metadata"]["name"]
        found = [
            raw for raw in self.api.of_kind("PodScheduling") if raw["metadata"]["name"] == name
        ]
        return found[0]["spec"] if found else None

    def claim(self, name):
        """A stored claim."""
        [found] = [r for r in self.api.of_kind("ResourceClaim") if r["metadata"]["name"] == name]
        return found

    def consumers(self, name):
        """The names of a claim's consumers."""
        return [c["name"] for c in self.claim(name).get("status", {}).get("reservedFor") or []]


NODES = [a_node(name) for name in ("n1", "n2", "n3")]
OTHER = a_pod("other")
RELEASING = {"deallocationRequested": True}


def a_desk(*objects, **options):
    return Desk(*NODES, a_classic_class(), *objects, **options)


def a_claim_pod(*claims, name="p", **more):
    return a_pod(name, claims=[named(claim) for claim in claims], **more)
