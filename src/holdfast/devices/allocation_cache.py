"""Cached allocation results for every row, shared by pods with equal claims.

Only rows in the journal are evaluated again. A plain request (a number of devices of a class and
nothing else) needs no search: the free matching devices of each node are counted once, and a
request is one comparison with that column. Other claims are searched, once for all nodes with equal
signatures. For scores the devices of a class and the allocated ones are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import DeviceClass, ResourceClaim
from holdfast.api.node import Node
from holdfast.columns.journal import StaleRows
from holdfast.columns.node_table import NodeTable
from holdfast.devices.allocator import Allocator
from holdfast.devices.errors import AllocationError, NodeAllocationError
from holdfast.devices.matching import Matcher, tolerated
from holdfast.devices.node_pools import NodePools
from holdfast.devices.pools import Pool
from holdfast.devices.requests import ALL, EXACT_COUNT, MAX_DEVICES, RequestAlternative
from holdfast.devices.signatures import SignatureBuilder

if TYPE_CHECKING:
    from holdfast.devices.inventory import Inventory

FITS, DOES_NOT_FIT, INVALID_POOL, ERROR = 0, 1, 2, 3
"""Codes of a row; ERROR: ``Allocator.solve`` raises another error than an invalid pool."""
_SEARCH = -1
_MAX_TABLES = 256

Rows = NDArray[np.intp]
Codes = NDArray[np.int8]
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


_T = TypeVar("_T", bound="_RowTable")


class AllocationResults(Protocol):
    """The allocation result of every row for the claims of one pod."""

    def codes(self, rows: Rows) -> Codes:
        """Return FITS, DOES_NOT_FIT, INVALID_POOL or ERROR for each row."""
        ...

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Return ``Solution.score`` of each row that fits."""
        ...


class AllocationCache:
    """The cached results of one node table; ``clear`` it when a device class changes."""

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._tables: dict[Hashable, _RowTable] = {}

    def results(self, allocator: Allocator, steps: int = 0) -> AllocationResults:
        """Return the results of an allocator's claims, shared by all pods with equal claims."""
        specs = tuple(_encode(claim.spec) for claim in allocator.claims)
        searched = self._cached(
            _SearchResults,
            ("search", specs, steps),
            lambda: _SearchResults(self._inventory, self._nodes, allocator, steps),
        )
        alternative = _plain_alternative(allocator)
        if alternative is None:
            return _WithFaultyPools(
                self._inventory.node_pools, self._nodes, searched, _asks_for_all(allocator)
            )
        counted = self._cached(
            _FreeDeviceCounts,
            _shape_without_count(allocator.claims[0]),
            lambda: _FreeDeviceCounts(self._inventory, self._nodes, allocator, alternative),
        )
        results = _CountResults(counted, searched, alternative.count)
        return _WithFaultyPools(self._inventory.node_pools, self._nodes, results, False)

    def counts(self, device_class: DeviceClass) -> DeviceCounts:
        """Return the number of devices and of allocated devices of a class for each row."""
        return self._cached(
            DeviceCounts,
            ("class", device_class.name),
            lambda: DeviceCounts(self._inventory, self._nodes, device_class),
        )

    def clear(self) -> None:
        """Remove all cached results."""
        self._tables.clear()

    def _cached(self, kind: type[_T], key: Hashable, make: Callable[[], _T]) -> _T:
        found = self._tables.pop(key, None)
        if found is None:
            if len(self._tables) >= _MAX_TABLES:
                del self._tables[next(iter(self._tables))]
            found = make()
        assert isinstance(found, kind)
        self._tables[key] = found
        return found


def _plain_alternative(allocator: Allocator) -> RequestAlternative | None:
    """Return the only alternative of a plain request, or None."""
    if len(allocator.requests) != 1 or len(allocator.requests[0].alternatives) != 1:
        return None
    alternative = allocator.requests[0].alternatives[0]
    constraints = any(claim.spec.devices.constraints for claim in allocator.claims)
    plain = alternative.allocation_mode == EXACT_COUNT and alternative.count <= MAX_DEVICES
    complex_request = (
        alternative.admin_access
        or alternative.capacity
        or alternative.subrequest_name
        or constraints
        or len(allocator.claims) > 1
    )
    return alternative if plain and not complex_request else None


