"""resourcepolicy: ordered node pools with caps (KEP-594), strictly from the top.

Tiers are compared before any score, so a pool of higher priority is filled first however the
other plugins score its nodes; inside a tier they decide.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector
from holdfast.capacity.policies import Policy, rows_of_pool
from holdfast.columns.counters import SelectorCount
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import (
    NO_CHANGE,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View

UNIT_FULL = "ResourcePolicyUnitFull"


@dataclass(slots=True)
class PolicyState:
    """A policy, and the pods that share the group of the pods asking."""

    nodes: NodeTable
    policy: Policy
    group: Selector
    counter: SelectorCount
    _seen: int = -1
    _pools: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))

    @property
    def pools(self) -> NDArray[np.bool_]:
        """Which rows belong to which pool: (pools, rows); worked out anew when a node changed."""
        if self._seen != self.nodes.node_journal.seq:
            self._seen = self.nodes.node_journal.seq
            masks = [rows_of_pool(self.nodes, pool) for pool in self.policy.pools]
            self._pools = np.stack(masks) if masks else np.zeros((0, self.nodes.capacity), np.bool_)
        return self._pools

    def counts(self, change: PodChange = NO_CHANGE) -> NDArray[np.int64]:
        """How many pods of the group stand in each pool."""
        on_row = self.counter.all if self.policy.counts_terminating else self.counter.live
        found: NDArray[np.int64] = np.dot(self.pools.astype(np.int64), on_row.astype(np.int64))
        for sign, side in ((1, change.added), (-1, change.removed)):
            for row, pods in side.items():
                found += sign * self.pools[:, row] * sum(self._counts(pod) for pod in pods)
        return found

    def full(self, change: PodChange = NO_CHANGE) -> NDArray[np.bool_]:
        """Which pools take no further pod."""
        limits = [2**62 if p.limit is None else p.limit for p in self.policy.pools]
        found: NDArray[np.bool_] = np.greater_equal(self.counts(change), limits)
        return found

    def priorities(self, rows: Rows) -> NDArray[np.int64]:
        """The highest priority among each row's pools, -1 for rows in none."""
        priority = np.array([pool.priority for pool in self.policy.pools], np.int64)
        found: NDArray[np.int64] = np.where(self.pools[:, rows], priority[:, None], -1).max(
            axis=0, initial=-1
        )
        return found

    def _counts(self, pod: PodInfo) -> bool:
        if pod.namespace != self.policy.object.namespace or pod.is_reserve_pod:
            return False
        if pod.terminating and not self.policy.counts_terminating:
            return False
        return self.group.matches(pod.labels)


class ResourcePolicyPlugin:
    """Fills the pools of a policy from the top and never beyond their caps."""

    name: ClassVar[str] = "resourcepolicy"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.DOMAIN,
        epochs=("policies", "nodes", "labels", "counters"),
        events_to_register={
            "ResourcePolicy": (),
            "Node": ("Add", "UpdateNodeLabel"),
            "AssignedPod": ("Delete", "UpdatePodLabel", "UpdatePodTerminating"),
            "UnschedulablePod": ("UpdatePodLabel",),
        },
        ignores_requests=True,
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self._args = dict(args or {})

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """The governing policies and the pod's group in each."""
        if not view.world.policies:
            return None
        return tuple(
            (policy.object.uid, policy.group_selector(pod.labels))
            for policy in view.world.policies.governing(pod)
        )

    def pre_filter(self, pod: PodInfo, view: View) -> PolicyState | Skip | Reject:
        """Find the one policy that governs the pod; two are a conflict."""
        found = view.world.policies.governing(pod) if view.world.policies else []
        if not found:
            return Skip()
        if len(found) > 1:
            keys = ", ".join(policy.key for policy in found)
            words = f"pod is matched by more than one ResourcePolicy: {keys}"
            return Reject(Code.UNRESOLVABLE, (words,))
        group = found[0].group_selector(pod.labels)
        counter = view.nodes.counter(pod.namespace, group, real=True)
        return PolicyState(view.nodes, found[0], group, counter)

    def filter(self, state: PolicyState, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Close the nodes of full pools; under `required` also those of no pool."""
        inside = state.pools[:, rows]
        verdicts = (state.full(change) @ inside.astype(np.int64) > 0).astype(np.int8)
        if state.policy.strict:
            verdicts[~inside.any(axis=0)] = Code.UNRESOLVABLE
        return verdicts

    def depends_on_pods(self, state: PolicyState) -> NDArray[np.bool_]:
        """Where pods of the group stand, their leaving makes room in the pool."""
        found: NDArray[np.bool_] = state.counter.all > 0
        return found

    def reasons(
        self, state: PolicyState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Name the full pools, or say that the node is in none."""
        inside = state.pools[:, row]
        if not inside.any():
            return (f"node matches no unit of ResourcePolicy {state.policy.key}",)
        counts, full = state.counts(change), state.full(change)
        return tuple(
            _full(state, i, counts) for i in range(len(state.policy.pools)) if inside[i] and full[i]
        )

    def score(self, state: PolicyState, rows: Rows) -> RawScores:
        """Twenty points a step of priority; nothing for nodes of no pool."""
        found: RawScores = 20.0 * np.maximum(state.priorities(rows), 0)
        return found

    def normalize_score(self, state: PolicyState, rows: Rows, raw: RawScores) -> RawScores:
        """The best gets 100; a pool of priority 0 still comes before a node of no pool."""
        highest = raw.max(initial=0.0)
        scores = np.floor(100.0 * raw / highest) if highest > 0 else raw.copy()
        outside = state.priorities(rows) < 0
        if outside.any():
            scores[(scores == 0) & ~outside] = 1.0
        return scores

    def tier(self, state: PolicyState, rows: Rows) -> NDArray[np.int32]:
        """Pools by priority, highest first; nodes of no pool last."""
        priorities = state.priorities(rows)
        _, rank = np.unique(-priorities, return_inverse=True)
        return rank.astype(np.int32)

    def reserve(self, state: PolicyState, placement: Placement) -> Reject | None:
        """Check the caps once more with this pod counted, and note which pools it passed over."""
        counts = state.counts()
        for i, pool in enumerate(state.policy.pools):
            over = pool.limit is not None and counts[i] > pool.limit
            if state.pools[i, placement.row] and over:
                return Reject(Code.UNSCHEDULABLE, (_full(state, i, counts - 1),))
        here = int(state.priorities(np.array([placement.row]))[0])
        for i, pool in enumerate(state.policy.pools):
            if pool.limit is not None and counts[i] >= pool.limit and pool.priority > here:
                placement.events.append((UNIT_FULL, _full(state, i, counts)))
        return None

    def unreserve(self, _state: PolicyState, _placement: Placement) -> None:
        """Do nothing: the pod counts while it stands in the columns, and no longer."""

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """A pod of the group that goes, a node that comes or moves, a policy that changes."""
        if event.resource == "ResourcePolicy":
            return bool((event.new or event.old).namespace == pod.namespace)
        if event.resource == "Node":
            return event.action in ("Add", "UpdateNodeLabel")
        if event.resource == "UnschedulablePod":
            return event.action == "UpdatePodLabel" and bool(event.new.uid == pod.uid)
        goes = event.action in ("Delete", "UpdatePodLabel", "UpdatePodTerminating")
        if event.resource != "AssignedPod" or not goes:
            return False
        return bool(event.old.namespace == pod.namespace)


def _full(state: PolicyState, index: int, counts: NDArray[np.int64]) -> str:
    pool = state.policy.pools[index]
    return f"unit {pool.name} is full ({counts[index]}/{pool.limit})"
