"""Hard constraints as pod limits, for preemption: how many counted pods may stay in a domain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.preemption_rules import ALWAYS, NEVER, PodLimit, PodLimits
from holdfast.plugins.pod_topology_spread.constraint_counts import ConstraintCounts


def limits_of(nodes: NodeTable, constraints: Iterable[ConstraintCounts]) -> PodLimits:
    """Return the limits: as many may stay as the skew to the other domains allows."""
    found = []
    for counted in constraints:
        left = _remaining(nodes, counted)
        if left is None:
            return PodLimits((), np.ones(nodes.capacity, np.bool_))
        key = ("spread", counted.namespace, counted.constraint.selector)
        found.append(PodLimit(key, left, partial(_count, counted), by_label_group=True))
    return PodLimits(tuple(found))


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


def _count(counted: ConstraintCounts, pod: PodInfo) -> int:
    return int(counted.counts_pod(pod))
