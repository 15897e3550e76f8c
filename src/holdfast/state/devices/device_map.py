"""The devices of a cluster as a map: where each is, which claims hold it, what is left of it.

What is free is decided by the rules of the allocation: the same pools as each node sees them, the
same ledger of allocated devices, the same remaining counters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.api.devices import DeviceResult, ResourceClaim
from holdfast.api.node import Node
from holdfast.api.node_selection import NAME_FIELD
from holdfast.api.pod import NodeSelector
from holdfast.api.quantity import Quantity
from holdfast.state.devices.allocated_devices import AllocatedDevices, device_id
from holdfast.state.devices.features import Features
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.matching import tolerated
from holdfast.state.devices.pools import Pool, newest_slices, whole_pool
from holdfast.state.devices.remaining_capacity import RemainingCapacity
from holdfast.state.devices.slices import (
    DeviceCandidate,
    DeviceId,
    PoolId,
    SliceInfo,
    includes_node,
)

_ZERO = Quantity(0)


class DeviceState(StrEnum):
    """Whether a device can be allocated, and why not."""

    FREE = "free"
    USED = "used"
    SHARED = "shared"
    """Held by claims, and more can share it."""
    FULL = "full"
    """Shared by claims, with nothing left of one of its capacities."""
    BLOCKED = "blocked"
    """Not held, but other devices of the pool use the counters that it needs."""
    TAINTED = "tainted"
    """Not held, and only for claims that tolerate its taints."""
    UNUSABLE = "unusable"
    """Its pool is incomplete or invalid."""


@dataclass(frozen=True, slots=True)
class RemainingAmount:
    """What is left of an amount that several claims can use."""

    name: str
    left: Quantity
    total: Quantity


@dataclass(frozen=True, slots=True)
class ClaimWithDevice:
    """A claim that holds a device, or a share of it, and the pods that use the claim."""

    claim: ResourceClaim
    result: DeviceResult

    @property
    def consumers(self) -> tuple[str, ...]:
        """The names of the pods that the claim is reserved for."""
        return tuple(consumer.name for consumer in self.claim.status.reserved_for)


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """A device of a pool's newest generation, or of the newest that a node sees."""

    candidate: DeviceCandidate
    state: DeviceState
    holders: tuple[ClaimWithDevice, ...]
    capacity: tuple[RemainingAmount, ...]
    """What is left of the capacities of a device that claims can share."""

    @property
    def id(self) -> DeviceId:
        """Driver, pool and name."""
        return self.candidate.id

    @property
    def can_be_allocated(self) -> bool:
        """Whether a claim without tolerations can still be allocated on it."""
        available = self.state in (DeviceState.FREE, DeviceState.SHARED)
        return available and tolerated(self.candidate.device.taints, ())

    @property
    def node_name(self) -> str:
        """The node for which it is published; "" if nodes are not selected by name."""
        return self.candidate.node_selection[0] or ""

    @property
    def nodes(self) -> str:
        """Where it can be used: the name of a node, or a selection of nodes in words."""
        return nodes_text(*self.candidate.node_selection)

    def is_available_on(self, node: Node) -> bool:
        """Return whether the device can be used on a node, allocated or not."""
        return includes_node(node, *self.candidate.node_selection)


@dataclass(frozen=True, slots=True)
class MappedPool:
    """A pool with all its devices, whatever their nodes."""

    id: PoolId
    generation: int
    problem: str
    """Why its devices cannot be allocated, or ""."""
    problem_nodes: tuple[str, ...]
    """The nodes where that is so, if its devices can be allocated on others."""
    devices: tuple[MappedDevice, ...]
    counters: tuple[RemainingAmount, ...]


def map_devices(inventory: Inventory, nodes: Collection[Node]) -> list[MappedPool]:
    """Return every pool, by driver and name."""
    by_pool: defaultdict[PoolId, list[SliceInfo]] = defaultdict(list)
    for slice_info in inventory.slices:
        by_pool[slice_info.pool].append(slice_info)
    on_nodes: defaultdict[PoolId, defaultdict[Pool, list[Node]]]
    on_nodes = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        for pool in inventory.node_pools.of(node):
            on_nodes[pool.id][pool].append(node)
    holders = holders_by_device(inventory.claims.all())
    return [
        _mapped(_SeenPool(slices, on_nodes[pool], nodes, inventory.features), holders, inventory)
        for pool, slices in sorted(by_pool.items())
    ]


def holders_by_device(claims: Iterable[ResourceClaim]) -> dict[DeviceId, list[ClaimWithDevice]]:
    """Return the claims that hold each device, admin access included."""
    by_device: defaultdict[DeviceId, list[ClaimWithDevice]] = defaultdict(list)
    for claim in sorted(claims, key=lambda claim: claim.key):
        for result in claim.results:
            if result.device:
                by_device[device_id(result)].append(ClaimWithDevice(claim, result))
    return by_device


