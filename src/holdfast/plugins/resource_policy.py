"""resourcepolicy: ordered units of nodes with caps (KEP-594), filled strictly by priority.

Tiers are compared before any score, so a unit of higher priority is filled first however the
other plugins score its nodes; inside a tier the scores decide.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector
from holdfast.capacity.policies import Policy, rows_of_unit
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
    """A policy, and the pods of one group that it counts."""

    nodes: NodeTable
    policy: Policy
    group: Selector
    counter: SelectorCount
    _seen: int = -1
    _units: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))

    @property
    def units(self) -> NDArray[np.bool_]:
        """A mask (units, rows) of the rows of each unit, computed again when a node changed."""
        if self._seen != self.nodes.node_journal.seq:
            self._seen = self.nodes.node_journal.seq
            masks = [rows_of_unit(self.nodes, unit) for unit in self.policy.units]
            self._units = np.stack(masks) if masks else np.zeros((0, self.nodes.capacity), np.bool_)
        return self._units

    def counts(self, change: PodChange = NO_CHANGE) -> NDArray[np.int64]:
        """Count the pods of the group in each unit."""
        on_row = self.counter.all if self.policy.counts_terminating else self.counter.live
        found: NDArray[np.int64] = np.dot(self.units.astype(np.int64), on_row.astype(np.int64))
        for sign, side in ((1, change.added), (-1, change.removed)):
            for row, pods in side.items():
                found += sign * self.units[:, row] * sum(self._counts(pod) for pod in pods)
        return found

    def full(self, change: PodChange = NO_CHANGE) -> NDArray[np.bool_]:
        """Tell which units are full."""
        limits = [2**62 if u.max_count is None else u.max_count for u in self.policy.units]
        found: NDArray[np.bool_] = np.greater_equal(self.counts(change), limits)
        return found

    def priorities(self, rows: Rows) -> NDArray[np.int64]:
        """Return the highest priority among each row's units; -1 for rows in none."""
        priority = np.array([unit.priority for unit in self.policy.units], np.int64)
        found: NDArray[np.int64] = np.where(self.units[:, rows], priority[:, None], -1).max(
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
    """Fills the units of a policy by priority and never beyond their caps."""

    name: ClassVar[str] = "resourcepolicy"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.DOMAIN,
        epochs=("policies", "nodes", "labels", "counters"),
        events_to_register={
            "ResourcePolicy": (),
            "Node": ("Add", "Delete", "UpdateNodeLabel"),
            "AssignedPod": ("Delete", "UpdatePodLabel", "UpdatePodTerminating"),
            "UnschedulablePod": ("UpdatePodLabel",),
        },
        ignores_requests=True,
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self._args = dict(args or {})

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the policies that select the pod, and its group in each."""
        if not view.world.policies:
            return None
        return tuple(
            (policy.object.uid, policy.group_selector(pod.labels))
            for policy in view.world.policies.governing(pod)
        )

    def pre_filter(self, pod: PodInfo, view: View) -> PolicyState | Skip | Reject:
        """Find the one policy that selects the pod; two are a conflict."""
        found = view.world.policies.governing(pod) if view.world.policies else []
        if not found:
            return Skip()
        if len(found) > 1:
            keys = ", ".join(policy.key for policy in found)
            message = f"pod is matched by more than one ResourcePolicy: {keys}"
            return Reject(Code.UNRESOLVABLE, (message,))
        group = found[0].group_selector(pod.labels)
        counter = view.nodes.counter(pod.namespace, group, real=True)
        return PolicyState(view.nodes, found[0], group, counter)

    def filter(self, state: PolicyState, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes of full units; unless the strategy is `prefer`, also nodes of no unit."""
        inside = state.units[:, rows]
        verdicts = (state.full(change) @ inside.astype(np.int64) > 0).astype(np.int8)
        if state.policy.strict:
            verdicts[~inside.any(axis=0)] = Code.UNRESOLVABLE
        return verdicts

    def row_sets(self, state: PolicyState) -> NDArray[np.bool_]:
        """Return the units: a pod that is nominated to one node of a unit counts in all of it."""
        return state.units

    def depends_on_pods(self, state: PolicyState) -> NDArray[np.bool_]:
        """Return the rows with pods of the group: evicting them makes place in the unit."""
        found: NDArray[np.bool_] = state.counter.all > 0
        return found

    def reasons(
        self, state: PolicyState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Name the full units, or say that the node is in none."""
        inside = state.units[:, row]
        if not inside.any():
            return (f"node matches no unit of ResourcePolicy {state.policy.key}",)
        counts, full = state.counts(change), state.full(change)
        return tuple(
            _full(state, i, counts) for i in range(len(state.policy.units)) if inside[i] and full[i]
        )

    def score(self, state: PolicyState, rows: Rows) -> RawScores:
        """Score 20 for each step of priority; 0 for nodes of no unit."""
        found: RawScores = 20.0 * np.maximum(state.priorities(rows), 0)
        return found

    def normalize_score(self, state: PolicyState, rows: Rows, raw: RawScores) -> RawScores:
        """Scale the best to 100; a unit of priority 0 stays above nodes of no unit."""
        highest = raw.max(initial=0.0)
        scores = np.floor(100.0 * raw / highest) if highest > 0 else raw.copy()
        outside = state.priorities(rows) < 0
        if outside.any():
            scores[(scores == 0) & ~outside] = 1.0
        return scores

    def tier(self, state: PolicyState, rows: Rows) -> NDArray[np.int32]:
        """Rank units by priority, the highest first; nodes of no unit are last."""
        priorities = state.priorities(rows)
        _, rank = np.unique(-priorities, return_inverse=True)
        return rank.astype(np.int32)

    def reserve(self, state: PolicyState, placement: Placement) -> Reject | None:
        """Check the caps with this pod counted, and note the full units of higher priority."""
        counts = state.counts()
        for i, unit in enumerate(state.policy.units):
            over = unit.max_count is not None and counts[i] > unit.max_count
            if state.units[i, placement.row] and over:
                return Reject(Code.UNSCHEDULABLE, (_full(state, i, counts - 1),))
        here = int(state.priorities(np.array([placement.row]))[0])
        for i, unit in enumerate(state.policy.units):
            if unit.max_count is not None and counts[i] >= unit.max_count and unit.priority > here:
                placement.events.append((UNIT_FULL, _full(state, i, counts)))
        return None

    def unreserve(self, _state: PolicyState, _placement: Placement) -> None:
        """Do nothing: the pod counts only while it is in the node table."""

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue when a pod leaves, a node comes, goes or is relabelled, or a policy changes."""
        if event.resource == "ResourcePolicy":
            return bool((event.new or event.old).namespace == pod.namespace)
        if event.resource == "Node":
            return event.action in ("Add", "Delete", "UpdateNodeLabel")
        if event.resource == "UnschedulablePod":
            return event.action == "UpdatePodLabel" and bool(event.new.uid == pod.uid)
        goes = event.action in ("Delete", "UpdatePodLabel", "UpdatePodTerminating")
        if event.resource != "AssignedPod" or not goes:
            return False
        return bool(event.old.namespace == pod.namespace)


def _full(state: PolicyState, index: int, counts: NDArray[np.int64]) -> str:
    unit = state.policy.units[index]
    policy = f"ResourcePolicy {state.policy.key}"
    return f"unit {unit.name} of {policy} is full ({counts[index]}/{unit.max_count})"
