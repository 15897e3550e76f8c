"""One value per row about its devices, evaluated again for changed rows.

Three things make a row outdated, and each is recorded in a different way. A change of one node is
in the journal. A change of slices concerns all rows. A change of a device in a pool that many nodes
share concerns all of these nodes, but one row of each key is evaluated for them.

For every pod with devices its table is checked three times (preparation, Filter, Reserve), and
usually nothing has changed. So the positions of the device journal and of the epochs are compared
first, before any array is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.journal import FEW_ROWS, StaleRows
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.devices.matching import Matcher
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.requests import RequestAlternative

if TYPE_CHECKING:
    from holdfast.state.devices.inventory import Inventory

Rows = NDArray[np.intp]
NO_ROW = -1
_FEW = FEW_ROWS
"""Up to this number, evaluating changed rows costs less than finding out which are needed."""
_WORK_A_STEP = 256
"""Tried devices per step, about two milliseconds; other work counts as tries by its time."""
_WORK_OF_ROW = 16


class RowTable:
    """One value per row.

    ``refresh`` evaluates changed rows. ``refresh_in_steps`` does the same with pauses, in which
    the world may change and the table may be refreshed.

    Rows with the same key number have equal values, whatever changes in the devices of pools that
    nodes share: then one row of each key is evaluated. A row without such pools has no key, -1.
    """

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._cursor = -1
        self._devices = -1
        self._slices = -1
        self._capacity = 0
        self._current_at = (-1, -1)
        """The version at which all rows were last found up to date."""
        self._is_stale: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Whether a row has changed; it stays so until its value is written."""
        self._failed: set[int] = set()
        """The rows that failed when they were evaluated; a pod fails with any of them."""
        self._stale_keys: dict[int, None] = {}
        self._key_of: NDArray[np.int32] = np.zeros(0, np.int32)
        self._keys: dict[Hashable, int] = {}
        self._next_key = count()
        self._work = 0
        """What was evaluated since the last pause."""
        self._selected: WeakSet[Pool] = WeakSet()
        self._selected_for: dict[str, tuple[Pool, ...]] = {}
        """The pools of a node, all of them in ``_selected``."""

    def refresh(self, rows: Rows, first: int = NO_ROW, *, all_rows: bool = False) -> bool:
        """Evaluate those of these rows that changed again, ``first`` before the others.

        The first row that fails is the last one, since the pod fails with it, unless ``all_rows``
        are wanted. Return whether all rows are up to date; ``is_outdated`` says which are.
        """
        if self._is_current:
            return True
        self._collect_stale_rows()
        if not self._stale_keys and not np.count_nonzero(self._is_stale):
            self._current_at = self._version
            return True
        for _ in self._refresh_in_steps(lambda: rows, first, all_rows=all_rows):
            pass
        return not self._failed or not self.is_outdated(rows).any()

    def refresh_in_steps(self, rows: Callable[[], Rows], first: int = NO_ROW) -> Iterator[None]:
        """Do the same, with pauses between rows and within long searches.

        ``rows`` is called only if many rows have changed. If few have, all of them are evaluated,
        and those that fail do not end it; there is no pause if that does not take long.
        """
        self._collect_stale_rows()
        changed = self._is_stale.nonzero()[0]
        if len(changed) > _FEW or self._stale_keys:
            yield
            yield from self._refresh_in_steps(rows, first)
            return
        self._work = 0
        for row in changed.tolist():
            if self._is_pause_due():
                yield
            if self._is_stale[row]:  # unless it was evaluated in a pause
                yield from self._refresh_row(row)

    @property
    def _version(self) -> tuple[int, int]:
        """The positions of device journal and epochs: what makes a row stale moves one of them."""
        return self._nodes.device_journal.seq, self._nodes.epochs.stamp

    @property
    def _is_current(self) -> bool:
        """Whether all rows were found up to date and nothing has moved since.

        False does not mean outdated: the epoch of something else may have moved.
        """
        return self._current_at == self._version

    @property
    def _few_have_changed(self) -> bool:
        """Whether everything is up to date except for the last few rows in the journal."""
        return (
            self._nodes.device_journal.seq - self._cursor <= _FEW
            and self._only_rows_have_changed
            and not self._stale_keys
            and not np.count_nonzero(self._is_stale)
        )

    @property
    def _only_rows_have_changed(self) -> bool:
        """Whether nothing but rows in the journal has changed since stale rows were collected."""
        nodes = self._nodes
        return (
            self._cursor >= 0
            and nodes.epochs[Epoch.DEVICES] == self._devices
            and self._inventory.node_pools.slice_changes == self._slices
            and nodes.capacity == self._capacity
        )

    def is_outdated(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether it has changed since it was evaluated."""
        outdated: NDArray[np.bool_] = self._is_stale[rows]
        if len(self._stale_keys) > _FEW:
            outdated = outdated | np.isin(self._key_of[rows], list(self._stale_keys))
        elif self._stale_keys:
            keys = self._key_of[rows]
            for key in self._stale_keys:
                outdated = outdated | (keys == key)
        return outdated

    def _refresh_in_steps(
        self, rows: Callable[[], Rows], first: int, *, all_rows: bool = False
    ) -> Iterator[None]:
        if first != NO_ROW and self._is_stale[first]:
            yield from self._refresh_row(first)
        wanted = rows()
        if not all_rows and self._has_failed(wanted):
            return
        for row in wanted[self._is_stale[wanted]].tolist():
            if self._is_pause_due():
                yield
            # A pod with equal claims may have evaluated the row in a pause. If a shared device
            # changed after that, the row has a stale key and is not stale itself. Evaluating it
            # here would remove its key but not its value: it kept devices that were allocated.
            if self._is_stale[row]:
                yield from self._refresh_row(row)
            if row in self._failed and not all_rows:
                return
        while self._stale_keys and (all_rows or not self._has_failed(wanted)):
            needed = self._stale_keys.keys() & set(np.unique(self._key_of[wanted]).tolist())
            if not needed:
                return
            yield from self._evaluate_key(min(needed))
            if self._is_pause_due():
                yield

    def _is_pause_due(self) -> bool:
        """Return whether rows were evaluated since the last pause that took a step's time."""
        if self._work < _WORK_A_STEP:
            return False
        self._work = 0
        return True

    def _has_failed(self, rows: Rows) -> bool:
        """Return whether one of these rows is up to date and has failed."""
        if not self._failed:
            return False
        return not self._failed.isdisjoint(rows[~self.is_outdated(rows)].tolist())

    def _refresh_row(self, row: int) -> Iterator[None]:
        node = self._nodes.nodes[row]
        self._key_of[row] = -1
        self._work += _WORK_OF_ROW
        if node is not None:
            yield from self._evaluate(row, node)
        self._is_stale[row] = False

    def _evaluate_key(self, key: int) -> Iterator[None]:
        rows = ((self._key_of == key) & ~self._is_stale).nonzero()[0].tolist()
        row = next((row for row in rows if self._nodes.nodes[row] is not None), NO_ROW)
        node = self._nodes.nodes[row] if row != NO_ROW else None
        self._work += _WORK_OF_ROW
        if node is not None:
            yield from self._evaluate(row, node)
            if self._key_of[row] != key or self._nodes.nodes[row] is None:
                return  # the row changed in a pause: another one is evaluated next
            self._copy(row, (self._key_of == key).nonzero()[0])
        self._stale_keys.pop(key, None)

    def _collect_stale_rows(self) -> None:
        if not self._only_rows_have_changed:
            self._collect_wider_changes()
        nodes = self._nodes
        seq = nodes.device_journal.seq
        if seq != self._cursor:
            rows: StaleRows = nodes.device_journal.stale(self._cursor, nodes.size)
            self._is_stale[slice(0, nodes.size) if isinstance(rows, slice) else rows] = True
            self._cursor = seq

    def _collect_wider_changes(self) -> None:
        """Mark all rows as stale after a change of slices or capacity, otherwise all keys.

        Keys are marked because devices of pools that nodes share have changed.
        """
        nodes = self._nodes
        slices, devices = self._inventory.node_pools.slice_changes, nodes.epochs[Epoch.DEVICES]
        everything = self._cursor < 0 or slices != self._slices
        if nodes.capacity != self._capacity:
            self._capacity, everything = nodes.capacity, True
            self._key_of = np.full(nodes.capacity, -1, np.int32)
            self._is_stale = np.zeros(nodes.capacity, np.bool_)
            self._resize(nodes.capacity)
        if everything:
            self._is_stale[: nodes.size] = True
            self._stale_keys.clear()
            self._keys.clear()
            self._cursor = nodes.device_journal.seq
        else:
            self._stale_keys.update(dict.fromkeys(np.unique(self._key_of).tolist()))
            self._stale_keys.pop(-1, None)
        self._slices, self._devices = slices, devices

    def _select_in_steps(
        self, matcher: Matcher, alternatives: Sequence[RequestAlternative], row: int
    ) -> Generator[None, None, Node | None]:
        """Evaluate the selectors for pools that the table has not seen, with pauses.

        Return the node that the row has afterwards: for its pools all selectors were evaluated.
        """
        while (node := self._nodes.nodes[row]) is not None and not self._is_selected(node):
            pools = self._inventory.node_pools.of(node)
            for pool in pools:
                if pool not in self._selected:
                    yield from matcher.select_in_steps(alternatives, pool.candidates)
                    self._selected.add(pool)
            self._selected_for[node.name] = pools
        return node

    def _is_selected(self, node: Node) -> bool:
        """Return whether the selectors were evaluated for the devices of a node."""
        return self._selected_for.get(node.name) is self._inventory.node_pools.of(node)

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
