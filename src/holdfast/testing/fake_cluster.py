"""A cluster without an API server, for tests of plugins: add objects, then place pods.

The scheduler's own code makes the decisions. There is no queue, no binding and no event; use
``Harness`` for those::

    cluster = FakeCluster(a_node("n1"), a_node("n2", cpu="1"))
    assert cluster.place(a_pod("p", cpu="4")) == "n1"
    assert cluster.why(a_pod("q", cpu="9")).startswith("0/2 nodes are available")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.scheduling.engine.audit import Auditor
from holdfast.scheduling.engine.decision import feasible, rank
from holdfast.scheduling.engine.decision_check import placement_faults, rejection_faults
from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.engine.post_filter import preempt_in_better_tiers
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import assume_and_reserve
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing.builders import typed


class FakeCluster:
    """A world built from raw objects, and a profile."""

    def __init__(
        self, *objects: Mapping[str, Any], profile: Profile | None = None, seed: int = 0
    ) -> None:
        self.world = World()
        self.profile = profile or default_profiles()["default-scheduler"]
        self.now = 1_700_000_000.0
        self._auditor = Auditor(self.world)
        self._rng = np.random.default_rng(seed)
        self.add(*objects)

    def add(self, *objects: Mapping[str, Any]) -> None:
        """Add or update objects, in the form in which an API server stores them."""
        for raw in objects:
            self.world.upsert(typed(raw))

    def remove(self, raw: Mapping[str, Any]) -> None:
        """Remove an object."""
        self.world.delete(typed(raw))

    def place(self, pod: Mapping[str, Any]) -> str:
        """Place and assume a pod and run its Reserve plugins; return its node, or ""."""
        pod_info = self._pod_info(pod)
        self._auditor.before_attempt()
        placement = self._placement(pod_info)
        if placement is not None and not self._reserve(placement):
            placement = None
        self._auditor.after_attempt(placement)
        self._auditor.raise_faults()
        check_invariants(self.world)
        return "" if placement is None else placement.node

    def _placement(self, pod_info: PodInfo) -> Placement | None:
        filter_result = feasible(self.profile, self.profile.view(pod_info, self.world, self.now))
        if isinstance(filter_result, Rejection):
            self._auditor.note_faults(rejection_faults(self.profile, filter_result))
            return None
        if preempt_in_better_tiers(self.profile, filter_result, self.now) is not None:
            return None
        placement = rank(self.profile, filter_result, self._rng)
        self._auditor.note_faults(placement_faults(self.profile, filter_result, placement))
        return placement

    def _reserve(self, placement: Placement) -> bool:
        placement.now = self.now
        return assume_and_reserve(self.profile, self.world, placement) is None

    def why(self, pod: Mapping[str, Any]) -> str:
        """Return why a pod fits on no node, or ""."""
        return str(self.explain(pod)["message"])

    def explain(self, pod: Mapping[str, Any], *, preempt: bool = False) -> dict[str, Any]:
        """Return a full explanation of a decision, as ``holdfast explain`` prints it."""
        return explain(self.profile, typed(pod), self.world, self.now, preempt=preempt)

    def _pod_info(self, pod: Mapping[str, Any]) -> PodInfo:
        return self.world.pod_info(typed(pod))
