"""Hard constraints: no domain may have many more matching pods than the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    Code,
    NodeFilter,
    PodChange,
    PodLimit,
    PodLimits,
    PreemptionRules,
    Rows,
    Verdicts,
)
from holdfast.scheduling.framework.preemption_rules import ALWAYS, NEVER
from holdfast.scheduling.plugins.pod_topology_spread.constraints import Constraint, Eligibility
from holdfast.state.columns.counters import SelectorCount
from holdfast.state.columns.hidden_reserve_pods import AnyDomains
from holdfast.state.columns.node_labels import LabelColumn
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

REASON = "node(s) didn't match pod topology spread constraints"
MISSING = f"{REASON} (missing required label)"
Counts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ConstraintCounts:
    """A constraint with the counters it needs."""

    constraint: Constraint
    namespace: str
    domains: AnyDomains
    label: LabelColumn
    eligibility: Eligibility
    moving: SelectorCount
    """Pods whose addition or removal changes the counts, terminating ones included."""

    def counts(self, nodes: NodeTable, change: PodChange) -> Counts:
        """Return the matching pods per domain after the change."""
        self.domains.refresh()
        if not change:
            return self.domains.counts
        counts = self.domains.counts.copy()
        eligible = self.eligibility.rows(nodes)
        for sign, side in ((1, change.added), (-1, change.removed)):
            for row, pods in side.items():
                if eligible[row]:
                    counts[self.label.ids[row]] += sign * sum(map(self.counts_pod, pods))
        return counts

    def counts_pod(self, pod: PodInfo) -> int:
        """Return 1 if adding or removing a pod changes the counts, else 0."""
        # As in kube-scheduler, a terminating pod counts here, though not among existing pods:
        # removing one lowers the count by more than it had raised it.
        same = pod.namespace == self.namespace
        return int(same and self.constraint.selector.matches(pod.labels))

    def exceeds_max_skew(self, counts: Counts) -> NDArray[np.bool_]:
        """Return, per domain, whether one more pod there exceeds the maximum skew."""
        exceeding: NDArray[np.bool_] = counts > self._most(counts) - self.constraint.matches_self
        return exceeding

    def violates_max_skew(self, counts: Counts) -> NDArray[np.bool_]:
        """Return, per domain, whether the pods there exceed the maximum skew already."""
        exceeding: NDArray[np.bool_] = counts > self._most(counts)
        return exceeding

    def _most(self, counts: Counts) -> float:
        """Return how many pods a domain may have."""
        mask = self.domains.present
        present = counts if mask is None else counts.compress(mask)
        enough = len(present) >= self.constraint.min_domains
        lowest = float(present.min()) if len(present) and enough else 0.0
        return lowest + self.constraint.max_skew


@dataclass
class HardConstraints(NodeFilter, PreemptionRules):
    """Reject rows in whose domain a further pod would exceed the maximum skew.

    ``hard`` are all hard constraints of a class of pods.
    """

    nodes: NodeTable
    hard: tuple[ConstraintCounts, ...]

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows: as unresolvable without a label, as unschedulable for too large a skew."""
        verdicts: Verdicts | None = None
        for counted in self.hard:
            uneven = counted.exceeds_max_skew(counted.counts(self.nodes, change))
            table = np.empty(len(uneven) + 1, np.int8)
            table[:-1] = uneven
            table[-1] = Code.UNRESOLVABLE  # value id -1, no label, reads the last cell
            constraint_verdicts = counted.label.read_verdicts(table, rows)
            if verdicts is None:
                verdicts = constraint_verdicts
            else:
                # The first constraint that rejects a row decides; ``where`` is ten times as slow.
                verdicts = verdicts + constraint_verdicts * (verdicts == 0).view(np.int8)
        assert verdicts is not None
        return verdicts

    def violated_rows(self, change: PodChange = NO_CHANGE) -> NDArray[np.bool_]:
        """Return the rows in whose domain too many pods are already, over all rows."""
        mask = np.zeros(self.nodes.size, np.bool_)
        for counted in self.hard:
            uneven = counted.violates_max_skew(counted.counts(self.nodes, change))
            # Value id -1, no label, reads the last cell.
            mask |= counted.label.read(np.append(uneven, False), slice(0, self.nodes.size))
        return mask

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows with pods that a constraint counts."""
        mask = np.zeros(self.nodes.capacity, np.bool_)
        for counted in self.hard:
            mask |= counted.moving.all > 0
        return mask

    def pod_limits(self) -> PodLimits:
        """Return how many of the counted pods may stay, as the skew to the other domains allows."""
        limits = []
        for counted in self.hard:
            left = _remaining(self.nodes, counted)
            if left is None:
                return PodLimits((), np.ones(self.nodes.capacity, np.bool_))
            key = ("spread", counted.namespace, counted.constraint.selector)
            limits.append(PodLimit(key, left, counted.counts_pod, by_label_group=True))
        return PodLimits(tuple(limits))

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return whether a label is missing or the skew is too large."""
        verdict = self.filter(np.array([row], np.intp), change)[0]
        return (MISSING if verdict == Code.UNRESOLVABLE else REASON,)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the rows of both reasons."""
        missing = int(np.count_nonzero(self.filter(rows) == Code.UNRESOLVABLE))
        return {MISSING: missing, REASON: len(rows) - missing}


def _remaining(nodes: NodeTable, counted: ConstraintCounts) -> NDArray[np.int64] | None:
    """Return how many more pods each row could get if nothing changes elsewhere."""
    counted.domains.refresh()
    counts, ids = counted.domains.counts, counted.label.ids
    ahead = counted.constraint.max_skew - int(counted.constraint.matches_self)
    if ahead < 0:
        return None
    free = _lowest_elsewhere(counted) + ahead - counts
    table = np.append(np.where(np.isinf(free), ALWAYS, free), NEVER)
    left = table[ids].astype(np.int64)
    # Pods on rows that are not eligible do not count: evicting them makes no difference.
    eligible = counted.eligibility.rows(nodes)
    return np.where(eligible, left, np.where(left < 0, NEVER, ALWAYS))


def _lowest_elsewhere(counted: ConstraintCounts) -> NDArray[np.float64]:
    """Return for each domain the lowest count of the other domains."""
    counts, mask = counted.domains.counts, counted.domains.present
    present = np.arange(len(counts)) if mask is None else mask.nonzero()[0]
    lowest = np.zeros(len(counts))
    if len(present) and len(present) >= counted.constraint.min_domains:
        there = counts[present]
        least = there.argmin()
        lowest[:] = there[least]
        there[least] = math.inf
        lowest[present[least]] = there.min()
    return lowest
