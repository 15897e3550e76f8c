"""A reader of several journals at once: which rows moved in any of them since it last asked."""

from __future__ import annotations

import numpy as np

from holdfast.columns.journal import Journal, Stale


class Follower:
    """Remembers how far it has read; the first time every row is news."""

    __slots__ = ("_cursors", "_journals")

    def __init__(self, *journals: Journal) -> None:
        self._journals = journals
        self._cursors = [-1] * len(journals)

    def forget(self) -> None:
        """Read everything again next time."""
        self._cursors = [-1] * len(self._journals)

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
