"""Which nodes can serve the claims of a pod: one answer a row, kept for pods with equal claims.

Only rows that the picture's journal names are looked at again. A plain request (so many devices
of a class, nothing else) needs no search: the free matching devices of each node are counted
once and every count asked for is one comparison of that column. Anything else is searched, once
for all nodes of equal signature. Scores ask for less: how many devices of a class there are and
how many of them are held.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import DeviceClass, ResourceClaim
from holdfast.api.node import Node
from holdfast.columns.journal import Stale
from holdfast.columns.node_table import NodeTable
from holdfast.devices.allocator import Allocator
from holdfast.devices.failures import AllocationError, NodeAllocationError
from holdfast.devices.matching import Matcher, tolerated
from holdfast.devices.requests import EXACT_COUNT, MOST_DEVICES, Ask
from holdfast.devices.signatures import Signer

if TYPE_CHECKING:
    from holdfast.devices.inventory import Inventory

FITS, LACKS, BROKEN, FAILS = 0, 1, 2, 3
"""Fits; does not; does not and a pool of the node is invalid; cannot be judged (see ``solve``)."""
_SEARCH = -1
_MOST_TABLES = 256

Rows = NDArray[np.intp]
Codes = NDArray[np.int8]
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


_T = TypeVar("_T", bound="_RowTable")


class AllocationAnswers(Protocol):
    """What every row answers to one pod's claims."""

    def codes(self, rows: Rows) -> Codes:
        """FITS, LACKS, BROKEN or FAILS for each row."""
        ...

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """How early the chosen alternatives come, for rows that fit."""
        ...


class Tables:
    """The answers kept for one picture; ``clear`` when a class changes."""

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._kept: dict[Hashable, _RowTable] = {}

    def answers(self, allocator: Allocator, steps: int = 0) -> AllocationAnswers:
        """The answers to an allocator's claims, shared with every pod whose claims are equal."""
        specs = tuple(_encode(claim.spec) for claim in allocator.claims)
        searched = self._keep(
            _SearchedRows,
            ("search", specs, steps),
            lambda: _SearchedRows(self._inventory, self._nodes, allocator, steps),
        )
        ask = _plain(allocator)
        if ask is None:
            return searched
        counted = self._keep(
            _CountedRows,
            _shape_without_count(allocator.claims[0]),
            lambda: _CountedRows(self._inventory, self._nodes, allocator, ask),
        )
        return _Plain(counted, searched, ask.count)

    def counts(self, device_class: DeviceClass) -> DeviceCounts:
        """How many devices of a class each row has and how many of them are held."""
        return self._keep(
            DeviceCounts,
            ("class", device_class.name),
            lambda: DeviceCounts(self._inventory, self._nodes, device_class),
        )

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def _keep(self, kind: type[_T], key: Hashable, make: Callable[[], _T]) -> _T:
        found = self._kept.pop(key, None)
        if found is None:
            if len(self._kept) >= _MOST_TABLES:
                del self._kept[next(iter(self._kept))]
            found = make()
        assert isinstance(found, kind)
        self._kept[key] = found
        return found


def _plain(allocator: Allocator) -> Ask | None:
    """The one ask of a plain request, or None."""
    if len(allocator.wanted) != 1 or len(allocator.wanted[0].asks) != 1:
        return None
    ask = allocator.wanted[0].asks[0]
    constraints = any(claim.spec.devices.constraints for claim in allocator.claims)
    plain = ask.mode == EXACT_COUNT and ask.count <= MOST_DEVICES
    special = ask.admin or ask.capacity or ask.sub or constraints or len(allocator.claims) > 1
    return ask if plain and not special else None


def _shape_without_count(claim: ResourceClaim) -> Hashable:
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None, "a plain request"
    return ("count", _encode(msgspec.structs.replace(exactly, count=1)))


class _RowTable:
    """One value a row, renewed for rows that changed."""

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._cursor = -1
        self._devices = -1
        self._capacity = 0

    def refresh(self) -> None:
        """Look at changed rows again; at all of them if something concerns every node."""
        nodes = self._nodes
        journal, devices = nodes.journal, nodes.epochs["devices"]
        whole = self._cursor < 0 or devices != self._devices
        if nodes.capacity != self._capacity:
            self._capacity, whole = nodes.capacity, True
            self._resize(nodes.capacity)
        if not whole and self._cursor == journal.seq:
            return
        stale: Stale = slice(0, nodes.size) if whole else journal.stale(self._cursor, nodes.size)
        self._cursor, self._devices = journal.seq, devices
        for row in range(*stale.indices(nodes.size)) if isinstance(stale, slice) else stale:
            node = nodes.nodes[row]
            if node is not None:
                self._look(int(row), node)

    def _resize(self, capacity: int) -> None:
        raise NotImplementedError

    def _look(self, row: int, node: Node) -> None:
        raise NotImplementedError


