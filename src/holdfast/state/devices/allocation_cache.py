"""Cached allocation results for every row, shared by pods with equal claims.

Only rows in the journal are evaluated again. A plain request (a number of devices of a class and
nothing else) needs no search: the free matching devices of each node are counted once, and a
request is one comparison with that column. Other claims are searched, once for all nodes with equal
signatures. For scores the devices of a class and the allocated ones are counted.

Results are found by the encoded spec of a claim: pods with a claim each, from one template, share
them. Namespaces share the space of the caches (decision 0020). Otherwise a tenant with a few
hundred different claims evicts what was searched for the claims of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import ALL, EXACT_COUNT, MAX_DEVICES, DeviceClass, ResourceClaim
from holdfast.runtime.shared_cache import SharedCache
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.allocator import Allocator, DeviceChoice, Specs
from holdfast.state.devices.device_counts import INEXACT, DeviceCounts, FreeDeviceCounts
from holdfast.state.devices.extended_resources import (
    RequestsAndMappings,
    create_requests_and_mappings,
)
from holdfast.state.devices.node_pools import NodePools, SharedPools
from holdfast.state.devices.requests import RequestAlternative
from holdfast.state.devices.row_table import NO_ROW, Rows, RowTable
from holdfast.state.devices.search_results import (
    DOES_NOT_FIT,
    ERROR,
    FITS,
    INVALID_POOL,
    NOT_SEARCHED,
    Codes,
    SearchResults,
)

if TYPE_CHECKING:
    from holdfast.state.devices.inventory import Inventory

_MAX_TABLES = 256

__all__ = [
    "DOES_NOT_FIT",
    "ERROR",
    "FITS",
    "INVALID_POOL",
    "NOT_SEARCHED",
    "AllocationCache",
    "AllocationResults",
]

RowsToSearch = Callable[[], Rows]
"""Returns the rows for which results are needed."""
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


_T = TypeVar("_T", bound="RowTable")


class AllocationResults(Protocol):
    """The allocation result of every row for the claims of one pod."""

    def codes(self, rows: Rows, first: int = NO_ROW, *, all_rows: bool = False) -> Codes:
        """Return FITS, DOES_NOT_FIT, INVALID_POOL, ERROR or NOT_SEARCHED for each row.

        After an ERROR no further row is searched, unless ``all_rows`` are wanted; ``first`` is
        searched before the others.
        """
        ...

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Return ``Solution.score`` of each row that fits."""
        ...

    def choices(self, row: int) -> tuple[DeviceChoice, ...] | None:
        """Return what a search has chosen on a row; None: it did not run, or chose nothing."""
        ...

    def timed_out(self, row: int) -> bool:
        """Return whether the search on a row reached its limit of steps."""
        ...

    def state_of(self, row: int) -> Hashable:
        """Return what a search on a row depends on, or None if that is unknown.

        Rows with equal states have devices in equal positions, so this also holds for searches
        without some of the allocated devices.
        """
        ...

    def refresh_in_steps(self, rows: RowsToSearch, first: int = NO_ROW) -> Iterator[None]:
        """Evaluate rows as ``codes`` would, with pauses in which the world may change."""
        ...


class AllocationCache:
    """The cached results of one node table; ``clear`` it when a device class changes."""

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        self._inventory = inventory
        self._nodes = nodes
        # Their owners are the namespaces of claims and pods, "" for what depends on a class alone.
        self._tables = SharedCache[RowTable](_MAX_TABLES)
        self._allocators = SharedCache[Allocator](_MAX_TABLES)
        self._results = SharedCache[AllocationResults](_MAX_TABLES)
        self._requests = SharedCache[RequestsAndMappings](_MAX_TABLES)
        """By spec and names of extended resources: their requests depend on nothing else but the
        classes."""

    def requests_and_mappings(self, pod: PodInfo, names: Sequence[str]) -> RequestsAndMappings:
        """Return the requests for these extended resources of a pod; do not modify them."""
        key = (pod.spec_key, tuple(names))
        requests_and_mappings = self._requests.get(key, pod.namespace)
        if requests_and_mappings is None:
            class_for = self._inventory.device_class_for
            requests_and_mappings = create_requests_and_mappings(pod.pod, names, class_for)
            self._requests.put(key, requests_and_mappings, pod.namespace)
        return requests_and_mappings

    def allocator(self, claims: Sequence[ResourceClaim]) -> Allocator:
        """Return an allocator; what it reads of specs and classes is shared by equal claims."""
        specs = tuple([_encode(claim.spec) for claim in claims])
        namespace = claims[0].namespace
        known = self._allocators.get(specs, namespace)
        if known is not None:
            return known.for_claims(claims)
        inventory = self._inventory
        made = Allocator(
            claims, inventory.classes.by_name, inventory.selectors, inventory.features, specs
        )
        self._allocators.put(specs, made, namespace)
        return made

    def results(self, allocator: Allocator, steps: int = 0) -> AllocationResults:
        """Return the results of an allocator's claims, shared by all pods with equal claims."""
        specs, namespace = allocator.specs, allocator.claims[0].namespace
        results = self._results.get((specs, steps), namespace)
        if results is None:
            results = self._new_results(allocator, specs, steps)
            self._results.put((specs, steps), results, namespace)
        return results

    def _new_results(self, allocator: Allocator, specs: Specs, steps: int) -> AllocationResults:
        namespace = allocator.claims[0].namespace
        searched = self._cached(
            SearchResults,
            ("search", specs, steps),
            lambda: SearchResults(self._inventory, self._nodes, allocator, steps),
            namespace,
        )
        alternative = _plain_alternative(allocator)
        if alternative is None:
            return _WithFaultyPools(
                self._inventory.node_pools, self._nodes, searched, _asks_for_all(allocator)
            )
        counted = self._cached(
            FreeDeviceCounts,
            _shape_without_count(allocator.claims[0]),
            lambda: FreeDeviceCounts(self._inventory, self._nodes, allocator, alternative),
            namespace,
        )
        results = _CountResults(counted, searched, alternative.count, steps)
        return _WithFaultyPools(self._inventory.node_pools, self._nodes, results, False)

    def counts(self, device_class: DeviceClass) -> DeviceCounts:
        """Return the number of devices and of allocated devices of a class for each row."""
        return self._cached(
            DeviceCounts,
            ("class", device_class.name),
            lambda: DeviceCounts(self._inventory, self._nodes, device_class),
        )

    def shared_pools(self) -> SharedPools:
        """Return the pools that each row shares with others."""
        return self._cached(
            SharedPools, "shared pools", lambda: SharedPools(self._inventory, self._nodes)
        )

    def clear(self) -> None:
        """Remove all cached results."""
        self._tables.clear()
        self._allocators.clear()
        self._results.clear()
        self._requests.clear()

    def _cached(self, kind: type[_T], key: Hashable, make: Callable[[], _T], owner: str = "") -> _T:
        table = self._tables.get(key, owner)
        if table is None:
            table = make()
            self._tables.put(key, table, owner)
        assert isinstance(table, kind)
        return table


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
    return any(alternative.allocation_mode == ALL for alternative in allocator.alternatives)


