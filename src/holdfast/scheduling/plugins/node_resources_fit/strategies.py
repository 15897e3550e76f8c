"""Scoring strategies: score a node by how much of it would be requested.

A strategy scores each resource 0..100 from what the node has (c) and what would be requested of it
(q), and averages by weight. All divisions are integer divisions, done in float64: exact below 2^46,
above which int64 columns are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.plugin import AnyRows, RawScores
from holdfast.scheduling.plugins.node_resources_fit.arguments import LEAST, MOST, FitArgs
from holdfast.state.columns.amounts import NodeAmounts
from holdfast.state.columns.cells import Cells
from holdfast.state.columns.interner import CPU, MEMORY
from holdfast.state.devices.device_counts import DeviceBackedResource
from holdfast.state.reservations.reserved_resources import ReservedForPod

_NOTHING: Mapping[int, int] = {}
FunctionShape = Sequence[tuple[int, int]]
ResourceScorer = Callable[[Any, Any], Any]
"""Scores one resource for c > 0; works for arrays and for single numbers."""


class RowScore(Protocol):
    """A function that scores one row."""

    def __call__(self, row: int) -> float:
        """Return the score."""


def least(c: Any, q: Any) -> Any:
    """Score the share that stays free.

    >>> least(4000.0, 500.0), least(4000.0, 5000.0)
    (87.0, 0.0)
    """
    if isinstance(c, float):
        return (c - q) * 100.0 // c if q <= c else 0.0
    return np.floor(np.maximum(c - q, 0.0) * 100.0 / c)


def most(c: Any, q: Any) -> Any:
    """Score the share that is requested.

    >>> most(4000.0, 500.0)
    12.0
    """
    if isinstance(c, float):
        return min(q, c) * 100.0 // c
    return np.floor(np.minimum(q, c) * 100.0 / c)


def by_shape(shape: FunctionShape) -> ResourceScorer:
    """Return a scorer that follows a broken line over utilization."""

    def score(c: Any, q: Any) -> Any:
        used = most(c, q)
        if isinstance(used, float):
            return float(broken_linear(shape, int(used)))
        table = np.array([broken_linear(shape, p) for p in range(101)], np.float64)
        return table[used.astype(np.intp)]

    return score


def broken_linear(shape: FunctionShape, p: int) -> int:
    """Return the line's value at p, in integers that truncate toward zero.

    >>> broken_linear(((0, 0), (100, 100)), 62)
    62
    """
    for i, (used, score) in enumerate(shape):
        if p <= used:
            if i == 0:
                return score
            before, start = shape[i - 1]
            rise = (score - start) * (p - before)
            run = used - before
            return start + (rise // run if rise >= 0 else -(-rise // run))
    return shape[-1][1]


class Scorer:
    """Scores rows for pods with one request, by one strategy."""

    def __init__(
        self,
        args: FitArgs,
        amounts: NodeAmounts,
        terms: Sequence[tuple[int, int, int]],
        served: Mapping[int, DeviceBackedResource],
        reserved_for_pod: ReservedForPod | None = None,
    ) -> None:
        """Prepare terms: (resource id, weight, the pod's amount), without scalars it does not
        request.

        For cpu and memory, amounts and the nodes' requests are the non-zero ones. ``served`` are
        the resources that devices provide on nodes that have none of them; ``reserved_for_pod``
        is what reservations hold for the pod, which does not count as requested.
        """
        self._amounts = amounts
        self._served = served
        self._reserved_for_pod = reserved_for_pod
        self._ratio = args.strategy not in (LEAST, MOST)
        self._score = by_shape(args.shape) if self._ratio else least
        if args.strategy == MOST:
            self._score = most
        self._terms = [(id_, float(w), float(p), *_used(amounts, id_)) for id_, w, p in terms]
        usual = [(id_, weight) for id_, weight, _ in terms] == [(CPU, 1), (MEMORY, 1)]
        self._usual = self._score is least and usual
        self._only_least = self._score is least and not served
        self._cells = [
            (amounts.allocatable_at[id_], used_at, weight, asked)
            for id_, weight, asked, _, used_at in self._terms
        ]

    def many(self, rows: AnyRows) -> RawScores:
        """Return the scores of rows."""
        scores = self._many_taken(rows)
        if self._reserved_for_pod is not None:
            positions, mine = self._reserved_for_pod.among(rows)
            if len(mine):
                scores[positions] = self._many_general(mine, self._reserved_for_pod)
        return scores

    def _many_taken(self, rows: AnyRows) -> RawScores:
        if self._usual and not (
            self._amounts.nodes_without[CPU] or self._amounts.nodes_without[MEMORY]
        ):
            return self._many_usual(rows)
        return self._many_general(rows)

    def _many_general(self, rows: Any, reserved_for_pod: ReservedForPod | None = None) -> RawScores:
        sums: Any = 0.0
        weights: Any = 0.0
        for id_, weight, asked, used, _ in self._terms:
            counts: Any = weight
            if id_ in self._served:
                have, taken = self._served[id_].many(rows)
                score = self._score(np.maximum(have, 1.0), taken + asked)
                counts = weight * (have > 0)
            else:
                more = (
                    asked if reserved_for_pod is None else asked - reserved_for_pod.many(id_, rows)
                )
                score = self._score(self._amounts.divisor[id_][rows], used[rows] + more)
                if self._amounts.nodes_without[id_]:
                    counts = weight * (self._amounts.allocatable[id_][rows] > 0)
            if self._ratio:
                counts = counts * (score > 0)
            sums = sums + score * counts
            weights = weights + counts
        return self._average(sums, weights, rows)

    def _many_usual(self, rows: AnyRows) -> RawScores:
        """Return the same for LeastAllocated over cpu and memory with equal weights."""
        amounts = self._amounts
        spare = amounts.cpu_memory(amounts.free_times_100, rows)
        have = amounts.cpu_memory(amounts.divisor, rows)
        (*_, cpu), (*_, memory) = self._cells
        scores = _free_percent(spare[CPU], cpu, have[CPU])
        scores += _free_percent(spare[MEMORY], memory, have[MEMORY])
        scores *= 0.5
        return np.floor(scores, out=scores)

    def _average(self, sums: Any, weights: Any, rows: AnyRows) -> RawScores:
        if isinstance(sums, float):  # no resource is scored
            return np.zeros(self._amounts.nonzero.shape[1])[rows]
        if isinstance(weights, float):
            mean = sums / weights
        else:
            mean = np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), 0.0)
        scores: RawScores = np.floor(mean + 0.5) if self._ratio else np.floor(mean)
        return scores

    def of_row(self) -> RowScore:
        """Return the function that scores one row; the usual strategy needs one call less."""
        return self._one_usual if self._usual and self._reserved_for_pod is None else self._one

    def _one(self, row: int) -> float:
        less = _NOTHING if self._reserved_for_pod is None else self._reserved_for_pod.at(row)
        if self._usual:
            return self._one_usual(row, less)
        if less:
            return self._one_general(row, less)
        if self._only_least:
            return self._one_least(row)
        return self._one_general(row, _NOTHING)

    def _one_general(self, row: int, less: Mapping[int, int]) -> float:
        sums = weights = 0.0
        for id_, weight, asked, _, used_at in self._terms:
            if id_ in self._served:
                c, used = self._served[id_].one(row)
            else:
                c, used = self._amounts.allocatable_at[id_][row], used_at[row] - less.get(id_, 0)
            if not c:
                continue
            score = self._score(float(c), used + asked)
            if score > 0 or not self._ratio:
                sums += score * weight
                weights += weight
        if not weights:
            return 0.0
        return (sums / weights + 0.5) // 1.0 if self._ratio else sums // weights

    def _one_usual(self, row: int, less: Mapping[int, int] = _NOTHING) -> float:
        """Return the same for LeastAllocated over cpu and memory with equal weights."""
        (cpu_at, _, _, cpu), (memory_at, _, _, memory) = self._cells
        have, has = cpu_at[row], memory_at[row]
        if not (have and has):
            return self._one_general(row, less)
        if less:
            cpu, memory = cpu - less.get(CPU, 0), memory - less.get(MEMORY, 0)
        spare_cpu, spare_memory = self._amounts.free_times_100_at
        left, rest = spare_cpu[row] - 100.0 * cpu, spare_memory[row] - 100.0 * memory
        sums = left // have if left > 0.0 else 0.0
        if rest > 0.0:
            sums += rest // has
        return sums // 2.0

    def _one_least(self, row: int) -> float:
        """Return the same for LeastAllocated, without a call for each resource."""
        sums = weights = 0.0
        for have_at, used_at, weight, asked in self._cells:
            c = have_at[row]
            if c:
                left = c - used_at[row] - asked
                if left > 0.0:
                    sums += left * 100.0 // c * weight
                weights += weight
        return sums // weights if weights else 0.0


def _free_percent(spare: RawScores, asked: float, have: RawScores) -> RawScores:
    """Return the percentage of a resource that stays free, rounded down, at least 0."""
    left = spare - 100.0 * asked
    left /= have
    np.maximum(left, 0.0, out=left)
    return np.floor(left, out=left)


def _used(amounts: NodeAmounts, id_: int) -> tuple[NDArray[Any], Cells[Any]]:
    """Return what counts as requested: non-zero requests for cpu and memory, else real ones."""
    if id_ in (CPU, MEMORY):
        return amounts.nonzero[id_], amounts.nonzero_at[id_]
    return amounts.requested[id_], amounts.requested_at[id_]
