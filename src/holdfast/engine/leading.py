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
from holdfast.engine.answers import Answers
from holdfast.engine.kept_scores import UNKNOWN, Scaled
from holdfast.engine.ties import NOWHERE, best_of
from holdfast.framework.plugin import Rows

_MOST_KNOWN = 4096


class Leading(Scaled):
    """Raw scores with how many feasible rows have each; ``others`` is the most the rest can say."""

    __slots__ = ("_counts", "_known", "_last", "_others")

    def __init__(self, answers: Answers, weight: int, others: float) -> None:
        super().__init__(answers, weight, of_node=False)
        self._others = others
        self._counts: dict[float, int] = {}
        self._known: dict[tuple[float, float, float], bool] = {}
        self._last = 0

    def measure(self, feasible: NDArray[np.bool_]) -> None:
        """Count all feasible rows."""
        size = len(feasible)
        found = self.raw[:size].compress(feasible)
        values, counts = np.unique(found, return_counts=True)
        self._counts = dict(zip(values.tolist(), counts.tolist(), strict=True))
        seen = self.raw.copy()
        seen[:size][~feasible] = NOWHERE
        self._seen_at = cells(seen)
        self._find_ends()

    def follow(self, row: int, *, feasible: bool) -> None:
        """Count a row that changed anew."""
        assert self._seen_at is not None, "measured before any row changes"
        raw = self.raw_at[row] if feasible else NOWHERE
        seen, counts = self._seen_at[row], self._counts
        self._last = row
        if seen == raw:
            return
        self._seen_at[row] = raw
        if seen != NOWHERE:
            counts[seen] -= 1
            if not counts[seen]:
                del counts[seen]
        if feasible:
            counts[raw] = counts.get(raw, 0) + 1
        self._find_ends()

    def best_rows(self, sums: NDArray[np.float64]) -> Sequence[int] | Rows:
        """Feasible rows with the highest total; ``sums`` are the others', lowest elsewhere."""
        assert self._seen_at is not None, "measured before anybody chooses"
        high = self.high
        if self._stands_out():
            if self._counts[high] == 1 and self._seen_at[self._last] == high:
                return (self._last,)
            rows: Rows = (self.raw[: len(sums)] == high).nonzero()[0]
            return rows[best_of(sums.take(rows))]
        return best_of(sums + self.of(slice(0, len(sums))))

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
