"""The change log: which rows moved since a reader last looked, and what is kept by it.

Each row keeps the sequence number of its last change, so any reader, however far behind, finds
its rows with one comparison over the column. The last few rows are also kept in order, because a
reader who is only one placement behind should not touch arrays at all. A ``Follower`` reads several
journals at once, a ``Derived`` column follows one; what an answer depends on besides rows has a
version in ``Epochs``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

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


class Epochs:
    """Named versions, counters that only go up; ``stamp`` moves whenever any of them does.

    Comparing ``stamp`` is the cheap first question; only when it moved are single names compared.
    """

    __slots__ = ("_of", "stamp")

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.stamp = 0

    def bump(self, name: str) -> None:
        """Say that everything depending on ``name`` must be looked at again."""
        self._of[name] = self._of.get(name, 0) + 1
        self.stamp += 1

    def __getitem__(self, name: str) -> int:
        return self._of.get(name, 0)

    def of(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """The versions of several names at once."""
        return tuple(self._of.get(name, 0) for name in names)

    def fork(self) -> Epochs:
        """An independent copy."""
        copy = Epochs()
        copy._of = dict(self._of)
        copy.stamp = self.stamp
        return copy


class Follower:
    """A reader of several journals at once: which rows moved in any of them since it last asked.

    It remembers how far it has read; the first time every row is news.
    """

    __slots__ = ("_cursors", "_journals")

    def __init__(self, *journals: Journal) -> None:
        self._journals = journals
        self._cursors = [-1] * len(journals)

    def forget(self) -> None:
        """Read everything again next time."""
        self._cursors = [-1] * len(self._journals)

    @property
    def current(self) -> bool:
        """Whether nothing moved since it last asked."""
        return self._cursors == [journal.seq for journal in self._journals]

    def stale(self, size: int) -> Stale:
        """Rows that moved since the last call, in the form that is cheapest to work on."""
        found: list[Stale] = []
        for i, journal in enumerate(self._journals):
            cursor, seq = self._cursors[i], journal.seq
            self._cursors[i] = seq
            if cursor < 0:
                found.append(slice(0, size))
            elif cursor != seq:
                found.append(journal.stale(cursor, size))
        return _together(found)


def _together(found: list[Stale]) -> Stale:
    if len(found) <= 1:
        return found[0] if found else []
    lists: set[int] = set()
    arrays = []
    for rows in found:
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


class Derived:
    """A column that follows from other columns of its row, brought up to date only when asked for.

    ``many`` computes a slice or an array of rows, ``one`` a single row; they must agree.
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
        """Bring the first ``size`` rows up to date."""
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
