"""One number per pod, by row and rank, readable by row and by rank.

Code for one row needs plain numbers, code for all rows needs one column per rank. Rows are stored
as arrays, and copied into columns on demand. They are not lists, because the garbage collector
would visit these again and again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEW = 64
"""Up to this many rows are copied one by one."""


class PodValues:
    """One value per pod: ``rows[row]`` by rank, ``columns()`` as [rank, row].

    Columns are padded with ``empty``. ``code`` is "q" for integers, "d" for floats. ``totals`` are
    the sums of rows, if ``empty`` is 0.
    """

    __slots__ = ("_changed", "_code", "_columns", "_empty", "rows", "totals")

    def __init__(self, rows: int, code: str = "q", empty: float = 0) -> None:
        self._code = code
        self._empty = empty
        self._changed: set[int] = set()
        self._columns: NDArray[Any] | None = None
        self.rows: list[array[Any]] = [array(code)] * rows
        self.totals: NDArray[np.int64] = np.zeros(rows, np.int64)

    @property
    def is_stale(self) -> bool:
        """Whether ``columns`` has to copy more than a few rows."""
        return self._columns is None or len(self._changed) > _FEW

    def columns(self) -> NDArray[Any]:
        """Return the values as [rank, row]. Do not modify the result."""
        changed, known = self._changed, self._columns
        if known is not None and not changed:
            return known
        if (
            known is None
            or len(changed) > _FEW
            or max(len(self.rows[row]) for row in changed) > len(known)
        ):
            known = self._columns = self._build_columns()
        else:
            for row in changed:
                values = self.rows[row]
                known[: len(values), row] = values
                known[len(values) :, row] = self._empty
        changed.clear()
        return known

    def _build_columns(self) -> NDArray[Any]:
        counts = np.fromiter(map(len, self.rows), np.intp, len(self.rows))
        values = np.frombuffer(b"".join(self.rows), self._code)
        # Some ranks more than needed, so that one more pod does not rebuild the columns.
        shape = (int(counts.max(initial=0)) + 8, len(counts))
        columns = np.full(shape, self._empty, self._code)
        rows = np.repeat(np.arange(len(counts)), counts)
        ranks = np.arange(len(values)) - np.repeat(counts.cumsum() - counts, counts)
        columns[ranks, rows] = values
        return columns

    def write(self, row: int, values: Iterable[float]) -> None:
        """Set the values of a row."""
        made = self.rows[row] = array(self._code, values)
        if not self._empty:
            self.totals[row] = sum(made)
        self._changed.add(row)

    def fill(self, rows: NDArray[np.intp], values: NDArray[Any], counts: NDArray[np.int64]) -> None:
        """Set many rows: their values one after the other, and the number of values of each."""
        data = memoryview(values.astype(self._code, copy=False).tobytes())
        ends = counts.cumsum()
        at = 0
        for row, end in zip(rows.tolist(), (ends * values.itemsize).tolist(), strict=True):
            here = self.rows[row] = array(self._code)
            here.frombytes(data[at:end])
            at = end
        if not self._empty:
            sums = np.concatenate([[0], values.cumsum()])
            self.totals[rows] = sums[ends] - sums[ends - counts]
        self._changed.update(rows.tolist())

    def drop(self, row: int, ranks: Sequence[int]) -> None:
        """Remove some ranks, ascending, from a row; later ones move up."""
        here = self.rows[row]
        for rank in reversed(ranks):
            value = here.pop(rank)
            if not self._empty:
                self.totals[row] -= value
        self._changed.add(row)
