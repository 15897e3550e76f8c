"""A column that follows from other columns, brought up to date only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells
from holdfast.columns.journal import Journal


class Derived:
    """Values per row computed from the row alone; changed rows are recomputed on demand.

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