def _asks_for_all(allocator: Allocator) -> bool:
    return any(a.allocation_mode == ALL for r in allocator.requests for a in r.alternatives)


def _shape_without_count(claim: ResourceClaim) -> Hashable:
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None, "a plain request"
    return ("count", _encode(msgspec.structs.replace(exactly, count=1)))


class _RowTable:
    """One value a row, evaluated again for changed rows."""

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._cursor = -1
        self._devices = -1
        self._capacity = 0

    def refresh(self) -> None:
        """Evaluate changed rows again; all rows after a change that affects every node."""
        nodes = self._nodes
        journal, devices = nodes.journal, nodes.epochs["devices"]
        everything = self._cursor < 0 or devices != self._devices
        if nodes.capacity != self._capacity:
            self._capacity, everything = nodes.capacity, True
            self._resize(nodes.capacity)
        if not everything and self._cursor == journal.seq:
            return
        stale: StaleRows = (
            slice(0, nodes.size) if everything else journal.stale(self._cursor, nodes.size)
        )
        self._cursor, self._devices = journal.seq, devices
        for row in range(*stale.indices(nodes.size)) if isinstance(stale, slice) else stale:
            node = nodes.nodes[row]
            if node is not None:
                self._evaluate(int(row), node)

    def _resize(self, capacity: int) -> None:
        raise NotImplementedError

    def _evaluate(self, row: int, node: Node) -> None:
        raise NotImplementedError


class _FreeDeviceCounts(_RowTable):
    """Free matching devices of each node for a plain request; _SEARCH if a count is not exact."""

    def __init__(
        self,
        inventory: Inventory,
        nodes: NodeTable,
        allocator: Allocator,
        alternative: RequestAlternative,
    ) -> None:
        super().__init__(inventory, nodes)
        self._allocator = allocator
        self._alternative = alternative
        self.free: NDArray[np.int32] = np.zeros(0, np.int32)

    def _resize(self, capacity: int) -> None:
        self.free = np.full(capacity, 0, np.int32)

    def _evaluate(self, row: int, node: Node) -> None:
        pools = self._inventory.node_pools.of(node)
        allocated_devices, matcher, alternative = (
            self._inventory.allocated_devices,
            self._allocator.matcher,
            self._alternative,
        )
        taints = self._allocator.features.device_taints
        free = 0
        try:
            for pool in pools:
                for candidate in pool.candidates:
                    if candidate.consumed_counters or candidate.shareable:
                        free = _SEARCH
                        return
                    if candidate.id in allocated_devices.unshared or not matcher.selectable(
                        alternative, candidate, node
                    ):
                        continue
                    free += not taints or tolerated(
                        candidate.device.taints, alternative.tolerations
                    )
            if any(pool.invalid_reason for pool in pools):
                free = _SEARCH
        except AllocationError:
            free = _SEARCH
        finally:
            self.free[row] = free


class DeviceCounts(_RowTable):
    """Devices of a class on each node, and how many are allocated; call ``refresh`` before reading.

    A node on which a selector fails counts as having none.
    """

    def __init__(self, inventory: Inventory, nodes: NodeTable, device_class: DeviceClass) -> None:
        super().__init__(inventory, nodes)
        self._matcher = Matcher((), inventory.selectors, inventory.features)
        self._alternative = RequestAlternative(
            index=0, claim=0, position=0, request_name="", subrequest_name="",
            device_class=device_class, allocation_mode=EXACT_COUNT, count=1, selectors=(),
            tolerations=(), capacity={}, admin_access=False,
        )  # fmt: skip
        self.total: NDArray[np.int64] = np.zeros(0, np.int64)
        self.allocated: NDArray[np.int64] = np.zeros(0, np.int64)

    def _resize(self, capacity: int) -> None:
        self.total = np.zeros(capacity, np.int64)
        self.allocated = np.zeros(capacity, np.int64)

    def _evaluate(self, row: int, node: Node) -> None:
        matcher, alternative = self._matcher, self._alternative
        is_allocated = self._inventory.allocated_devices.is_allocated
        try:
            matching = [
                candidate.id
                for pool in self._inventory.node_pools.of(node)
                for candidate in pool.candidates
                if matcher.selectable(alternative, candidate, node)
            ]
        except AllocationError:
            matching = []
        self.total[row] = len(matching)
        self.allocated[row] = sum(map(is_allocated, matching))