def _shape_without_count(claim: ResourceClaim) -> Hashable:
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None, "a plain request"
    return ("count", _encode(msgspec.structs.replace(exactly, count=1)))


class _CountResults:
    """Compare the counted devices with a count; use the search where counting is not exact."""

    def __init__(
        self, counted: FreeDeviceCounts, searched: SearchResults, count: int, steps: int
    ) -> None:
        self._counted = counted
        self._searched = searched
        self._count = count
        self._steps = steps

    def codes(self, rows: Rows, first: int = NO_ROW, *, all_rows: bool = False) -> Codes:
        self._counted.refresh(rows)
        free = self._counted.free.take(rows)
        codes: Codes = (free < self._count).view(np.int8)  # FITS and DOES_NOT_FIT are 0 and 1
        if self._counted.has_inexact:
            inexact = free == INEXACT
            count = np.count_nonzero(inexact)
            if count:
                searched = rows if count == len(rows) else rows[inexact]
                searched_codes = self._searched.codes(
                    searched, self._if_inexact(first), all_rows=all_rows
                )
                codes[inexact] = searched_codes
        return codes

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        return np.zeros(len(rows))

    def choices(self, row: int) -> tuple[DeviceChoice, ...] | None:
        choices = self._counted.first_free(row, self._count)
        if choices is None or 0 < self._steps <= choices[-1][1] + 1:
            return self._searched.choices(row)  # a limit of steps may end the search before
        return choices

    def timed_out(self, row: int) -> bool:
        return self._if_inexact(row) != NO_ROW and self._searched.timed_out(row)

    def state_of(self, row: int) -> Hashable:
        return self._searched.state_of(row)

    def _if_inexact(self, row: int) -> int:
        """Return the row if it must be searched, else NO_ROW."""
        if row == NO_ROW:
            return NO_ROW
        self._counted.refresh(np.array([row], np.intp))
        return row if self._counted.free[row] == INEXACT else NO_ROW

    def refresh_in_steps(self, rows: RowsToSearch, first: int = NO_ROW) -> Iterator[None]:
        yield from self._counted.refresh_in_steps(rows)
        if self._counted.has_inexact:
            yield from self._searched.refresh_in_steps(
                lambda: _inexact(self._counted, rows()), self._if_inexact(first)
            )


def _inexact(counted: FreeDeviceCounts, rows: Rows) -> Rows:
    inexact: Rows = rows[counted.free[rows] == INEXACT]
    return inexact


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

    def codes(self, rows: Rows, first: int = NO_ROW, *, all_rows: bool = False) -> Codes:
        codes = self._results.codes(rows, first, all_rows=all_rows)
        if not self._pools.has_faulty:
            return codes
        if self._asks_for_all:
            return np.where(self._sees_fault(rows, invalid=False), ERROR, codes).astype(np.int8)
        invalid = (codes == DOES_NOT_FIT) & self._sees_fault(rows, invalid=True)
        return np.where(invalid, INVALID_POOL, codes).astype(np.int8)

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        return self._results.scores(rows)

    def choices(self, row: int) -> tuple[DeviceChoice, ...] | None:
        return None if self._fails_before_search() else self._results.choices(row)

    def timed_out(self, row: int) -> bool:
        return not self._fails_before_search() and self._results.timed_out(row)

    def state_of(self, row: int) -> Hashable:
        return None if self._pools.has_faulty else self._results.state_of(row)

    def _fails_before_search(self) -> bool:
        return self._asks_for_all and self._pools.has_faulty

    def refresh_in_steps(self, rows: RowsToSearch, first: int = NO_ROW) -> Iterator[None]:
        return self._results.refresh_in_steps(rows, first)

    def _sees_fault(self, rows: Rows, *, invalid: bool) -> NDArray[np.bool_]:
        without = self._pools.nodes_without_fault(invalid=invalid)
        if without is None:
            return np.zeros(len(rows), np.bool_)
        others = [row for name in without if (row := self._nodes.row_of.get(name)) is not None]
        return np.isin(rows, others, invert=True)
