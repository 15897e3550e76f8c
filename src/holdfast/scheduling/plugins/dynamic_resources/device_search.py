"""Search devices for the claims of a pod: the result of each row, in one scheduling attempt.

An extended resource may be served by devices on some nodes and by a device plugin on others. So the
claims to allocate depend on the node. Nodes with the same set of device-served resources, a bit
set, have the same claims and share one allocator with its results. Usually no node has the resource
itself: ``_served_everywhere`` finds that without an array of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import ResourceClaim
from holdfast.api.node_selection import compile_selector
from holdfast.scheduling.framework.plugin import Rows
from holdfast.scheduling.plugins.dynamic_resources.binding_conditions import is_unavailable
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.selection import Bools, terms_selected
from holdfast.state.devices.allocation_cache import (
    DOES_NOT_FIT,
    ERROR,
    FITS,
    INVALID_POOL,
    NOT_SEARCHED,
    AllocationResults,
    RowsToSearch,
)
from holdfast.state.devices.allocator import Allocator, Solution
from holdfast.state.devices.claims import in_flight_uid
from holdfast.state.devices.errors import TIMED_OUT, AllocationError
from holdfast.state.devices.extended_resources import (
    RequestsAndMappings,
    extended_resource_claim,
)
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.row_table import NO_ROW

_FIRST_OTHER_RESOURCE = 4
_BITS = 63
"""Bits of an array of integers; for a pod with more extended resources Python's integers are used.

Before, each attempt of such a pod ended with an OverflowError.
"""
UNAVAILABLE, OLD_EXTENDED_CLAIM, NOT_RESERVABLE = 5, 6, 7
"""More codes: an allocated claim is not usable there; an old extended resource claim exists; only
devices of a class could serve the pod, which a reservation cannot hold."""
CANNOT_ALLOCATE = "cannot allocate all claims"
MESSAGES = {
    DOES_NOT_FIT: CANNOT_ALLOCATE,
    INVALID_POOL: "invalid resource pools were encountered",
    NOT_SEARCHED: "devices were not searched: the search on another node failed",
    UNAVAILABLE: "resourceclaim not available on the node",
    OLD_EXTENDED_CLAIM: "cannot schedule extended resource claim",
    NOT_RESERVABLE: "node(s) have only devices of a DeviceClass, which cannot be reserved",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits: search steps on one node (0: none), and seconds to prepare devices."""

    steps: int
    binding_seconds: float


class UnallocatedClaims(msgspec.Struct, frozen=True):
    """Claims to allocate on those nodes where devices serve the same extended resources."""

    claims: tuple[ResourceClaim, ...]
    requests: RequestsAndMappings
    extended_claim: ResourceClaim | None
    allocator: Allocator | None = None
    results: AllocationResults | None = None
    error: str = ""

    def codes(self, rows: Rows, first: int = NO_ROW, *, all_rows: bool = False) -> NDArray[np.int8]:
        """Return a code for each row; without claims to allocate every row fits."""
        if self.error:
            return np.full(len(rows), ERROR, np.int8)
        if self.results is None:
            return np.zeros(len(rows), np.int8)
        return self.results.codes(rows, first, all_rows=all_rows)

    def solve(
        self, row: int, inventory: Inventory, nodes: NodeTable, steps: int
    ) -> Solution | None:
        """Choose devices on a row; a search that ran for an equal row is not repeated."""
        node = nodes.nodes[row]
        assert node is not None, f"row {row} is a node"
        assert self.allocator is not None, "there are claims to allocate"
        choices = None if self.results is None else self.results.choices(row)
        if choices is not None:
            return self.allocator.solution(choices, inventory.node_pools.of(node))
        pools, allocated_devices = inventory.pools_of(node), inventory.allocated_devices
        return self.allocator.solve(node, pools, allocated_devices, steps)


