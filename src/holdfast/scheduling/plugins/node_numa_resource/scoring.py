"""Score whole nodes by their requests, for pods without a NUMA policy there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.resource_names import is_scalar
from holdfast.scheduling.framework.plugin import AnyRows, RawScores
from holdfast.state.columns.interner import CPU
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.numa.numa_amounts import Strategy
from holdfast.state.numa.policy_names import LEAST_ALLOCATED
from holdfast.state.reservations.reserved_resources import ReservedForPod

Ints = NDArray[np.int64]
ExtraCpu = Callable[[AnyRows], Ints] | None
"""Returns how many millicores more than requested amplified CPUs use, by row."""


class WholeNodeScorer:
    """Scores rows for pods with one request.

    What the pod's own reservations hold does not count as requested.
    """

    def __init__(
        self,
        nodes: NodeTable,
        pod: PodInfo,
        strategy: Strategy,
        reserved_for_pod: ReservedForPod | None,
        extra_cpu: ExtraCpu = None,
    ) -> None:
        requested, names = dict(pod.request), nodes.resources
        terms = [(names.id(name), weight, is_scalar(name)) for name, weight in strategy.weights]
        self._terms: Sequence[tuple[int, int, int]] = [
            (id_, weight, requested.get(id_, 0))
            for id_, weight, scalar in terms
            if id_ < nodes.amounts.width and (not scalar or requested.get(id_))
        ]
        self._nodes = nodes
        self._least = strategy.type == LEAST_ALLOCATED
        self._reserved_for_pod = reserved_for_pod
        self._extra_cpu = extra_cpu

    def many(self, rows: AnyRows) -> RawScores:
        """Return the scores of rows."""
        amounts = self._nodes.amounts
        total: Any = 0
        weights: Any = 0
        for id_, weight, asked in self._terms:
            have: Ints = amounts.allocatable[id_][rows]
            used: Ints = amounts.requested[id_][rows] + asked
            if id_ == CPU and self._extra_cpu is not None:
                used = used + self._extra_cpu(rows)
            if self._reserved_for_pod is not None:
                positions, mine = self._reserved_for_pod.among(rows)
                if len(mine):
                    used[positions] -= self._reserved_for_pod.many(id_, mine)
            share = np.maximum(have - used, 0) if self._least else np.minimum(used, have)
            counts = weight * (have > 0)
            total = total + share * 100 // np.maximum(have, 1) * counts
            weights = weights + counts
        if not self._terms:
            return np.zeros(self._nodes.capacity)[rows]
        scores: RawScores = (total // np.maximum(weights, 1)).astype(np.float64)
        return scores

    def one(self, row: int) -> float:
        """Return the score of one row."""
        if self._extra_cpu is not None:
            return float(self.many(np.array([row], np.intp))[0])
        amounts = self._nodes.amounts
        reserved = {} if self._reserved_for_pod is None else self._reserved_for_pod.at(row)
        total = weights = 0
        for id_, weight, asked in self._terms:
            have = amounts.allocatable_at[id_][row]
            if not have:
                continue
            used = amounts.requested_at[id_][row] + asked - reserved.get(id_, 0)
            share = max(have - used, 0) if self._least else min(used, have)
            total += share * 100 // have * weight
            weights += weight
        return float(total // weights) if weights else 0.0
