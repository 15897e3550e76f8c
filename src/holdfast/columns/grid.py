"""Values by row and place, kept both ways round.

Who looks at one row wants its places side by side, who looks at all rows at once wants each place
as a column: one of them would jump through memory. So rows are written one way, and brought over
to the other when somebody asks for columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Grid:
    """``rows`` is [row, place], ``columns()`` the same as [place, row]; unused cells are empty.

    ``totals`` are the sums of rows, if cells are empty at 0.
    """

    __slots__ = ("_columns", "_empty", "_moved", "rows", "totals")

    def __init__(self, rows: int, places: int, dtype: Any, empty: float = 0) -> None:
        self._empty = empty
        self._moved: set[int] = set()
        self._columns: NDArray[Any] | None = None
        self.rows: NDArray[Any] = np.full((rows, places), empty, dtype)
        self.totals: NDArray[Any] = np.zeros(rows, dtype)

    def columns(self) -> NDArray[Any]:
        """The values as [place, row]. Not to be written to."""
        if self._columns is None:
            self._columns = np.ascontiguousarray(self.rows.T)
        elif self._moved:
            moved = list(self._moved)
            self._columns[:, moved] = self.rows[moved].T
        self._moved.clear()
        return self._columns

    def write(self, row: int, values: Sequence[float], before: int) -> None:
        """Write a row, of which so many places were in use."""
        count = len(values)
        self.rows[row, :count] = values
        if not self._empty:
            self.totals[row] = sum(values)
        if count < before:
            self.rows[row, count:before] = self._empty
        self._moved.add(row)

    def drop(self, row: int, places: Sequence[int], before: int) -> None:
        """Take some places, ascending, out of a row; what comes after moves up."""
        here = self.rows[row]
        for place in reversed(places):
            if not self._empty:
                self.totals[row] -= here[place]
            here[place : before - 1] = here[place + 1 : before]
        here[before - len(places) : before] = self._empty
        self._moved.add(row)
