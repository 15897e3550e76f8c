"""A constraint with the counters it needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.counters import SelectorCount
from holdfast.columns.hidden_reserve_pods import AnyDomains
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import PodChange
from holdfast.plugins.pod_topology_spread.constraints import Constraint, Eligibility

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
