"""The change log: which rows changed since a reader last looked.

Each row stores the sequence number of its last change, so a reader finds the rows that changed
since with one comparison over a column. The last few rows are also kept in order, so that a reader
that is one placement behind reads no arrays. A ``JournalReader`` reads several journals at once. A
``DerivedColumn`` is recomputed from one.

The journal does not store its readers. Every cached result of a plugin is one, so there may be
thousands. A set of changed rows for each of them would have to be written at every placement, also
for those that are never read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.cells import cells

FEW_ROWS = 16
"""Up to this many changed rows are recomputed one by one. Measured; a NumPy call takes about a
microsecond whatever its size, and a class needs about 45 of them to update some rows."""
_TAIL = 64
_TIMES = 4
"""A placement changes its row once or twice: for the pod, and for the reservation it uses."""

StaleRows = list[int] | NDArray[np.intp] | slice
"""Rows to recompute: a short list, an array, or a slice when nearly all changed."""


class Journal:
    """Stores when each row last changed."""

    __slots__ = ("_at", "_last_answer", "_rowseq", "_tail", "seq")

    def __init__(self, capacity: int) -> None:
        self.seq = 0
        self._last_answer: tuple[int, int, NDArray[np.intp]] | None = None
        self._tail: deque[int] = deque(maxlen=_TAIL)
        self._rowseq = np.zeros(capacity, np.int64)
        self._at = cells(self._rowseq)

    def log(self, row: int) -> None:
        """Record a change of ``row``."""
        self.seq += 1
        self._at[row] = self.seq
        self._tail.append(row)

    def since(self, cursor: int) -> NDArray[np.intp]:
        """Return the rows that changed after ``cursor``, ascending. Do not modify the result."""
        known = self._last_answer
        # Several readers are usually at the same position and read one after the other.
        if known is not None and known[0] == self.seq and known[1] == cursor:
            return known[2]
        rows: NDArray[np.intp] = (self._rowseq > cursor).nonzero()[0]
        self._last_answer = (self.seq, cursor, rows)
        return rows

    @property
    def last_row(self) -> int:
        """The row that changed last."""
        return self._tail[-1]

    def only_row_since(self, cursor: int) -> int:
        """Return the row of the few changes after ``cursor`` if it is only one; else -1.

        Most decisions begin with this question, so it makes no list.
        """
        behind, tail = self.seq - cursor, self._tail
        row = tail[-1]
        while behind > 1:
            if behind > _TIMES or tail[-behind] != row:
                return -1
            behind -= 1
        return row

    def latest(self, count: int) -> list[int]:
        """Return the rows of the last ``count`` changes (at most FEW_ROWS), each row once."""
        tail = self._tail
        if count <= 1:
            return [tail[-1]] if count else []
        return list({tail[-i] for i in range(1, count + 1)})

    def stale(self, cursor: int, size: int) -> StaleRows:
        """Return the rows that changed after ``cursor``, in the cheapest form to process."""
        behind = self.seq - cursor
        if behind <= FEW_ROWS:
            return self.latest(behind)
        rows = self.since(cursor)
        if len(rows) <= FEW_ROWS:
            few: list[int] = rows.tolist()
            return few
        # An index array copies what it selects; from a quarter of the rows on a slice is cheaper.
        return rows if len(rows) * 4 <= size else slice(0, size)

    def grow(self, capacity: int) -> None:
        """Make space for more rows."""
        wider = np.zeros(capacity, np.int64)
        wider[: len(self._rowseq)] = self._rowseq
        self._rowseq = wider
        self._at = cells(wider)

    def fork(self) -> Journal:
        """Return an independent copy at the same position."""
        copy = Journal(0)
        copy.seq = self.seq
        copy._tail = self._tail.copy()
        copy._rowseq = self._rowseq.copy()
        copy._at = cells(copy._rowseq)
        return copy


class JournalReader:
    """Reads several journals at once and remembers how far it has read.

    At the first read every row counts as changed.
    """

    __slots__ = ("_cursors", "_journals")

    def __init__(self, *journals: Journal) -> None:
        self._journals = journals
        self._cursors = [-1] * len(journals)

    def forget(self) -> None:
        """Treat every row as changed at the next read."""
        self._cursors = [-1] * len(self._journals)

    @property
    def current(self) -> bool:
        """Whether nothing changed since the last read."""
        return self._cursors == [journal.seq for journal in self._journals]

    def stale(self, size: int) -> StaleRows:
        """Return the rows that changed since the last call, in the cheapest form."""
        row_sets: list[StaleRows] = []
        for i, journal in enumerate(self._journals):
            cursor, seq = self._cursors[i], journal.seq
            self._cursors[i] = seq
            if cursor < 0:
                row_sets.append(slice(0, size))
            elif cursor != seq:
                row_sets.append(journal.stale(cursor, size))
        return _merged(row_sets)


def _merged(row_sets: list[StaleRows]) -> StaleRows:
    if len(row_sets) <= 1:
        return row_sets[0] if row_sets else []
    lists: set[int] = set()
    arrays = []
    for rows in row_sets:
        if isinstance(rows, slice):
            return rows
        if isinstance(rows, list):
            lists.update(rows)
        else:
            arrays.append(rows)
    if not arrays:
        return list(lists)
    rows = np.concatenate([*arrays, np.array([*lists], np.intp)])
    moved = np.zeros(int(rows.max(initial=0)) + 1, np.bool_)
    moved[rows] = True
    return moved.nonzero()[0]


class DerivedColumn:
    """A column computed from other columns of the same row, and refreshed on demand.

    ``many`` computes a slice or an array of rows; ``one`` computes a single row; both must agree.
    """

    __slots__ = ("_cursor", "_journal", "_many", "_one", "at", "values")

    def __init__(
        self,
        journal: Journal,
        capacity: int,
        many: Callable[[Any], NDArray[np.float64]],
        one: Callable[[int], float],
    ) -> None:
        self._journal = journal
        self._many = many
        self._one = one
        self._cursor = -1
        self.values: NDArray[np.float64] = np.zeros(capacity, np.float64)
        self.at = cells(self.values)

    def refresh(self, size: int) -> None:
        """Recompute the rows below ``size`` that changed."""
        journal = self._journal
        if self._cursor == journal.seq:
            return
        stale = slice(0, size) if self._cursor < 0 else journal.stale(self._cursor, size)
        self._cursor = journal.seq
        if isinstance(stale, list):
            for row in stale:
                self.at[row] = self._one(row)
        else:
            self.values[stale] = self._many(stale)