class PodClaimsSearch(msgspec.Struct):
    """The claims of a pod in one attempt, and whether they can be allocated on each row.

    ``claims`` are those of the pod's spec; ``extended`` are its extended resources that a device
    class serves. ``old_extended_claim`` was created in an earlier attempt and has to be deleted
    before another one is created.
    """

    pod: PodInfo
    inventory: Inventory
    nodes: NodeTable
    now: float
    limits: Limits
    claims: tuple[ResourceClaim, ...]
    extended: tuple[str, ...] = ()
    old_extended_claim: ResourceClaim | None = None
    nominated_row: int = NO_ROW
    """The row that is searched first: if the pod fits there, errors on others do not matter."""
    unavailable: set[int] = set()
    _masks: dict[int, Bools] = {}
    _unallocated: dict[int, UnallocatedClaims] = {}

    @property
    def extended_claim_uid(self) -> str:
        """The substitute uid of the extended resource claim until it is created."""
        return in_flight_uid(self.pod.uid)

    @property
    def pending(self) -> tuple[ResourceClaim, ...]:
        """Claims of the pod's spec that are not allocated."""
        return tuple([c for c in self.claims if c.status.allocation is None])

    def codes(self, rows: Rows, *, all_rows: bool = False) -> NDArray[np.int8]:
        """Return a code for each row; collect claims that are not usable there in ``unavailable``.

        Missing devices take precedence: such rows are not checked for allocated claims. After an
        error no further row is searched, unless ``all_rows`` are wanted.
        """
        if self.old_extended_claim is not None:
            return np.full(len(rows), OLD_EXTENDED_CLAIM, np.int8)
        if self.pod.is_reserve_pod:
            return np.where(self._device_served(rows) != 0, NOT_RESERVABLE, FITS).astype(np.int8)
        everywhere = self._served_everywhere()
        if everywhere is not None:
            unallocated = self.unallocated_for(everywhere)
            codes = unallocated.codes(rows, self._first_of(everywhere), all_rows=all_rows)
        else:
            codes = np.zeros(len(rows), np.int8)
            for bits, some in self.by_device_served(rows):
                unallocated = self.unallocated_for(bits)
                first = self._first_of(bits)
                codes[some] = unallocated.codes(rows[some], first, all_rows=all_rows)
        fits: Bools | None = None
        for number, claim in enumerate(self.claims):
            if claim.status.allocation is not None:
                if fits is None:
                    fits = codes == FITS
                elsewhere = fits & ~self._mask(number, claim)[rows]
                if elsewhere.any():
                    self.unavailable.add(number)
                    codes[elsewhere] = UNAVAILABLE
        return codes

    def lack_devices(self, rows: Rows) -> Bools:
        """Return per row whether only free devices are missing."""
        if self.old_extended_claim is not None:
            return np.zeros(len(rows), np.bool_)
        lacking: Bools = self.codes(rows, all_rows=True) == DOES_NOT_FIT
        for number, claim in enumerate(self.claims):
            if claim.status.allocation is not None:
                lacking &= self._mask(number, claim)[rows]
        return lacking

    def search_in_steps(self, rows: RowsToSearch) -> Iterator[None]:
        """Search rows as ``codes`` would, with pauses in which the world may change."""
        if self.old_extended_claim is not None or self.pod.is_reserve_pod:
            return
        everywhere = self._served_everywhere()
        if everywhere is None:
            bit_sets = np.unique(self._device_served(self.nodes.rows)).tolist()
        else:
            bit_sets = [everywhere]
        for bits in bit_sets:
            results = self.unallocated_for(bits).results
            if results is not None:
                some = partial(self._rows_of, bits, rows)
                yield from results.refresh_in_steps(some, self._first_of(bits))

    def _rows_of(self, bits: int, rows: RowsToSearch) -> Rows:
        rows_to_search = rows()
        if self._served_everywhere() == bits:
            return rows_to_search
        some: Rows = rows_to_search[self._device_served(rows_to_search) == bits]
        return some

    def _first_of(self, bits: int) -> int:
        """Return the nominated row if its devices must serve these resources, else NO_ROW."""
        row = self.nominated_row
        return row if row != NO_ROW and self._served_on(row) == bits else NO_ROW

    def error_on(self, row: int) -> str:
        """Return the error of the allocation on a row, with the names of this pod's claims."""
        unallocated = self.unallocated_on(row)
        if unallocated.error or unallocated.allocator is None:
            return unallocated.error
        node = self.nodes.nodes[row]
        assert node is not None, f"row {row} is a node"
        if unallocated.results is not None and unallocated.results.timed_out(row):
            return f"node {node.name}: {TIMED_OUT}"
        pools, allocated_devices = self.inventory.pools_of(node), self.inventory.allocated_devices
        try:
            unallocated.allocator.solve(node, pools, allocated_devices, self.limits.steps)
        except AllocationError as failure:
            return failure.message
        return ""

    def unallocated_on(self, row: int) -> UnallocatedClaims:
        """Return the claims to allocate on one row."""
        return self.unallocated_for(self._served_on(row))

    def unallocated_for(self, bits: int) -> UnallocatedClaims:
        """Return the claims to allocate where devices serve the resources in the bit set."""
        unallocated = self._unallocated.get(bits)
        if unallocated is None:
            names = [name for i, name in enumerate(self.extended) if bits >> i & 1]
            unallocated = self._unallocated[bits] = self._make(names)
        return unallocated

    def _make(self, names: list[str]) -> UnallocatedClaims:
        requests = self.inventory.allocation_cache.requests_and_mappings(self.pod, names)
        extended_claim = None
        claims = self.pending
        if requests.requests:
            extended_claim = extended_resource_claim(
                self.pod.pod, self.extended_claim_uid, requests
            )
            claims = (*claims, extended_claim)
        if not claims:
            return UnallocatedClaims((), requests, None)
        try:
            allocator = self.inventory.allocator(claims)
        except AllocationError as failure:
            return UnallocatedClaims(claims, requests, extended_claim, error=failure.message)
        results = self.inventory.allocation_cache.results(allocator, self.limits.steps)
        return UnallocatedClaims(claims, requests, extended_claim, allocator, results)

    def _mask(self, number: int, claim: ResourceClaim) -> Bools:
        mask = self._masks.get(number)
        if mask is None:
            mask = self._masks[number] = usable_nodes(claim, self.nodes)
            if self.inventory.features.binding_conditions and is_unavailable(
                claim, self.now, self.limits.binding_seconds
            ):
                mask[:] = False
        return mask

    def has_allocatable(self, name: str, row: int) -> bool:
        """Return whether a node lists a resource itself, so that no devices serve it there."""
        resource, allocatable = self.nodes.resources.id(name), self.nodes.allocatable
        return resource < len(allocatable) and bool(allocatable[resource, row] > 0)

    def by_device_served(self, rows: Rows) -> Iterator[tuple[int, slice | Rows]]:
        """Yield each bit set of ``_device_served`` with the positions of its rows."""
        everywhere = self._served_everywhere()
        if everywhere is not None:
            yield everywhere, slice(None)
            return
        device_served = self._device_served(rows)
        if len(rows) and (device_served == device_served[0]).all():
            yield int(device_served[0]), slice(None)
            return
        for bits in np.unique(device_served).tolist():
            yield bits, (device_served == bits).nonzero()[0]

    def _served_everywhere(self) -> int | None:
        """Return the bit set of all rows if no node lists such a resource itself, else None."""
        allocatable = self.nodes.allocatable
        for name in self.extended:
            resource = self.nodes.resources.id(name)
            if resource < len(allocatable) and np.count_nonzero(allocatable[resource]):
                return None
        return (1 << len(self.extended)) - 1

    def _served_on(self, row: int) -> int:
        """Return the bit set of one row."""
        bits = 0
        for i, name in enumerate(self.extended):
            if not self.has_allocatable(name, row):
                bits |= 1 << i
        return bits

    def _device_served(self, rows: Rows) -> NDArray[Any]:
        """Return a bit set per row: the extended resources that its devices must serve."""
        many = len(self.extended) > _BITS
        device_served = np.zeros(len(rows), object if many else np.int64)
        allocatable = self.nodes.allocatable
        for i, name in enumerate(self.extended):
            resource = self.nodes.resources.id(name)
            own = np.zeros(len(rows), np.bool_)
            if resource < len(allocatable):
                own = allocatable[resource, rows] > 0
            device_served[~own] |= 1 << i
        return device_served


def device_backed_names(pod: PodInfo, nodes: NodeTable, inventory: Inventory) -> tuple[str, ...]:
    """Return the names of the pod's extended resources that a device class serves."""
    others = [r for r, amount in pod.request if r >= _FIRST_OTHER_RESOURCE and amount]
    if not others:
        return ()
    names = (nodes.resources[r] for r in others)
    return tuple(sorted(n for n in names if inventory.device_class_for(n) is not None))


def usable_nodes(claim: ResourceClaim, nodes: NodeTable) -> Bools:
    """Return for each row whether an allocated claim can be used there; no selector: everywhere."""
    selector = claim.status.allocation.node_selector if claim.status.allocation else None
    if selector is None:
        return np.ones(nodes.size, np.bool_)
    return terms_selected(nodes, compile_selector(selector), slice(0, nodes.size))