class _SearchResults(_RowTable):
    """The search result of each node, one search a signature."""

    def __init__(
        self, inventory: Inventory, nodes: NodeTable, allocator: Allocator, steps: int
    ) -> None:
        super().__init__(inventory, nodes)
        self._allocator = allocator
        self._steps = steps
        self._signatures = SignatureBuilder(allocator)
        self._by_signature: dict[Hashable, tuple[int, int]] = {}
        self._codes: Codes = np.zeros(0, np.int8)
        self._scores: NDArray[np.float64] = np.zeros(0)

    def codes(self, rows: Rows) -> Codes:
        self.refresh()
        return self._codes[rows]

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        self.refresh()
        return self._scores[rows]

    def _resize(self, capacity: int) -> None:
        self._codes = np.full(capacity, DOES_NOT_FIT, np.int8)
        self._scores = np.zeros(capacity)

    def _evaluate(self, row: int, node: Node) -> None:
        inventory = self._inventory
        pools = inventory.node_pools.of(node)
        signature = self._signatures.signature(
            node, pools, inventory.allocated_devices, inventory.node_pools.changes
        )
        known = self._by_signature.get(signature)
        if known is None:
            if len(self._by_signature) > self._capacity:
                self._by_signature.clear()
            known = self._by_signature[signature] = self._search(node, pools)
        self._codes[row], self._scores[row] = known

    def _search(self, node: Node, pools: Sequence[Pool]) -> tuple[int, int]:
        try:
            found = self._allocator.solve(
                node, pools, self._inventory.allocated_devices, self._steps
            )
        except NodeAllocationError:
            return INVALID_POOL, 0
        except AllocationError:
            return ERROR, 0
        return (DOES_NOT_FIT, 0) if found is None else (FITS, found.score)


class _CountResults:
    """Compare the counted devices with a count; use the search where counting is not exact."""

    def __init__(self, counted: _FreeDeviceCounts, searched: _SearchResults, count: int) -> None:
        self._counted = counted
        self._searched = searched
        self._count = count

    def codes(self, rows: Rows) -> Codes:
        self._counted.refresh()
        free = self._counted.free[rows]
        codes: Codes = np.where(free >= self._count, FITS, DOES_NOT_FIT).astype(np.int8)
        inexact = free == _SEARCH
        if inexact.any():
            codes[inexact] = self._searched.codes(rows[inexact])
        return codes

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        return np.zeros(len(rows))


class _WithFaultyPools:
    """Add the faulty pools that nodes report although their devices are for other nodes.

    They are not part of the cached results: a pool is incomplete for a moment whenever a driver
    publishes its slices, and that must not invalidate the results of all nodes.
    """

    def __init__(
        self, pools: NodePools, nodes: NodeTable, results: AllocationResults, asks_for_all: bool
    ) -> None:
        self._pools = pools
        self._nodes = nodes
        self._results = results
        self._asks_for_all = asks_for_all

    def codes(self, rows: Rows) -> Codes:
        codes = self._results.codes(rows)
        if not self._pools.has_faulty:
            return codes
        if self._asks_for_all:
            return np.where(self._sees_fault(rows, invalid=False), ERROR, codes).astype(np.int8)
        invalid = (codes == DOES_NOT_FIT) & self._sees_fault(rows, invalid=True)
        return np.where(invalid, INVALID_POOL, codes).astype(np.int8)

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        return self._results.scores(rows)

    def _sees_fault(self, rows: Rows, *, invalid: bool) -> NDArray[np.bool_]:
        without = self._pools.nodes_without_fault(invalid=invalid)
        if without is None:
            return np.zeros(len(rows), np.bool_)
        others = [row for name in without if (row := self._nodes.row_of.get(name)) is not None]
        return np.isin(rows, others, invert=True)
