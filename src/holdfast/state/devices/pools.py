"""Pools of devices for one node: the newest generation, which may be incomplete or invalid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.api.node import Node
from holdfast.api.quantity import Quantity
from holdfast.state.devices.features import Features
from holdfast.state.devices.slices import ALL_NODES, DeviceCandidate, DeviceId, PoolId, SliceInfo


@dataclass(frozen=True, slots=True, eq=False)
class PoolCounters:
    """The counter sets of a whole pool, and the devices that consume each: those of all nodes."""

    sets: Mapping[str, Mapping[str, Quantity]] = field(default_factory=dict)
    consumers: Mapping[str, Sequence[DeviceCandidate]] = field(default_factory=dict)

    def remaining(
        self, set_name: str, is_allocated: Callable[[DeviceId], bool]
    ) -> dict[str, Quantity]:
        """Return what allocated devices leave of a counter set; it may be negative."""
        left = dict(self.sets[set_name])
        for candidate in self.consumers[set_name]:
            if is_allocated(candidate.id):
                for name, amount in candidate.consumed_counters[set_name].items():
                    left[name] = left[name] - amount
        return left

    def overcommitted(
        self, is_allocated: Callable[[DeviceId], bool], sets: Iterable[str] | None = None
    ) -> frozenset[str]:
        """Return which of these counter sets, or of all, have a negative counter."""
        return frozenset(
            name
            for name in (self.sets if sets is None else sets)
            if any(left < _ZERO for left in self.remaining(name, is_allocated).values())
        )


_ZERO = Quantity(0)
NO_COUNTERS = PoolCounters()
CountersByGeneration = dict[int, PoolCounters]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Pool:
    """The devices of one pool that are available on a node.

    A pool with an ``invalid_reason`` has no candidates.
    """

    id: PoolId
    candidates: tuple[DeviceCandidate, ...] = ()
    counters: PoolCounters = NO_COUNTERS
    own_sets: tuple[str, ...] = ()
    """The counter sets that its candidates consume."""
    is_shared: bool = False
    """Whether other nodes have the same pool, with the same candidates."""
    shares_counters_with_other_nodes: bool = False
    selects_nodes_by_device: bool = False
    """Whether a candidate may be unavailable on a node that sees its slice."""
    incomplete: bool = False
    invalid_reason: str = ""

    @property
    def label(self) -> str:
        """``driver/pool``, for messages."""
        return "/".join(self.id)

    @property
    def is_faulty(self) -> bool:
        """Whether the pool is incomplete or invalid, so that its devices cannot be allocated."""
        return self.incomplete or bool(self.invalid_reason)

    @property
    def has_binding_conditions(self) -> bool:
        """Whether a device has binding conditions; such pools are searched last."""
        return any(c.device.binding_conditions for c in self.candidates)


def newest_by_pool(
    slices: Iterable[SliceInfo], node: Node, features: Features
) -> Iterable[tuple[PoolId, list[SliceInfo]]]:
    """Return the slices that are relevant for a node, of each pool's newest generation."""
    by_pool: dict[PoolId, list[SliceInfo]] = {}
    for slice_info in slices:
        if not features.partitionable_devices and _partitioned(slice_info):
            continue
        if slice_info.is_relevant_for(node):
            _keep_newest(by_pool.setdefault(slice_info.pool, []), slice_info)
    return by_pool.items()


