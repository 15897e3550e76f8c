"""Values by row and place, kept both ways round.

Who looks at one row wants its places in plain numbers, who looks at all rows at once wants each
place as a column. So rows are kept apart, and brought over into columns when somebody asks. They
are no lists: of those the garbage collector would look at each again and again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEW = 64
"""So many rows are brought over one by one."""


class Grid:
    """``rows[row]`` has the places of a row, ``columns()`` is [place, row], ``empty`` if unused.

    ``code`` is "q" for whole numbers, "d" for others. ``totals`` are the sums of rows of whole
    numbers that are 0 if unused.
    """

    __slots__ = ("_code", "_columns", "_empty", "_moved", "rows", "totals")

    def __init__(self, rows: int, code: str = "q", empty: float = 0) -> None:
        self._code = code
        self._empty = empty
        self._moved: set[int] = set()
        self._columns: NDArray[Any] | None = None
        self.rows: list[array[Any]] = [array(code)] * rows
        self.totals: NDArray[np.int64] = np.zeros(rows, np.int64)

    def columns(self) -> NDArray[Any]:
        """The values as [place, row]. Not to be written to."""
        moved, known = self._moved, self._columns
        if known is not None and not moved:
            return known
        deep = max((len(self.rows[row]) for row in moved), default=0)
        if known is None or len(moved) > _FEW or deep > len(known):
            known = self._columns = self._lay_out()
        else:
            for row in moved:
                values = self.rows[row]
                known[: len(values), row] = values
                known[len(values) :, row] = self._empty
        moved.clear()
        return known

    def _lay_out(self) -> NDArray[Any]:
        counts = np.fromiter(map(len, self.rows), np.intp, len(self.rows))
        values = np.frombuffer(b"".join(self.rows), self._code)
        # Some places more than there are now, so that one pod more does not begin it anew.
        shape = (int(counts.max(initial=0)) + 8, len(counts))
        columns = np.full(shape, self._empty, self._code)
        rows = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(values)) - np.repeat(counts.cumsum() - counts, counts)
        columns[places, rows] = values
        return columns

    def write(self, row: int, values: Iterable[float]) -> None:
        """Write a row."""
        made = self.rows[row] = array(self._code, values)
        if not self._empty:
            self.totals[row] = sum(made)
        self._moved.add(row)

    def fill(self, values: NDArray[Any], counts: NDArray[np.int64]) -> None:
        """Write all rows: their values one after the other, and how many are each row's."""
        data = memoryview(values.astype(self._code, copy=False).tobytes())
        ends = counts.cumsum()
        at = 0
        for row, end in enumerate((ends * values.itemsize).tolist()):
            here = self.rows[row] = array(self._code)
            here.frombytes(data[at:end])
            at = end
        if not self._empty:
            sums = np.concatenate([[0], values.cumsum()])
            self.totals[:] = sums[ends] - sums[ends - counts]
        self._columns = None
        self._moved.clear()

    def drop(self, row: int, places: Sequence[int]) -> None:
        """Take some places, ascending, out of a row; what comes after moves up."""
        here = self.rows[row]
        for place in reversed(places):
            value = here.pop(place)
            if not self._empty:
                self.totals[row] -= value
        self._moved.add(row)