class _SeenPool:
    """A pool as nodes see it, or the whole pool if no node does."""

    def __init__(
        self,
        slices: list[SliceInfo],
        on_nodes: Mapping[Pool, list[Node]],
        nodes: Collection[Node],
        features: Features,
    ) -> None:
        self.newest = newest_slices(slices)
        self.whole = whole_pool(self.newest, features)
        self._on_nodes = on_nodes
        self._nodes = nodes
        healthy = (pool for pool in on_nodes if not pool.is_faulty)
        self._usable = {candidate: pool for pool in healthy for candidate in pool.candidates}

    @property
    def candidates(self) -> list[DeviceCandidate]:
        """The devices of the newest generation, then those of older ones that nodes still see."""
        newest = [c for slice_info in self.newest for c in slice_info.candidates]
        return [*dict.fromkeys((*newest, *self._usable))]

    @property
    def counted(self) -> Pool:
        """The pool whose counters are shown."""
        return next(iter(self._usable.values()), self.whole)

    def pool_of(self, candidate: DeviceCandidate) -> Pool | None:
        """Return the pool in which a device can be allocated, or None."""
        pool = self._usable.get(candidate)
        if pool is None and not self.whole.is_faulty and not self._is_seen(candidate):
            return self.whole
        return pool

    def _is_seen(self, candidate: DeviceCandidate) -> bool:
        return any(includes_node(node, *candidate.node_selection) for node in self._nodes)

    def problem(self) -> tuple[str, tuple[str, ...]]:
        """Return why devices cannot be allocated, and on which nodes if not on all."""
        faulty = {pool: nodes for pool, nodes in self._on_nodes.items() if pool.is_faulty}
        if not faulty:
            unseen = any(self.pool_of(candidate) is None for candidate in self.candidates)
            return (self._problem_of(self.whole) if unseen or not self._usable else "", ())
        names = sorted(node.name for nodes in faulty.values() for node in nodes)
        return self._problem_of(next(iter(faulty))), tuple(names if self._usable else ())

    def _problem_of(self, pool: Pool) -> str:
        if pool.incomplete:
            count, first = len(self.newest), self.newest[0]
            expected = first.slice.spec.pool.resource_slice_count
            return f"incomplete: {count} of {expected} slices of generation {first.generation}"
        return f"invalid: {pool.invalid_reason}" if pool.invalid_reason else ""


def _mapped(
    seen: _SeenPool, holders: Mapping[DeviceId, list[ClaimWithDevice]], inventory: Inventory
) -> MappedPool:
    allocated, features = inventory.allocated_devices, inventory.features
    remaining = RemainingCapacity(allocated, features)
    devices = tuple(
        MappedDevice(
            candidate,
            _state(candidate, seen.pool_of(candidate), allocated, remaining, features),
            tuple(holders.get(candidate.id, ())),
            _capacity_left(candidate, allocated, features),
        )
        for candidate in seen.candidates
    )
    return MappedPool(
        seen.whole.id,
        seen.newest[0].generation,
        *seen.problem(),
        devices,
        _counters(seen.counted, remaining),
    )


def _state(
    candidate: DeviceCandidate,
    pool: Pool | None,
    allocated: AllocatedDevices,
    remaining: RemainingCapacity,
    features: Features,
) -> DeviceState:
    if candidate.id in allocated.unshared:
        return DeviceState.USED
    if pool is None:
        return DeviceState.UNUSABLE
    if candidate.id in allocated.shared:
        left = _capacity_left(candidate, allocated, features)
        used_up = any(one.left <= _ZERO < one.total for one in left)
        return DeviceState.FULL if used_up else DeviceState.SHARED
    if not remaining.has_counters_for(pool, candidate):
        return DeviceState.BLOCKED
    if features.device_taints and not tolerated(candidate.device.taints, ()):
        return DeviceState.TAINTED
    return DeviceState.FREE


def _capacity_left(
    candidate: DeviceCandidate, allocated: AllocatedDevices, features: Features
) -> tuple[RemainingAmount, ...]:
    if not candidate.shareable or not features.consumable_capacity:
        return ()
    consumed = allocated.consumed.get(candidate.id, {})
    totals = {
        name: Quantity.parse(capacity.value)
        for name, capacity in sorted(candidate.device.capacity.items())
    }
    return tuple(
        RemainingAmount(name, total - consumed.get(name, _ZERO), total)
        for name, total in totals.items()
    )


def _counters(pool: Pool, remaining: RemainingCapacity) -> tuple[RemainingAmount, ...]:
    return tuple(
        RemainingAmount(f"{set_name}/{name}", left, pool.counters.sets[set_name][name])
        for set_name, name, left in sorted(remaining.remaining_counters(pool), key=lambda c: c[:2])
    )


def nodes_text(name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> str:
    """Write a selection of nodes in words.

    >>> nodes_text("node-1", None, None), nodes_text(None, True, None), nodes_text(None, None, None)
    ('node-1', 'all nodes', 'no node')
    """
    if name:
        return name
    if all_nodes:
        return "all nodes"
    if selector is None:
        return "no node"
    names = _node_names(selector)
    if names:
        return ", ".join(names)
    terms = [
        ",".join(
            f"{r.key} {r.operator}" + (f" ({','.join(r.values)})" if r.values else "")
            for r in (*term.match_expressions, *term.match_fields)
        )
        for term in selector.node_selector_terms
    ]
    return " or ".join(terms)


def _node_names(selector: NodeSelector) -> tuple[str, ...]:
    """Return the names of the nodes, if the selector has nothing but names."""
    terms = selector.node_selector_terms
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ()
    requirement = terms[0].match_fields[0]
    by_name = requirement.key == NAME_FIELD and requirement.operator == "In"
    return requirement.values if by_name else ()
