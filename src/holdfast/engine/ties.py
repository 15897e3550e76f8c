"""The rows with the best total, kept while single rows change.

Most placements change one row, which usually leaves the set of best rows; finding the others
again would mean looking at all totals. Removal swaps with the last, which is fair to everybody:
each choice is uniform over the set, whatever its order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells

NOWHERE = float("-inf")


def best_of(total: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where the highest total is, ascending."""
    # Twice as fast as ``max``: it need not carry the value along.
    rows: NDArray[np.intp] = (total == total[total.argmax()]).nonzero()[0]
    return rows


class Ties:
    """The best total and the rows that have it, or nothing known (``best`` is None)."""

    __slots__ = ("_capacity", "_place", "_place_at", "best", "rows")

    def __init__(self, capacity: int) -> None:
        self.best: float | None = None
        self.rows: list[int] = []
        self._capacity = capacity
        self._place: NDArray[np.int32] | None = None

    def forget(self) -> None:
        """Know nothing: too much has changed."""
        self.best = None

    def find(self, total: NDArray[np.float64]) -> None:
        """Look at all totals."""
        rows = best_of(total)
        self.best = float(total[rows[0]])
        self.rows = rows.tolist()
        if self._place is None:
            self._place = np.empty(self._capacity, np.int32)
            self._place_at = cells(self._place)
        self._place[rows] = np.arange(len(rows), dtype=np.int32)

    def change(self, row: int, old: float, new: float) -> None:
        """Note that one row's total changed."""
        best = self.best
        if best is None or old == new:
            return
        if old == best:
            self._remove(row)
            if not self.rows and new < best:
                self.best = None
                return
        if new > best:
            self.best = new
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
