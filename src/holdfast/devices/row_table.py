"""One value a row about its devices, evaluated again for changed rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.api.node import Node
from holdfast.columns.journal import StaleRows
from holdfast.columns.node_table import NodeTable

if TYPE_CHECKING:
    from holdfast.devices.inventory import Inventory


class RowTable:
    """One value a row.

    ``refresh`` evaluates all changed rows. ``refresh_in_steps`` does the same with pauses, in which
    the world may change and the table may be refreshed.
    """

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._cursor = -1
        self._devices = -1
        self._capacity = 0
        self._stale: dict[int, None] = {}
        """The changed rows, in order; a row stays until its value is written."""

    def refresh(self) -> None:
        """Evaluate changed rows again; all rows after a change that affects every node."""
        for _ in self.refresh_in_steps():
            pass

    def refresh_in_steps(self) -> Iterator[None]:
        """Do the same as ``refresh``, with a pause after each row and within long searches."""
        self._collect_stale_rows()
        while self._stale:
            row = next(iter(self._stale))
            node = self._nodes.nodes[row]
            if node is not None:
                yield from self._evaluate(row, node)
            self._stale.pop(row, None)
            yield

    def _collect_stale_rows(self) -> None:
        nodes = self._nodes
        journal, devices = nodes.journal, nodes.epochs["devices"]
        everything = self._cursor < 0 or devices != self._devices
        if nodes.capacity != self._capacity:
            self._capacity, everything = nodes.capacity, True
            self._resize(nodes.capacity)
        if not everything and self._cursor == journal.seq:
            return
        rows: StaleRows = (
            slice(0, nodes.size) if everything else journal.stale(self._cursor, nodes.size)
        )
        self._cursor, self._devices = journal.seq, devices
        if isinstance(rows, slice):
            self._stale = dict.fromkeys(range(*rows.indices(nodes.size)))
        else:
            self._stale.update(dict.fromkeys(map(int, rows)))

    def _resize(self, capacity: int) -> None:
        raise NotImplementedError

    def _evaluate(self, row: int, node: Node) -> Iterator[None]:
        """Write the value of a row; no pause may be between reading its devices and the write."""
        raise NotImplementedError
