"""The change log: which rows moved since a reader last looked.

Each row keeps the sequence number of its last change, so any reader, however far behind, finds
its rows with one comparison over the column. The last few rows are also kept in order, because a
reader who is only one placement behind should not touch arrays at all.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells

FEW = 16
"""Up to so many changed rows are answered one by one in plain integers; measured, not holy."""
_TAIL = 64
_TIMES = 4
"""A placement changes its row once or twice: for the pod, and for what it draws on."""

Stale = list[int] | NDArray[np.intp] | slice
"""Rows to look at again: a short list, an array, or a slice when nearly all of them."""


class Journal:
    """Remembers when each row last changed."""

    __slots__ = ("_asked", "_at", "_rowseq", "_tail", "seq")

    def __init__(self, capacity: int) -> None:
        self.seq = 0
        self._asked: tuple[int, int, NDArray[np.intp]] | None = None
        self._tail: deque[int] = deque(maxlen=_TAIL)
        self._rowseq = np.zeros(capacity, np.int64)
        self._at = cells(self._rowseq)

    def log(self, row: int) -> None:
        """Note that ``row`` changed."""
        self.seq += 1
        self._at[row] = self.seq
        self._tail.append(row)

    def since(self, cursor: int) -> NDArray[np.intp]:
        """Rows that changed after ``cursor``, each once, ascending. Not to be written to."""
        asked = self._asked
        # Several readers are usually equally far behind, and ask one after the other.
        if asked is not None and asked[0] == self.seq and asked[1] == cursor:
            return asked[2]
        rows: NDArray[np.intp] = (self._rowseq > cursor).nonzero()[0]
        self._asked = (self.seq, cursor, rows)
        return rows

    @property
    def last(self) -> int:
        """The row that changed last."""
        return self._tail[-1]

    def alone(self, cursor: int) -> int:
        """The row that changed after ``cursor``, if it was one alone a few times over; else -1."""
        behind, tail = self.seq - cursor, self._tail
        row = tail[-1]
        while behind > 1:
            if behind > _TIMES or tail[-behind] != row:
                return -1
            behind -= 1
        return row

    def stale(self, cursor: int, size: int) -> Stale:
        """Rows that changed after ``cursor``, in the form that is cheapest to work on."""
        behind = self.seq - cursor
        if behind == 1:
            return [self._tail[-1]]
        if behind <= FEW:
            tail = self._tail
            return list({tail[-i] for i in range(1, behind + 1)})
        rows = self.since(cursor)
        if len(rows) <= FEW:
            few: list[int] = rows.tolist()
            return few
        return rows if len(rows) * 4 <= size else slice(0, size)

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        wider = np.zeros(capacity, np.int64)
        wider[: len(self._rowseq)] = self._rowseq
        self._rowseq = wider
        self._at = cells(wider)

    def fork(self) -> Journal:
        """An independent copy at the same position."""
        copy = Journal(0)
        copy.seq = self.seq
        copy._tail = self._tail.copy()
        copy._rowseq = self._rowseq.copy()
        copy._at = cells(copy._rowseq)
        return copy
