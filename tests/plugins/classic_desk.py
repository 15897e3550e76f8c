"""ClassicDynamicResources on a world of objects, its writes carried out by an API in memory."""

from dataclasses import dataclass

import numpy as np

from holdfast.engine.decision import feasible
from holdfast.engine.profile import Profile
from holdfast.framework.events import ClusterEvent
from holdfast.framework.plugin import Placement, Reject
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins.classic_dynamic_resources import ClassicDynamicResources
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.classic_builders import a_classic_class, named
from holdfast.testing.memory_api import MemoryApi

STORED = ("ResourceClass", "ResourceClaim", "Pod", "PodScheduling")


@dataclass
class Attempt:
    """One attempt: the state, the placement and what PreBind returned."""

    state: object
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
        state, rows = self.pre_filter(raw), self.world.nodes.rows
        verdicts = self.plugin.filter(state, rows)
        return {
            self.world.nodes.names[row]: self.plugin.reasons(state, int(row))[0] if verdict else ""
            for row, verdict in zip(rows, verdicts, strict=True)
        }

    def scores(self, raw):
        """The normalized score of each node."""
        state, rows = self.pre_filter(raw), self.world.nodes.rows
        found = self.plugin.normalize_score(state, rows, self.plugin.score(state, rows))
        return {self.world.nodes.names[row]: score for row, score in zip(rows, found, strict=True)}

    def attempt(self, raw, node):
        """Decide for a node, and carry out PreBind."""
        state = self.pre_filter(raw)
        rows = self.world.nodes.rows
        fitting = rows[self.plugin.filter(state, rows) == 0]
        row = self.world.nodes.row_of[node]
        assert row in fitting
        if len(fitting) > 1:
            self.plugin.pre_score(state, fitting)
        placement = Placement(self.pod_info(raw), row, node, {self.plugin.name: state})
        assert self.plugin.reserve(state, placement) is None
        ended = None
        if self.plugin.pre_bind_pre_flight(state, placement):
            ended = self.api.drive(self.plugin.pre_bind(state, placement))
        assert (ended is not None) <= self.plugin.may_end_pending(state, placement)
        self.plugin.unreserve(state, placement)
        return Attempt(state, placement, ended)

    def reject(self, raw, seed=0):
        """Run PostFilter for a pod that fits nowhere, carry out its calls, return its result."""
        rejection = feasible(self.profile, self.pod_info(raw), self.world, 0.0)
        assert isinstance(rejection, Rejection)
        rejection.rng = np.random.default_rng(seed)
        state = rejection.states.get(self.plugin.name)
        result = self.plugin.post_filter(state, rejection, self.view(raw))
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
