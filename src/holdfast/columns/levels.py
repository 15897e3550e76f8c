"""Rows by topology domain and by how many matching pods stand on them: their *level*.

A spread over hosts and over one other key cannot tell rows of one level apart, and of five thousand
rows there are a dozen levels. So what it says is worked out per level and looked up per row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells
from holdfast.columns.journal import Journal
from holdfast.columns.node_labels import LabelColumn

PODS_TOLD_APART = 32
"""Rows with so many matching pods and more have no level."""
_MOST = 4096
"""With more levels than these, looking at rows is not dearer."""


class Levels:
    """The level of each row, kept up to date while pods come and go.

    ``of[row]`` is the id of its label's value times PODS_TOLD_APART, and how many pods it has; rows
    without the label come after the last value. ``rows_at[level]`` counts rows. Both mean something
    only while ``refresh`` says so.
    """

    __slots__ = ("_first_at", "_full", "_journal", "_label", "_of_at", "_per_row", "_rows_at",
                 "_seen", "of", "rows_at")  # fmt: skip

    def __init__(self, per_row: NDArray[np.int32], label: LabelColumn, journal: Journal) -> None:
        self._per_row = per_row
        self._label = label
        self._journal = journal
        self._seen = -1
        self._full = 0
        """How many rows have no level."""
        self.of: NDArray[np.intp] = np.zeros(0, np.intp)
        self.rows_at: NDArray[np.intp] = np.zeros(0, np.intp)

    def refresh(self, size: int) -> bool:
        """Look at all rows again if a node changed; tell whether all of them have a level."""
        values = len(self._label.values) + 1
        if values * PODS_TOLD_APART > _MOST:
            return False
        if self._seen != self._journal.seq:
            self._seen = self._journal.seq
            first = self._label.ids[:size] % values * PODS_TOLD_APART
            pods = self._per_row[:size]
            self.of = first + np.minimum(pods, PODS_TOLD_APART - 1)
            self.rows_at = np.bincount(self.of, minlength=values * PODS_TOLD_APART)
            self._full = int(np.count_nonzero(pods >= PODS_TOLD_APART))
            self._first_at, self._of_at = cells(first), cells(self.of)
            self._rows_at = cells(self.rows_at)
        return not self._full

    def move(self, row: int, before: int, now: int) -> None:
        """Note that so many matching pods stand on the row now."""
        if self._seen != self._journal.seq:
            return
        self._full += (now >= PODS_TOLD_APART) - (before >= PODS_TOLD_APART)
        level = self._first_at[row] + min(now, PODS_TOLD_APART - 1)
        self._rows_at[self._of_at[row]] -= 1
        self._rows_at[level] += 1
        self._of_at[row] = level
