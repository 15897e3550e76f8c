"""A normalized score that outweighs all the others together, as Reservation's does for owners.

Its ends move with every pod that is placed, and normalizing is work for all rows. But one point of
it is worth more than all the others can say, so where the best rows stand out only they are
compared, and nothing is normalized at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells
from holdfast.framework.answers import Answers
from holdfast.framework.plugin import Rows
from holdfast.framework.scaled import UNKNOWN, Scaled

_MOST_KNOWN = 4096


class Leading(Scaled):
    """Raw scores with how many feasible rows have each; ``others`` is the most the rest can say."""

    __slots__ = ("_counts", "_known", "_last", "_others")

    def __init__(self, answers: Answers, weight: int, others: float) -> None:
        super().__init__(answers, weight)
        self._others = others
        self._counts: dict[float, int] = {}
        self._known: dict[tuple[float, float, float], bool] = {}
        self._last = 0

    def measure(self, feasible: NDArray[np.bool_]) -> None:
        """Count all feasible rows."""
        found = self.raw[: len(feasible)].compress(feasible)
        values, counts = np.unique(found, return_counts=True)
        self._counts = dict(zip(values.tolist(), counts.tolist(), strict=True))
        self._seen_at = cells(self.raw.copy())
        self._find_ends()

    def moves(self, row: int, *, was: bool, ok: bool) -> bool:
        """Note a row's new raw score; the sums of the others hold, wherever the ends are."""
        assert self._seen_at is not None, "measured before any row moves"
        raw, counts = self.raw_at[row], self._counts
        seen = self._seen_at[row]
        self._last = row
        if was is ok and seen == raw:
            return False
        self._seen_at[row] = raw
        if was:
            counts[seen] -= 1
            if not counts[seen]:
                del counts[seen]
        if ok:
            counts[raw] = counts.get(raw, 0) + 1
        self._find_ends()
        return False

    def best_rows(self, sums: NDArray[np.float64]) -> Sequence[int] | Rows:
        """Feasible rows with the highest total; ``sums`` are the others', lowest elsewhere."""
        high = self.high
        if self._stands_out():
            if self._counts[high] == 1 and self.raw_at[self._last] == high and self._is_in(sums):
                return (self._last,)
            rows: Rows = (self.raw[: len(sums)] == high).nonzero()[0]
            others = sums.take(rows)
            return rows.compress(others == others.max())
        total = sums + self.of(slice(0, len(sums)))
        rows = (total == total.max()).nonzero()[0]
        return rows

    def _is_in(self, sums: NDArray[np.float64]) -> bool:
        return bool(sums[self._last] >= 0.0)

    def _stands_out(self) -> bool:
        """Whether no other row comes near the best ones, whatever the others say."""
        counts, high = self._counts, self.high
        if len(counts) < 2:
            return bool(counts)
        key = (self.low, max([value for value in counts if value != high]), high)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            next_best, best = self._scale(self._state, np.array(key[1:]), self.low, high).tolist()
            known = self._known[key] = self.weight * (best - next_best) > self._others
        return known

    def _find_ends(self) -> None:
        counts = self._counts
        if not counts:
            self.low = self.high = UNKNOWN
            return
        self.low, self.high = min(counts), max(counts)
        if self.low == self.high:
            self.constant = self.weight * float(
                self._scale(self._state, self.low, self.low, self.high)
            )