class _CountedRows(_RowTable):
    """Free devices of each node that a plain request may have; _SEARCH where counting is wrong."""

    def __init__(
        self, inventory: Inventory, nodes: NodeTable, allocator: Allocator, ask: Ask
    ) -> None:
        super().__init__(inventory, nodes)
        self._allocator = allocator
        self._ask = ask
        self.free: NDArray[np.int32] = np.zeros(0, np.int32)

    def _resize(self, capacity: int) -> None:
        self.free = np.full(capacity, 0, np.int32)

    def _look(self, row: int, node: Node) -> None:
        pools = self._inventory.pools_of(node)
        holdings, matcher, ask = self._inventory.holdings, self._allocator.matcher, self._ask
        taints = self._allocator.features.device_taints
        free = 0
        try:
            for pool in pools:
                for candidate in pool.candidates:
                    if candidate.consumes or candidate.shareable:
                        free = _SEARCH
                        return
                    if candidate.id in holdings.whole or not matcher.selectable(
                        ask, candidate, node
                    ):
                        continue
                    free += not taints or tolerated(candidate.device.taints, ask.tolerations)
            if any(pool.fault for pool in pools):
                free = _SEARCH
        except AllocationError:
            free = _SEARCH
        finally:
            self.free[row] = free


class DeviceCounts(_RowTable):
    """Devices of a class on each node, and how many of them somebody holds; ``refresh`` first.

    Where a selector cannot be evaluated there are none.
    """

    def __init__(self, inventory: Inventory, nodes: NodeTable, device_class: DeviceClass) -> None:
        super().__init__(inventory, nodes)
        self._matcher = Matcher((), inventory.selectors, inventory.features)
        self._ask = Ask(
            index=0, claim=0, choice=0, request="", sub="", device_class=device_class,
            mode=EXACT_COUNT, count=1, selectors=(), tolerations=(), capacity={}, admin=False,
        )  # fmt: skip
        self.have: NDArray[np.int64] = np.zeros(0, np.int64)
        self.held: NDArray[np.int64] = np.zeros(0, np.int64)

    def _resize(self, capacity: int) -> None:
        self.have = np.zeros(capacity, np.int64)
        self.held = np.zeros(capacity, np.int64)

    def _look(self, row: int, node: Node) -> None:
        matcher, ask = self._matcher, self._ask
        taken = self._inventory.holdings.taken
        try:
            matching = [
                candidate.id
                for pool in self._inventory.pools_of(node)
                for candidate in pool.candidates
                if matcher.selectable(ask, candidate, node)
            ]
        except AllocationError:
            matching = []
        self.have[row] = len(matching)
        self.held[row] = sum(map(taken, matching))


class _SearchedRows(_RowTable):
    """The search's answer for each node, one search a signature."""

    def __init__(
        self, inventory: Inventory, nodes: NodeTable, allocator: Allocator, steps: int
    ) -> None:
        super().__init__(inventory, nodes)
        self._allocator = allocator
        self._steps = steps
        self._signer = Signer(allocator)
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
        self._codes = np.full(capacity, LACKS, np.int8)
        self._scores = np.zeros(capacity)

    def _look(self, row: int, node: Node) -> None:
        pools, holdings = self._inventory.pools_of(node), self._inventory.holdings
        signature = self._signer.sign(node, pools, holdings)
        known = self._by_signature.get(signature)
        if known is None:
            if len(self._by_signature) > self._capacity:
                self._by_signature.clear()
            known = self._by_signature[signature] = self._search(node)
        self._codes[row], self._scores[row] = known

    def _search(self, node: Node) -> tuple[int, int]:
        try:
            found = self._allocator.solve(
                node, self._inventory.pools_of(node), self._inventory.holdings, self._steps
            )
        except NodeAllocationError:
            return BROKEN, 0
        except AllocationError:
            return FAILS, 0
        return (LACKS, 0) if found is None else (FITS, found.score)


class _Plain:
    """Compare the counted column with what is asked; search only where counting is wrong."""

    def __init__(self, counted: _CountedRows, searched: _SearchedRows, count: int) -> None:
        self._counted = counted
        self._searched = searched
        self._count = count

    def codes(self, rows: Rows) -> Codes:
        self._counted.refresh()
        free = self._counted.free[rows]
        codes: Codes = np.where(free >= self._count, FITS, LACKS).astype(np.int8)
        odd = free == _SEARCH
        if odd.any():
            codes[odd] = self._searched.codes(rows[odd])
        return codes

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        return np.zeros(len(rows))
