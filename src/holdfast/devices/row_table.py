"""One value a row about its devices, evaluated again for changed rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.columns.journal import StaleRows
from holdfast.columns.node_table import NodeTable
from holdfast.devices.matching import Matcher
from holdfast.devices.pools import Pool
from holdfast.devices.requests import RequestAlternative

if TYPE_CHECKING:
    from holdfast.devices.inventory import Inventory


class RowTable:
    """One value a row.

    ``refresh`` evaluates all changed rows. ``refresh_in_steps`` does the same with pauses, in which
    the world may change and the table may be refreshed.

    Rows with the same key number have equal values, however the devices of pools that nodes share
    change: then one row of each key is evaluated. A row without such pools has no key, -1.
    """

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._cursor = -1
        self._devices = -1
        self._slices = -1
        self._capacity = 0
        self._stale: dict[int, None] = {}
        """The changed rows, in order; a row stays until its value is written."""
        self._stale_keys: dict[int, None] = {}
        self._key_of: NDArray[np.int32] = np.zeros(0, np.int32)
        self._keys: dict[Hashable, int] = {}
        self._next_key = count()
        self._selected: WeakSet[Pool] = WeakSet()

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
            self._key_of[row] = -1
            if node is not None:
                yield from self._evaluate(row, node)
            self._stale.pop(row, None)
            yield
        while self._stale_keys:
            yield from self._evaluate_key(next(iter(self._stale_keys)))
            yield

    def _evaluate_key(self, key: int) -> Iterator[None]:
        rows = (self._key_of == key).nonzero()[0].tolist()
        row = next((row for row in rows if self._nodes.nodes[row] is not None), -1)
        node = self._nodes.nodes[row] if row >= 0 else None
        if node is not None:
            yield from self._evaluate(row, node)
            if self._key_of[row] != key or self._nodes.nodes[row] is None:
                return  # the row changed in a pause: another one is evaluated next
            self._copy(row, (self._key_of == key).nonzero()[0])
        self._stale_keys.pop(key, None)

    def _collect_stale_rows(self) -> None:
        nodes = self._nodes
        journal, devices = nodes.journal, nodes.epochs["devices"]
        slices = self._inventory.node_pools.slice_changes
        everything = self._cursor < 0 or slices != self._slices
        if nodes.capacity != self._capacity:
            self._capacity, everything = nodes.capacity, True
            self._key_of = np.full(nodes.capacity, -1, np.int32)
            self._resize(nodes.capacity)
        if everything:
            self._stale = dict.fromkeys(range(nodes.size))
            self._stale_keys.clear()
            self._keys.clear()
        else:
            if devices != self._devices:
                self._stale_keys.update(dict.fromkeys(np.unique(self._key_of).tolist()))
                self._stale_keys.pop(-1, None)
            if journal.seq != self._cursor:
                rows: StaleRows = journal.stale(self._cursor, nodes.size)
                changed = range(nodes.size) if isinstance(rows, slice) else map(int, rows)
                self._stale.update(dict.fromkeys(changed))
        self._cursor, self._devices, self._slices = journal.seq, devices, slices

    def _select_in_steps(
        self, matcher: Matcher, alternatives: Sequence[RequestAlternative], node: Node
    ) -> Iterator[None]:
        """Evaluate the selectors for pools that the table has not seen, with pauses."""
        for pool in self._inventory.node_pools.of(node):
            if pool not in self._selected:
                self._selected.add(pool)
                yield from matcher.select_in_steps(alternatives, pool.candidates)

    def _set_key(self, row: int, key: Hashable) -> None:
        """Note the key of a row with its value; None: the node has no shared pools."""
        if key is None:
            self._key_of[row] = -1
            return
        number = self._keys.get(key)
        if number is None:
            if len(self._keys) > self._capacity:
                self._keys.clear()
            number = self._keys[key] = next(self._next_key)
        self._key_of[row] = number

    def _resize(self, capacity: int) -> None:
        raise NotImplementedError

    def _evaluate(self, row: int, node: Node) -> Iterator[None]:
        """Write value and key of a row; without a pause between reading its devices and writing."""
        raise NotImplementedError

    def _copy(self, row: int, rows: NDArray[np.intp]) -> None:
        """Copy the value of a row to rows with the same key."""
        raise NotImplementedError
