"""Cached scores of a class of pods: normalized scores, and the rows with the best total.

Normalizing makes a row's score depend on all other rows: if the highest raw score changes, every
normalized score does. The caches here tell, from the one row that changed, whether the range is
still the same. All rows are read again only if a row at one end of the range has changed, or if the
new score is outside of the range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.plugin_results import RowResults, differences
from holdfast.scheduling.framework.plugin import AnyRows, Rows
from holdfast.state.columns.cells import Cells, cells

INFEASIBLE = float("-inf")
UNKNOWN = float("nan")  # compares false with everything, so no raw score is in such a range
_MOST_KNOWN = 4096


def best_of(total: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the indexes of the highest total, ascending."""
    # ``argmax`` is twice as fast as ``max``.
    rows: NDArray[np.intp] = (total == total[total.argmax()]).nonzero()[0]
    return rows


class NormalizedScore:
    """A plugin's raw scores and their range, from which weighted scores are computed.

    While ``low`` equals ``high``, ``constant`` is the weighted score of every feasible row.
    ``node_scope``: raw scores change only when nodes do.

    Invariant: if any row is feasible, ``low`` and ``high`` are the lowest and highest raw score of
    the feasible rows; while they differ, ``_seen_at`` has the raw scores of all rows. It is a copy,
    because ``raw`` belongs to ``RowResults``, which has overwritten a row's previous score already.
    ``may_move_range`` and ``many_may_move_range`` return True whenever the range has changed, and
    possibly when it has not.
    """

    __slots__ = (
        "_normalize", "_seen_at", "constant", "high", "low", "node_scope", "raw", "raw_at",
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
        self._normalize = row_results.plan.normalize_by_range
        self._seen_at: Cells[float] | None = None

    @property
    def uniform(self) -> bool:
        """Whether all feasible rows have the same raw score, and so the same normalized score."""
        return self.low == self.high

    def find_range(self, feasible: NDArray[np.bool_]) -> None:
        """Find the range over all feasible rows."""
        low, high = self.row_results.score_range()
        if low != high:
            raw = self.raw[: len(feasible)].compress(feasible)
            if not len(raw):
                self.low = self.high = UNKNOWN
                return
            low, high = float(raw.min()), float(raw.max())
        self.low, self.high = low, high
        self.constant = self.weight * float(self._normalize(self.low, self.low, self.high))
        # In a uniform range the previous raw score of a row is known without storing it.
        self._seen_at = None if self.uniform else cells(self.raw.copy())

    def may_move_range(self, row: int, *, was: bool, ok: bool) -> bool:
        """Store a row's new raw score; return whether that may change the range.

        ``was`` and ``ok``: whether the row was and is feasible.
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
        """Return whether a change of many rows may change the range."""
        if isinstance(rows, slice) or not self.uniform:
            return True
        changed = self.raw[rows]
        return not bool((changed == self.low).all())

    def faults(self, feasible: NDArray[np.bool_]) -> Iterator[str]:
        """Compute the range again and describe what differs."""
        size, name = len(feasible), self.row_results.name
        raw = self.raw[:size][feasible]
        if not len(raw):
            return
        low, high = float(raw.min()), float(raw.max())
        if (self.low, self.high) != (low, high):
            yield f"{name}: cached range {self.low} to {self.high} is {low} to {high}"
            return
        if low == high:
            constant = self.weight * float(self._normalize(low, low, high))
            if self.constant != constant:
                yield f"{name}: cached score of every row {self.constant} is {constant}"
        expected = self._expected_seen(feasible)
        if expected is not None:
            seen = np.asarray(self._seen_at)[:size]
            yield from differences(f"{name}: previous raw scores", seen, expected)

    def _expected_seen(self, feasible: NDArray[np.bool_]) -> NDArray[np.float64] | None:
        """Return what ``_seen_at`` must have; None for a uniform range, which has none."""
        return None if self.uniform else self.raw[: len(feasible)]

    def score_at(self, row: int) -> float:
        """Return the weighted score of a row."""
        if self.low == self.high:
            return self.constant
        normalized = self._normalize(self.raw_at[row], self.low, self.high)
        return self.weight * float(normalized)

    def scores_of(self, rows: AnyRows) -> NDArray[np.float64] | float:
        """Return the weighted scores of rows."""
        if self.uniform:
            return self.constant
        normalized: NDArray[np.float64] = self._normalize(self.raw[rows], self.low, self.high)
        return normalized if self.weight == 1 else normalized * self.weight


class DominantScore(NormalizedScore):
    """A normalized score that outweighs all others together, as Reservation's does for owners.

    Its range changes with every owner that is placed, because the owner uses up a part of the best
    reservation. The totals do not include it, because each change would make all of them outdated.
    But one point of it outweighs all other scores together: if the best rows lead by enough, only
    they are compared, and nothing is normalized.

    Invariant: ``_counts`` has the number of feasible rows per raw score; ``_seen_at`` has the raw
    score of each feasible row; ``_others`` is an upper bound for the sum of all other scores of a
    row.
    """

    __slots__ = ("_counts", "_known", "_last", "_others")

    def __init__(self, row_results: RowResults, weight: int, others: float) -> None:
        super().__init__(row_results, weight, node_scope=False)
        self._others = others
        self._counts: dict[float, int] = {}
        self._known: dict[tuple[float, float, float], bool] = {}
        self._last = 0

    def find_range(self, feasible: NDArray[np.bool_]) -> None:
        """Count the feasible rows per raw score."""
        size = len(feasible)
        raw = self.raw[:size].compress(feasible)
        values, counts = np.unique(raw, return_counts=True)
        self._counts = dict(zip(values.tolist(), counts.tolist(), strict=True))
        seen = self.raw.copy()
        seen[:size][~feasible] = INFEASIBLE
        self._seen_at = cells(seen)
        self._set_range()

    def refresh_row(self, row: int, *, feasible: bool) -> None:
        """Update the counts for a row that changed."""
        assert self._seen_at is not None, "find_range comes first"
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
        self._set_range()

    def faults(self, feasible: NDArray[np.bool_]) -> Iterator[str]:
        """Count the feasible rows again and describe what differs."""
        values, counts = np.unique(self.raw[: len(feasible)][feasible], return_counts=True)
        if self._counts != dict(zip(values.tolist(), counts.tolist(), strict=True)):
            yield f"{self.row_results.name}: cached counts of raw scores are wrong"
        yield from super().faults(feasible)

    def _expected_seen(self, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.where(feasible, self.raw[: len(feasible)], INFEASIBLE)

    def best_rows(self, sums: NDArray[np.float64]) -> Sequence[int] | Rows:
        """Return the feasible rows with the highest total.

        ``sums`` are the sums of the other scores, INFEASIBLE for rows that are not feasible.
        """
        assert self._seen_at is not None, "find_range comes first"
        high = self.high
        if self._best_is_decisive():
            if self._counts[high] == 1 and self._seen_at[self._last] == high:
                return (self._last,)
            rows: Rows = (self.raw[: len(sums)] == high).nonzero()[0]
            return rows[best_of(sums.take(rows))]
        return best_of(sums + self.scores_of(slice(0, len(sums))))

    def _best_is_decisive(self) -> bool:
        """Whether no row can reach the best ones, whatever its other scores are."""
        counts, high = self._counts, self.high
        if len(counts) < 2:
            return bool(counts)
        key = (self.low, max([value for value in counts if value != high]), high)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            # Normalized scores are rounded, so a higher raw score may not lead at all.
            next_best, best = self._normalize(np.array(key[1:]), self.low, high).tolist()
            known = self._known[key] = self.weight * (best - next_best) > self._others
        return known

    def _set_range(self) -> None:
        counts = self._counts
        if not counts:
            self.low = self.high = UNKNOWN
            return
        self.low, self.high = min(counts), max(counts)
        if self.low == self.high:
            self.constant = self.weight * float(self._normalize(self.low, self.low, self.high))


class BestRows:
    """The highest total and the rows that have it; ``best_total`` is None if they are not known.

    A placement makes the chosen row worse, so it usually leaves the set, and the others stay.
    Finding the set again would mean reading all totals. A heap would not help: the choice is
    uniform among all rows of the best total, not the first of them. A removed row is replaced by
    the last one of the list, for the same reason: their order does not matter.

    Invariant: unless ``best_total`` is None it is the highest total, ``rows`` has every row with
    that total once, and ``_position`` has the index of each of them in ``rows``.
    """

    __slots__ = ("_capacity", "_position", "_position_at", "best_total", "rows")

    def __init__(self, capacity: int) -> None:
        self.best_total: float | None = None
        self.rows: list[int] = []
        self._capacity = capacity
        self._position: NDArray[np.int32] | None = None

    def clear(self) -> None:
        """Forget the rows, after a change of many."""
        self.best_total = None

    def find(self, total: NDArray[np.float64]) -> None:
        """Find the rows in all totals."""
        rows = best_of(total)
        self.best_total = float(total[rows[0]])
        self.rows = rows.tolist()
        if self._position is None:
            self._position = np.empty(self._capacity, np.int32)
            self._position_at = cells(self._position)
        self._position[rows] = np.arange(len(rows), dtype=np.int32)

    def change(self, row: int, old: float, new: float) -> None:
        """Update the set after a change of one row's total."""
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
            self._position_at[row] = 0
        elif new == best:
            self._position_at[row] = len(self.rows)
            self.rows.append(row)

    def _remove(self, row: int) -> None:
        position, last = self._position_at[row], self.rows.pop()
        if last != row:
            self.rows[position] = last
            self._position_at[last] = position

    def faults(self, total: NDArray[np.float64]) -> Iterator[str]:
        """Find the rows again and describe what differs."""
        if self.best_total is None:
            return
        if self.best_total != total.max() or sorted(self.rows) != best_of(total).tolist():
            yield f"cached best rows {self.rows[:8]} with total {self.best_total} are wrong"
        elif [self._position_at[row] for row in self.rows] != [*range(len(self.rows))]:
            yield "cached positions of the best rows are wrong"
