"""Compute the cost of each row's victims, and find the rows with the lowest cost.

A cost has six fields that are compared in order. All but the tier are packed into three numbers, so
three arrays compare all rows, without an object for each. The cheapest 64 rows are also kept in
order: a preemption changes one row, and the next pod of the class usually finds its node among
them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.preemption import LOWEST_COST, SHIFT, PreemptionCost
from holdfast.scheduling.framework.plugin import Rows
from holdfast.state.columns.ranked_pods import NOT_STARTED
from holdfast.state.columns.request_fit import SomeRows

NOT_A_CANDIDATE = 2**62
"""The weight of a row on which no victims make the pod fit, or none are needed."""
RankingKey = tuple[int, int, float]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_VIOLATION, _VICTIM = 2**33, 2**16
_MAX_VICTIMS = 2**14
_LAST: RankingKey = (NOT_A_CANDIDATE, -1, 0.0)
_KEPT_ROWS = 64


def lower_bound(cost: PreemptionCost) -> PreemptionCost:
    """Return a lower bound of the cost on a row where freeing resources alone costs ``cost``.

    With more requirements, the most important victim is at least as important, and pods that
    violate a budget are reprieved before all others.
    """
    if cost.violations:
        return LOWEST_COST._replace(violations=1)
    return PreemptionCost(0, cost.highest, cost.highest + SHIFT, 1, cost.tier, cost.minus_start)


class CostColumns:
    """The costs of all rows, packed: comparing (weight, total, -start) compares costs.

    Invariant: on a row with victims ``weight`` is violations * 2^33 + highest + 2^31, ``total`` is
    the sum of priority + 2^31 over the victims * 2^16 + their number, and ``start`` is when the
    most important victim started. A priority has 32 bits and a row fewer than 2^14 victims, so no
    part of a packed number overflows into the next, and both stay below 2^62. On all other rows
    ``weight`` is NOT_A_CANDIDATE, and ``total`` and ``start`` mean nothing.
    """

    def __init__(self, capacity: int) -> None:
        self.weight: Ints = np.full(capacity, NOT_A_CANDIDATE, np.int64)
        self.total: Ints = np.zeros(capacity, np.int64)
        self.start: NDArray[np.float64] = np.zeros(capacity)
        self._cheapest_rows: CheapestRows | None = None

    def put(self, row: int, violations: int, priorities: Sequence[int], start: float) -> None:
        """Store what the victims of a row cost; the first one is the most important."""
        key = _LAST
        if priorities:
            count = len(priorities)
            weight = violations * _VIOLATION + priorities[0] + SHIFT
            total = (sum(priorities) + count * SHIFT) * _VICTIM + count
            self.total[row], self.start[row] = total, start
            key = (weight, total, -start)
        self.weight[row] = key[0]
        if self._cheapest_rows is not None:
            self._cheapest_rows.change(row, key)

    def put_many(
        self,
        rows: SomeRows,
        violations: Ints,
        priorities: tuple[Ints, Ints],
        count: Ints,
        start: NDArray[np.float64],
    ) -> None:
        """Store the same for many rows; ``priorities`` are the highest, and the sum of all."""
        self._cheapest_rows = None
        highest, total = priorities
        weight = violations * _VIOLATION + highest + SHIFT
        self.weight[rows] = np.where(count > 0, weight, NOT_A_CANDIDATE)
        self.total[rows] = (total + count * SHIFT) * _VICTIM + count
        self.start[rows] = start

    def cost(self, row: int, now: float, tier: int = 0) -> PreemptionCost:
        """Return the cost of a row that has victims and is in a tier."""
        start, weight, total = float(self.start[row]), int(self.weight[row]), int(self.total[row])
        violations, highest = divmod(weight, _VIOLATION)
        started = now if start == NOT_STARTED else start
        return PreemptionCost(violations, highest - SHIFT, *divmod(total, _VICTIM), tier, -started)

    def cheapest(self, is_among: Callable[[int], bool], among: Callable[[], Bools]) -> list[int]:
        """Return the rows with the lowest cost, ascending; none if no row has victims.

        ``is_among`` and ``among`` tell which rows count. Usually the few rows that are kept in
        order suffice; else all rows are compared.
        """
        rows = self._cheapest_rows.first(is_among) if self._cheapest_rows is not None else None
        return self.cheapest_of_all(among()) if rows is None else rows

    def keep_cheapest_rows(self, size: int) -> None:
        """Keep the cheapest of ``size`` rows in order from now on, if they are not yet."""
        if self._cheapest_rows is not None and not self._cheapest_rows.spent:
            return
        order = np.lexsort((-self.start[:size], self.total[:size], self.weight[:size]))
        rows_by_key = [(self._key(row), row) for row in order[: _KEPT_ROWS + 1].tolist()]
        bound = min(rows_by_key.pop()[0] if len(rows_by_key) > _KEPT_ROWS else _LAST, _LAST)
        self._cheapest_rows = CheapestRows(
            sorted(pair for pair in rows_by_key if pair[0] < bound), bound
        )

    def faults(self, size: int) -> Iterator[str]:
        """Name what violates the invariants of these columns and of the cheapest rows."""
        used = (self.weight[:size] != NOT_A_CANDIDATE).nonzero()[0]
        many = self.total[used] % _VICTIM >= _MAX_VICTIMS
        if many.any():
            yield f"row {used[many][0]} has more victims than fit its packed cost"
        if self._cheapest_rows is not None:
            yield from self._cheapest_rows.faults({row: self._key(row) for row in used.tolist()})

    def cheapest_of_all(self, among: Bools, tiers: Ints | None = None) -> list[int]:
        """Return the rows ``among`` with the lowest cost, ascending, by comparing all of them."""
        weights = np.where(among, self.weight[: len(among)], NOT_A_CANDIDATE)
        least = weights.min(initial=NOT_A_CANDIDATE)
        if least == NOT_A_CANDIDATE:
            return []
        # Usually many rows have this weight: comparing all is cheaper than selecting them.
        totals = np.where(weights == least, self.total[: len(among)], NOT_A_CANDIDATE)
        rows: Rows = (totals == totals.min()).nonzero()[0]
        if tiers is not None:
            rows = rows[tiers[rows] == tiers[rows].min()]
        if len(rows) > 1:
            starts = self.start[rows]
            rows = rows[starts == starts.max()]
        row_numbers: list[int] = rows.tolist()
        return row_numbers

    def _key(self, row: int) -> RankingKey:
        return int(self.weight[row]), int(self.total[row]), -float(self.start[row])


class CheapestRows:
    """Rows in the order of their keys; no other row has a smaller key than ``bound``.

    They are ``spent`` when most of them are gone: then all rows must be compared again.
    """

    __slots__ = ("_few", "_key_of", "_rows", "bound")

    def __init__(self, rows_by_key: list[tuple[RankingKey, int]], bound: RankingKey) -> None:
        self._rows = rows_by_key
        self._key_of = {row: key for key, row in rows_by_key}
        self.bound = bound
        self._few = len(rows_by_key) // 8

    @property
    def spent(self) -> bool:
        """Whether most of the rows are gone; never if there were none at first."""
        return len(self._rows) < self._few

    def change(self, row: int, key: RankingKey) -> None:
        """Replace the key of a row."""
        old = self._key_of.pop(row, None)
        if old is not None:
            del self._rows[bisect_left(self._rows, (old, row))]
        if key < self.bound:
            insort(self._rows, (key, row))
            self._key_of[row] = key

    def first(self, among: Callable[[int], bool]) -> list[int] | None:
        """Return the rows ``among`` with the smallest key; None if ``among`` has none of them."""
        rows: list[int] = []
        least: RankingKey | None = None
        for key, row in self._rows:
            if least is not None and key != least:
                break
            if among(row):
                least = key
                rows.append(row)
        return rows or None

    def faults(self, keys: Mapping[int, RankingKey]) -> Iterator[str]:
        """Name a difference to the rows whose key is below the bound."""
        below = sorted((key, row) for row, key in keys.items() if key < self.bound)
        if self._rows != below:
            yield f"{len(self._rows)} rows are kept, {len(below)} are below the bound"
