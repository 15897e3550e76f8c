"""Node labels as columns of value ids, made when somebody first asks for a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.names import parse_integer
from holdfast.columns.cells import cells
from holdfast.columns.interner import Interner

ABSENT = -1
_FEW = 32
Ids = NDArray[np.intp]
"""As wide as an index: tables are looked up by these, and narrower ones would be widened first."""


class LabelColumn:
    """One label key: which value each row has, as an id, or ABSENT.

    Until a node has the label, ``ids`` is the array that all such columns share: selectors may
    name any number of keys that no node has.
    """

    __slots__ = ("_numbers", "_numeric", "_own", "_read", "_shared", "at", "ids", "values")

    def __init__(self, absent: Ids) -> None:
        self._shared = True
        self._own = 0
        """How many rows have their own number as value id: all of them have, of host names."""
        self._read: dict[tuple[int, bytes], NDArray[np.int8]] = {}
        self.ids: Ids = absent
        self.at = cells(absent)
        self.values: Interner[str] = Interner()
        self._numbers: list[int] = []
        self._numeric: list[bool] = []

    def set(self, row: int, value: str | None) -> None:
        """Give the row a value, or take it away."""
        if self._shared:
            if value is None:
                return
            self._shared, self.ids = False, self.ids.copy()
            self.at = cells(self.ids)
        old, new = self.at[row], ABSENT if value is None else self.values.id(value)
        self.at[row] = new
        self._own += (new == row) - (old == row)
        self._read.clear()

    def read(self, table: NDArray[Any], rows: NDArray[np.intp] | slice) -> NDArray[Any]:
        """What rows find in a table by value id, whose last cell is for rows without the label.

        Not to be written to: it may be the table itself.
        """
        if isinstance(rows, slice) and rows.start == 0 and rows.stop == self._own:
            return table[rows]
        return table.take(self.ids[rows], mode="wrap")

    def read_verdicts(
        self, table: NDArray[np.int8], rows: NDArray[np.intp] | slice
    ) -> NDArray[np.int8]:
        """The same for a table of verdicts: few are alike, and those over all rows are kept.

        So it is the very same array again while no domain's verdict changes.
        """
        if len(table) > _FEW or not isinstance(rows, slice):
            return self.read(table, rows)
        key = (rows.stop, table.tobytes())
        found = self._read.get(key)
        if found is None:
            if len(self._read) >= _FEW:
                self._read.clear()
            found = self._read[key] = self.read(table, rows)
            found.flags.writeable = False
        return found

    def compare(self, bound: int, *, greater: bool) -> NDArray[np.bool_]:
        """Tell, per value id, whether it is a number beyond ``bound``; last stands for ABSENT."""
        for value in list(self.values)[len(self._numbers) :]:
            number = parse_integer(value)
            self._numbers.append(0 if number is None else number)
            self._numeric.append(number is not None)
        beyond = [
            numeric and (number > bound if greater else number < bound)
            for number, numeric in zip(self._numbers, self._numeric, strict=True)
        ]
        return np.array([*beyond, False], np.bool_)

    def grow(self, absent: Ids) -> None:
        """Make room for as many rows as ``absent`` has."""
        wider = absent
        if not self._shared:
            wider = absent.copy()
            wider[: len(self.ids)] = self.ids
        self.ids = wider
        self.at = cells(wider)
        self._read.clear()

    def fork(self) -> LabelColumn:
        """An independent copy with the same ids."""
        copy = LabelColumn(self.ids if self._shared else self.ids.copy())
        copy._shared = self._shared
        copy.values = self.values.fork()
        copy._own = self._own
        return copy


class NodeLabels:
    """All label columns asked for so far."""

    __slots__ = ("_absent", "_capacity", "_columns", "_labels")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._absent = _all_absent(capacity)
        self._columns: dict[str, LabelColumn] = {}
        self._labels: dict[int, Mapping[str, str]] = {}

    def column(self, key: str) -> LabelColumn:
        """The column of ``key``, filled from the nodes if it is new."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(self._absent)
            for row, labels in self._labels.items():
                if key in labels:
                    column.set(row, labels[key])
        return column

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Give the row these labels instead of the ones it had."""
        self._labels[row] = labels
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def clear(self, row: int) -> None:
        """Take every label from the row."""
        self._labels.pop(row, None)
        for column in self._columns.values():
            column.set(row, None)

    def has_all(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        """Tell which rows have every one of the keys."""
        mask = np.ones(self._capacity, np.bool_)
        for key in keys:
            mask &= self.column(key).ids >= 0
        return mask

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        self._absent = _all_absent(capacity)
        for column in self._columns.values():
            column.grow(self._absent)

    def fork(self) -> NodeLabels:
        """An independent copy."""
        copy = NodeLabels(self._capacity)
        copy._columns = {key: column.fork() for key, column in self._columns.items()}
        copy._labels = dict(self._labels)
        return copy


def _all_absent(capacity: int) -> Ids:
    """Make the column of a label that no row has; it cannot be written to."""
    absent = np.full(capacity, ABSENT, np.intp)
    absent.flags.writeable = False
    return absent
