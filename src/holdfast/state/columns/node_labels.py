"""Node labels as columns of value ids; a column is made when a key is first used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.names import parse_integer
from holdfast.state.columns.cells import cells
from holdfast.state.columns.interner import Interner

ABSENT = -1
_FEW = 32
Ids = NDArray[np.intp]
"""As wide as an index: narrower ids would be converted at every lookup."""


class LabelColumn:
    """One label key: the value id of each row, or ABSENT.

    Columns of keys that no node has share one array: selectors may name any number of such keys.
    When each had an array, 16,384 keys of one pod took 300 MB with 1,000 nodes.
    """

    __slots__ = ("_identical", "_numbers", "_numeric", "_read", "_shared", "at", "ids", "values")

    def __init__(self, absent: Ids) -> None:
        self._shared = True
        self._identical = 0
        """The number of rows whose value id is the row itself, as for host names."""
        self._read: dict[tuple[int, bytes], NDArray[np.int8]] = {}
        self.ids: Ids = absent
        self.at = cells(absent)
        self.values: Interner[str] = Interner()
        self._numbers: list[int] = []
        self._numeric: list[bool] = []

    def set(self, row: int, value: str | None) -> None:
        """Set the value of a row; None removes it."""
        if self._shared:
            if value is None:
                return
            self._shared, self.ids = False, self.ids.copy()
            self.at = cells(self.ids)
        old, new = self.at[row], ABSENT if value is None else self.values.id(value)
        self.at[row] = new
        self._identical += (new == row) - (old == row)
        self._read.clear()

    def read(self, table: NDArray[Any], rows: NDArray[np.intp] | slice) -> NDArray[Any]:
        """Look up rows in a table by value id; the last cell is for rows without the label.

        Do not modify the result: it may be the table itself.
        """
        if isinstance(rows, slice) and rows.start == 0 and rows.stop == self._identical:
            return table[rows]
        return table.take(self.ids[rows], mode="wrap")

    def read_verdicts(
        self, table: NDArray[np.int8], rows: NDArray[np.intp] | slice
    ) -> NDArray[np.int8]:
        """Look up rows in a table of verdicts; answers over all rows are cached.

        The same array is returned again while no domain's verdict changes, so that the engine can
        compare by identity and keep the rows that remain (``PodClass.remaining_after``).
        """
        if len(table) > _FEW or not isinstance(rows, slice):
            return self.read(table, rows)
        key = (rows.stop, table.tobytes())
        verdicts = self._read.get(key)
        if verdicts is None:
            if len(self._read) >= _FEW:
                self._read.clear()
            verdicts = self._read[key] = self.read(table, rows)
            verdicts.flags.writeable = False
        return verdicts

    def compare(self, bound: int, *, greater: bool) -> NDArray[np.bool_]:
        """Return, per value id, whether the value is a number beyond ``bound``.

        The last cell is for rows without the label.
        """
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
        """Make space for as many rows as ``absent`` has."""
        wider = absent
        if not self._shared:
            wider = absent.copy()
            wider[: len(self.ids)] = self.ids
        self.ids = wider
        self.at = cells(wider)
        self._read.clear()

    def fork(self) -> LabelColumn:
        """Return an independent copy with the same ids."""
        copy = LabelColumn(self.ids if self._shared else self.ids.copy())
        copy._shared = self._shared
        copy.values = self.values.fork()
        copy._identical = self._identical
        return copy


class NodeLabels:
    """The columns of all label keys used so far."""

    __slots__ = ("_absent", "_capacity", "_columns", "_labels")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._absent = _all_absent(capacity)
        self._columns: dict[str, LabelColumn] = {}
        self._labels: dict[int, Mapping[str, str]] = {}

    def column(self, key: str) -> LabelColumn:
        """Return the column of ``key``; a new one is filled from the nodes."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(self._absent)
            for row, labels in self._labels.items():
                if key in labels:
                    column.set(row, labels[key])
        return column

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Replace the labels of a row.

        Selectors of pods may name very many keys that no node has, so columns are not iterated.
        """
        for key in self._labels.get(row, {}).keys() - labels.keys():
            if (column := self._columns.get(key)) is not None:
                column.set(row, None)
        self._labels[row] = labels
        for key, value in labels.items():
            if (column := self._columns.get(key)) is not None:
                column.set(row, value)

    def clear(self, row: int) -> None:
        """Remove all labels of a row."""
        self.set(row, {})
        del self._labels[row]

    def has_all(self, keys: Sequence[str]) -> NDArray[np.bool_]:
        """Return which rows have all of the keys."""
        mask = np.ones(self._capacity, np.bool_)
        for key in keys:
            mask &= self.column(key).ids >= 0
        return mask

    def grow(self, capacity: int) -> None:
        """Make space for more rows."""
        self._capacity = capacity
        self._absent = _all_absent(capacity)
        for column in self._columns.values():
            column.grow(self._absent)

    def fork(self) -> NodeLabels:
        """Return an independent copy."""
        copy = NodeLabels(self._capacity)
        copy._columns = {key: column.fork() for key, column in self._columns.items()}
        copy._labels = dict(self._labels)
        return copy


def _all_absent(capacity: int) -> Ids:
    """Return a read-only column of a label that no row has."""
    absent = np.full(capacity, ABSENT, np.intp)
    absent.flags.writeable = False
    return absent
