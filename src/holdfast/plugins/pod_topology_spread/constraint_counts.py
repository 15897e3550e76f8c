"""A constraint with what is counted for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.counters import SelectorCount
from holdfast.columns.node_labels import LabelColumn
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.unseen import AnyDomains
from holdfast.framework.plugin import PodChange
from holdfast.plugins.pod_topology_spread.constraints import Constraint, Eligibility

Counts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ConstraintCounts:
    """A constraint with the counters behind it."""

    constraint: Constraint
    namespace: str
    domains: AnyDomains
    label: LabelColumn
    eligibility: Eligibility
    moving: SelectorCount
    """Pods whose coming or going would count, terminating ones among them."""

    def counts(self, nodes: NodeTable, change: PodChange) -> Counts:
        """Matching pods per domain, were the change to happen."""
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

    def counts_pod(self, pod: PodInfo) -> bool:
        """Tell whether a pod's coming or going counts."""
        # A terminating pod counts here and nowhere else, as upstream: taken away, it leaves more
        # room than it took.
        same = pod.namespace == self.namespace
        return same and self.constraint.selector.matches(pod.labels)

    def exceeds_max_skew(self, counts: Counts) -> NDArray[np.bool_]:
        """Tell, per domain, whether one more pod there is one too many."""
        there = self.domains.present
        present = counts if there is None else counts.compress(there)
        enough = len(present) >= self.constraint.min_domains
        lowest = present.min() if len(present) and enough else 0.0
        most = lowest + self.constraint.max_skew - int(self.constraint.matches_self)
        uneven: NDArray[np.bool_] = counts > most
        return uneven
