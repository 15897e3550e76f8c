"""What victims cost, and which rows cost least: the measure by which nodes are compared."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.ranked_pods import NOT_STARTED
from holdfast.columns.request_fit import SomeRows
from holdfast.framework.plugin import Candidate, Rows

SHIFT = 2**31
"""Added to priorities, so that one victim more never costs less."""
NOT_A_CANDIDATE = 2**62
"""The weight of a row on which eviction makes no room, or is not needed."""
RankingKey = tuple[int, int, float]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_VIOLATION, _VICTIM = 2**33, 2**16
_MOST_VICTIMS = 2**14
_LAST: RankingKey = (NOT_A_CANDIDATE, -1, 0.0)
_LEADERS = 64


class PreemptionCost(NamedTuple):
    """What a row's victims cost, most weighty first; smaller is better.

    Broken budgets, the most important victim's priority, all victims' priorities, how many, and
    minus the start of the most important ones: the later they started the better.
    """

    violations: int
    highest: int
    total: int
    victims: int
    minus_start: float


LOWEST_COST = PreemptionCost(0, -SHIFT, 0, 0, -math.inf)
"""Less than this nobody loses."""


def cost_of(candidate: Candidate, now: float) -> PreemptionCost:
    """Add up what a candidate costs."""
    victims = candidate.victims
    highest = max((v.priority for v in victims), default=-SHIFT)
    starts = (v.start_time_or(now) for v in victims if v.priority == highest)
    return PreemptionCost(
        candidate.violations, highest, sum(v.priority + SHIFT for v in victims), len(victims),
        -min(starts, default=now),
    )  # fmt: skip


def lower_bound(cost: PreemptionCost) -> PreemptionCost:
    """The least it costs where, besides all else, there must be room, which alone costs ``loss``.

    Then the first victim comes no later in the order of importance, and those whom a budget
    guards come before all others in the order of letting back.
    """
    if cost.violations:
        return LOWEST_COST._replace(violations=1)
    return PreemptionCost(0, cost.highest, cost.highest + SHIFT, 1, cost.minus_start)


class CostColumns:
    """The losses of all rows, packed: comparing (weight, total, -start) compares losses.

    Invariant: on a row with victims ``weight`` is violations * 2^33 + highest + 2^31, ``total`` is
    the sum of priority + 2^31 over the victims * 2^16 + their number, ``start`` when the most
    important victim started. A priority has 32 bits and a row fewer than 2^14 victims, so that no
    part of a packed number reaches the next one, and both stay below 2^62. On all other rows
    ``weight`` is NO_USE, and ``total`` and ``start`` mean nothing.
    """

    def __init__(self, capacity: int) -> None:
        self.weight: Ints = np.full(capacity, NOT_A_CANDIDATE, np.int64)
        self.total: Ints = np.zeros(capacity, np.int64)
        self.start: NDArray[np.float64] = np.zeros(capacity)
        self._cheapest_rows: CheapestRows | None = None

    def put(self, row: int, violations: int, priorities: Sequence[int], start: float) -> None:
        """Enter what the victims of a row cost; the first one is the most important."""
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
        """The same for many rows; ``priorities`` are the highest, and the sum of all."""
        self._cheapest_rows = None
        highest, total = priorities
        weight = violations * _VIOLATION + highest + SHIFT
        self.weight[rows] = np.where(count > 0, weight, NOT_A_CANDIDATE)
        self.total[rows] = (total + count * SHIFT) * _VICTIM + count
        self.start[rows] = start

    def cost(self, row: int, now: float) -> PreemptionCost:
        """The loss of a row that has victims."""
        start, weight, total = float(self.start[row]), int(self.weight[row]), int(self.total[row])
        violations, highest = divmod(weight, _VIOLATION)
        began = now if start == NOT_STARTED else start
        return PreemptionCost(violations, highest - SHIFT, *divmod(total, _VICTIM), -began)

    def cheapest(self, is_among: Callable[[int], bool], among: Callable[[], Bools]) -> list[int]:
        """The rows where least is lost, ascending; none if no row has victims.

        Most times few rows need to be asked about; else all of those that are ``among`` count.
        """
        found = self._cheapest_rows.first(is_among) if self._cheapest_rows is not None else None
        return self._look_at_all(among()) if found is None else found

    def keep_cheapest_rows(self, size: int) -> None:
        """Keep the cheapest few of so many rows in order from now on, unless they still are."""
        if self._cheapest_rows is not None and not self._cheapest_rows.spent:
            return
        order = np.lexsort((-self.start[:size], self.total[:size], self.weight[:size]))
        leading = [(self._key(row), row) for row in order[: _LEADERS + 1].tolist()]
        bar = min(leading.pop()[0] if len(leading) > _LEADERS else _LAST, _LAST)
        self._cheapest_rows = CheapestRows(sorted(pair for pair in leading if pair[0] < bar), bar)

    def faults(self, size: int) -> Iterator[str]:
        """Name what contradicts the invariants of these columns, and of the leaders."""
        used = (self.weight[:size] != NOT_A_CANDIDATE).nonzero()[0]
        many = self.total[used] % _VICTIM >= _MOST_VICTIMS
        if many.any():
            yield f"row {used[many][0]} has more victims than fit its packed loss"
        if self._cheapest_rows is not None:
            yield from self._cheapest_rows.faults({row: self._key(row) for row in used.tolist()})

    def _look_at_all(self, among: Bools) -> list[int]:
        weights = np.where(among, self.weight[: len(among)], NOT_A_CANDIDATE)
        least = weights.min(initial=NOT_A_CANDIDATE)
        if least == NOT_A_CANDIDATE:
            return []
        # Many rows are alike so far: cheaper over all of them than picking those.
        totals = np.where(weights == least, self.total[: len(among)], NOT_A_CANDIDATE)
        rows: Rows = (totals == totals.min()).nonzero()[0]
        if len(rows) > 1:
            starts = self.start[rows]
            rows = rows[starts == starts.max()]
        found: list[int] = rows.tolist()
        return found

    def _key(self, row: int) -> RankingKey:
        return int(self.weight[row]), int(self.total[row]), -float(self.start[row])


class CheapestRows:
    """Rows by key, smallest first; every other row has no smaller key than ``bar``.

    They are ``spent`` when few of those there were are left: then it is time to look at all rows.
    """

    __slots__ = ("_few", "_key_of", "_leading", "bar")

    def __init__(self, leading: list[tuple[RankingKey, int]], bar: RankingKey) -> None:
        self._leading = leading
        self._key_of = {row: key for key, row in leading}
        self.bar = bar
        self._few = len(leading) // 8

    @property
    def spent(self) -> bool:
        """Whether most of them are gone; where many rows are equal there were none."""
        return len(self._leading) < self._few

    def change(self, row: int, key: RankingKey) -> None:
        """A row has another key now."""
        old = self._key_of.pop(row, None)
        if old is not None:
            del self._leading[bisect_left(self._leading, (old, row))]
        if key < self.bar:
            insort(self._leading, (key, row))
            self._key_of[row] = key

    def first(self, among: Callable[[int], bool]) -> list[int] | None:
        """The rows with the smallest key of those that are ``among``; None if they cannot tell."""
        found: list[int] = []
        least: RankingKey | None = None
        for key, row in self._leading:
            if least is not None and key != least:
                break
            if among(row):
                least = key
                found.append(row)
        return found or None

    def faults(self, keys: Mapping[int, RankingKey]) -> Iterator[str]:
        """Name what contradicts: the leading rows are all those with a key below the bar."""
        below = sorted((key, row) for row, key in keys.items() if key < self.bar)
        if self._leading != below:
            yield f"{len(self._leading)} rows lead, {len(below)} are below the bar"