def in_search_order(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Sort pools by driver and name, those with binding conditions last."""
    return tuple(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id)))


def pool_without_devices(slices: Sequence[SliceInfo], features: Features) -> Pool | None:
    """Return the pool of these slices for a node that has none of its devices.

    Such a node sees the counters: no device can be allocated from them, but a pool that is
    incomplete or invalid is reported on every node.
    """
    newest: list[SliceInfo] = []
    for slice_info in slices:
        if slice_info.counters and features.partitionable_devices:
            _keep_newest(newest, slice_info)
    return build_pool(newest[0].pool, newest, slices, features) if newest else None


def newest_slices(slices: Iterable[SliceInfo]) -> list[SliceInfo]:
    """Return the slices of one pool that are of its newest generation, by name."""
    newest: list[SliceInfo] = []
    for slice_info in slices:
        _keep_newest(newest, slice_info)
    return sorted(newest, key=lambda slice_info: slice_info.name)


def whole_pool(newest: Sequence[SliceInfo], features: Features) -> Pool:
    """Build a pool of the slices of its newest generation, whatever their nodes."""
    pool = build_pool(newest[0].pool, list(newest), newest, features)
    assert pool is not None, "there is no newer generation"
    return pool


def _partitioned(slice_info: SliceInfo) -> bool:
    return bool(slice_info.counters) or slice_info.slice.spec.per_device_node_selection is not None


def _keep_newest(newest_slices: list[SliceInfo], slice_info: SliceInfo) -> None:
    if newest_slices and slice_info.generation < newest_slices[0].generation:
        return
    if newest_slices and slice_info.generation > newest_slices[0].generation:
        newest_slices.clear()
    newest_slices.append(slice_info)


def build_pool(
    pool_id: PoolId,
    here: list[SliceInfo],
    everywhere: Sequence[SliceInfo],
    features: Features,
    counters: CountersByGeneration | None = None,
) -> Pool | None:
    """Build a pool from its slices for the node; None if a newer generation is incomplete.

    ``counters`` are those already built for other nodes; new ones are added.
    """
    expected = here[0].slice.spec.pool.resource_slice_count
    generation = here[0].generation
    names = {slice_info.name for slice_info in here}
    others: list[SliceInfo] = []
    if len(here) != expected:
        if any(slice_info.generation > generation for slice_info in everywhere):
            return None
        same = [slice_info for slice_info in everywhere if slice_info.generation == generation]
        if len(same) != expected:
            return Pool(pool_id, incomplete=True)
        others = [slice_info for slice_info in same if slice_info.name not in names]
    here.sort(key=lambda slice_info: slice_info.name)
    return _validated_pool(pool_id, here, others, features, {} if counters is None else counters)


def _validated_pool(
    pool_id: PoolId,
    here: list[SliceInfo],
    others: list[SliceInfo],
    features: Features,
    counters_by_generation: CountersByGeneration,
) -> Pool:
    candidates = tuple(c for slice_info in here for c in slice_info.candidates)
    elsewhere = tuple(c for slice_info in others for c in slice_info.candidates)
    counters: dict[str, Mapping[str, Quantity]] = {}
    error = _duplicate([c.device.name for c in candidates], "device")
    if features.partitionable_devices and not error:
        sets = [entry for slice_info in here for entry in slice_info.counters]
        counters = dict(sets)
        error = _duplicate([name for name, _ in sets], "counter set")
        error = error or _missing_counter(counters, (*candidates, *elsewhere))
    if error:
        return Pool(pool_id, invalid_reason=error)
    whole = counters_by_generation.get(here[0].generation)
    if whole is None:
        whole = _pool_counters(counters, (*candidates, *elsewhere))
        counters_by_generation[here[0].generation] = whole
    consumed = {name for candidate in candidates for name in candidate.consumed_counters}
    shared = bool(consumed) and any(c.consumed_counters for c in elsewhere)
    by_device = any(slice_info.slice.spec.per_device_node_selection for slice_info in here)
    return Pool(
        pool_id,
        candidates,
        whole,
        tuple(sorted(consumed & whole.sets.keys())),
        is_shared=any(ALL_NODES in slice_info.node_names for slice_info in here),
        shares_counters_with_other_nodes=shared,
        selects_nodes_by_device=by_device,
    )


def _pool_counters(
    sets: Mapping[str, Mapping[str, Quantity]], candidates: Iterable[DeviceCandidate]
) -> PoolCounters:
    consumers: dict[str, list[DeviceCandidate]] = {name: [] for name in sets}
    for candidate in candidates if sets else ():
        for name in candidate.consumed_counters:
            consumers[name].append(candidate)
    return PoolCounters(sets, consumers)


def _duplicate(names: list[str], what: str) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"duplicate {what} name {name}"
        seen.add(name)
    return ""


def _missing_counter(
    counters: Mapping[str, Mapping[str, Quantity]], candidates: Iterable[DeviceCandidate]
) -> str:
    """Return an error if a device consumes a counter that the pool does not have, else ""."""
    for candidate in candidates:
        for set_name, amounts in candidate.consumed_counters.items():
            if set_name not in counters:
                return f"counter set {set_name} not found"
            for name in amounts:
                if name not in counters[set_name]:
                    return f"counter {name} not found in counter set {set_name}"
    return ""
