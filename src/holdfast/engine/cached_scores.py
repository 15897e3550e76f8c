"""Scores of a class that are kept between pods: normalized scores and the rows with the best total.

Normalizing needs the lowest and highest raw score among feasible rows (the two ends). They are
looked for in full only when a row at one of the ends changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import Cells, cells
from holdfast.engine.plugin_results import RowResults, differences
from holdfast.framework.plugin import AnyRows, Rows

INFEASIBLE = float("-inf")
UNKNOWN = float("nan")  # equal to nothing, not even itself: no row is between such ends
_MOST_KNOWN = 4096


def best_of(total: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where the highest total is, ascending."""
    # Twice as fast as ``max``: it need not carry the value along.
    rows: NDArray[np.intp] = (total == total[total.argmax()]).nonzero()[0]
    return rows


class NormalizedScore:
    """Raw scores with their ends; ``constant`` is everybody's weighted score while they meet.

    ``of_node``: raw scores stay as they are while no node changes.

    Invariant: if any row is feasible, ``low`` and ``high`` are the lowest and highest raw score of
    the feasible rows; while they differ, ``_seen_at`` has the raw scores of all rows.
    ``may_move_range`` and ``many_may_move_range`` return True whenever an end has moved, and
    possibly when none has.
    """

    __slots__ = (
        "_scale", "_seen_at", "_state", "constant", "high", "low", "node_scope", "raw", "raw_at",
        "row_results", "weight",
    )  # fmt: skip

    def __init__(self, row_results: RowResults, weight: int, *, node_scope: bool) -> None:
        self.node_scope = node_scope
        assert row_results.raw is not None
        assert row_results.raw_at is not None
        self.raw, self.raw_at = row_results.raw, row_results.raw_at
        self.row_results = row_results
        self.weight = weight
        self.low = self.high = self.constant = UNKNOWN
        self._state = row_results.state
        self._scale = row_results.plugin.normalize_by_range
        self._seen_at: Cells[float] | None = None

    @property
    def uniform(self) -> bool:
        """Whether all feasible rows have one raw score, and so one normalized score."""
        return self.low == self.high

    def find_range(self, feasible: NDArray[np.bool_]) -> None:
        """Look at all feasible rows for the ends."""
        low, high = self.row_results.score_range()
        if low != high:
            found = self.raw[: len(feasible)].compress(feasible)
            if not len(found):
                self.low = self.high = UNKNOWN
                return
            low, high = float(found.min()), float(found.max())
        self.low, self.high = low, high
        self.constant = self.weight * float(self._scale(self._state, self.low, self.low, self.high))
        # While the ends meet, what a row had before is known without keeping it.
        self._seen_at = None if self.uniform else cells(self.raw.copy())

    def may_move_range(self, row: int, *, was: bool, ok: bool) -> bool:
        """Note a row's new raw score; tell whether the ends may have moved with it.

        ``was`` and ``ok`` tell whether the row was and is feasible.
        """
        raw = self.raw_at[row]
        if ok and not self.low <= raw <= self.high:
            return True
        if self._seen_at is None:
            return False
        seen = self._seen_at[row]
        self._seen_at[row] = raw
        return was and not (ok and raw == seen) and seen in (self.low, self.high)

    def many_may_move_range(self, rows: AnyRows) -> bool:
        """Tell whether the ends may have moved, many rows having changed."""
        if isinstance(rows, slice) or not self.uniform:
            return True
        changed = self.raw[rows]
        return not bool((changed == self.low).all())

    def faults(self, feasible: NDArray[np.bool_]) -> Iterator[str]:
        """Look at all feasible rows and name what differs from what is kept."""
        size, name = len(feasible), self.row_results.plugin.name
        found = self.raw[:size][feasible]
        if not len(found):
            return
        low, high = float(found.min()), float(found.max())
        if (self.low, self.high) != (low, high):
            yield f"{name}: ends kept as {self.low} and {self.high} are {low} and {high}"
            return
        if low == high:
            constant = self.weight * float(self._scale(self._state, low, low, high))
            if self.constant != constant:
                yield f"{name}: the score of every row kept as {self.constant} is {constant}"
        expected = self._noted(feasible)
        if expected is not None:
            noted = np.asarray(self._seen_at)[:size]
            yield from differences(f"{name}: noted raw scores", noted, expected)

    def _noted(self, feasible: NDArray[np.bool_]) -> NDArray[np.float64] | None:
        """What ``_seen_at`` must have; None while the ends meet, when it is not kept."""
        return None if self.uniform else self.raw[: len(feasible)]

    def score_at(self, row: int) -> float:
        """The weighted score of a row."""
        if self.low == self.high:
            return self.constant
        scaled = self._scale(self._state, self.raw_at[row], self.low, self.high)
        return self.weight * float(scaled)

    def scores_of(self, rows: AnyRows) -> NDArray[np.float64] | float:
        """The weighted scores of rows."""
        if self.uniform:
            return self.constant
        scaled: NDArray[np.float64] = self._scale(self._state, self.raw[rows], self.low, self.high)
        return scaled if self.weight == 1 else scaled * self.weight


class DominantScore(NormalizedScore):
    """A normalized score that outweighs all the others together, as Reservation's does for owners.

    Its ends move with every pod that is placed, and normalizing is work for all rows. But one
    point of it is worth more than all the others can say, so where the best rows stand out only
    they are compared, and nothing is normalized at all.

    Invariant: ``_counts`` tells of every raw score how many feasible rows have it, ``_seen_at`` the
    raw score of each feasible row; ``others`` is at least what all other scores of a row sum to.
    So ``best_rows`` are those with the highest sum of this score and the others.
    """

    __slots__ = ("_counts", "_known", "_last", "_others")

    def __init__(self, row_results: RowResults, weight: int, others: float) -> None:
        super().__init__(row_results, weight, node_scope=False)
        self._others = others
        self._counts: dict[float, int] = {}
        self._known: dict[tuple[float, float, float], bool] = {}
        self._last = 0

    def find_range(self, feasible: NDArray[np.bool_]) -> None:
        """Count all feasible rows."""
        size = len(feasible)
        found = self.raw[:size].compress(feasible)
        values, counts = np.unique(found, return_counts=True)
        self._counts = dict(zip(values.tolist(), counts.tolist(), strict=True))
        seen = self.raw.copy()
        seen[:size][~feasible] = INFEASIBLE
        self._seen_at = cells(seen)
        self._find_ends()

    def refresh_row(self, row: int, *, feasible: bool) -> None:
        """Count a row that changed anew."""
        assert self._seen_at is not None, "measured before any row changes"
        raw = self.raw_at[row] if feasible else INFEASIBLE
        seen, counts = self._seen_at[row], self._counts
        self._last = row
        if seen == raw:
            return
        self._seen_at[row] = raw
        if seen != INFEASIBLE:
            counts[seen] -= 1
            if not counts[seen]:
                del counts[seen]
        if feasible:
            counts[raw] = counts.get(raw, 0) + 1
        self._find_ends()

    def faults(self, feasible: NDArray[np.bool_]) -> Iterator[str]:
        """Count all feasible rows and name what differs from what is kept."""
        values, counts = np.unique(self.raw[: len(feasible)][feasible], return_counts=True)
        if self._counts != dict(zip(values.tolist(), counts.tolist(), strict=True)):
            yield f"{self.row_results.plugin.name}: kept counts of raw scores are wrong"
        yield from super().faults(feasible)

    def _noted(self, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.where(feasible, self.raw[: len(feasible)], INFEASIBLE)

    def best_rows(self, sums: NDArray[np.float64]) -> Sequence[int] | Rows:
        """Feasible rows with the highest total; ``sums`` are the others', lowest elsewhere."""
        assert self._seen_at is not None, "measured before anybody chooses"
        high = self.high
        if self._stands_out():
            if self._counts[high] == 1 and self._seen_at[self._last] == high:
                return (self._last,)
            rows: Rows = (self.raw[: len(sums)] == high).nonzero()[0]
            return rows[best_of(sums.take(rows))]
        return best_of(sums + self.scores_of(slice(0, len(sums))))

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


class BestRows:
    """The best total and the rows that have it, or nothing known (``best_total`` is None).

    Most placements change one row, which usually leaves the set of best rows; finding the others
    again would mean looking at all totals. Removal swaps with the last, which is fair to
    everybody: each choice is uniform over the set, whatever its order.

    Invariant: unless ``best_total`` is None it is the highest total, ``rows`` has every row with
    that total once, and ``_place`` has the index of each of them in ``rows``.
    """

    __slots__ = ("_capacity", "_place", "_place_at", "best_total", "rows")

    def __init__(self, capacity: int) -> None:
        self.best_total: float | None = None
        self.rows: list[int] = []
        self._capacity = capacity
        self._place: NDArray[np.int32] | None = None

    def clear(self) -> None:
        """Know nothing: too much has changed."""
        self.best_total = None

    def find(self, total: NDArray[np.float64]) -> None:
        """Look at all totals."""
        rows = best_of(total)
        self.best_total = float(total[rows[0]])
        self.rows = rows.tolist()
        if self._place is None:
            self._place = np.empty(self._capacity, np.int32)
            self._place_at = cells(self._place)
        self._place[rows] = np.arange(len(rows), dtype=np.int32)

    def change(self, row: int, old: float, new: float) -> None:
        """Note that one row's total changed."""
        best = self.best_total
        if best is None or old == new:
            return
        if old == best:
            self._remove(row)
            if not self.rows and new < best:
                self.best_total = None
                return
        if new > best:
            self.best_total = new
            self.rows = [row]
            self._place_at[row] = 0
        elif new == best:
            self._place_at[row] = len(self.rows)
            self.rows.append(row)

    def _remove(self, row: int) -> None:
        place, last = self._place_at[row], self.rows.pop()
        if last != row:
            self.rows[place] = last
            self._place_at[last] = place

    def faults(self, total: NDArray[np.float64]) -> Iterator[str]:
        """Look at all totals and name what differs from what is kept."""
        if self.best_total is None:
            return
        if self.best_total != total.max() or sorted(self.rows) != best_of(total).tolist():
            yield f"the kept best rows {self.rows[:8]} with {self.best_total} are not the best"
        elif [self._place_at[row] for row in self.rows] != [*range(len(self.rows))]:
            yield "places of the kept best rows are wrong"
