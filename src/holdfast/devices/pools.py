"""Pools of devices as one node sees them: newest generation only, complete or not, valid or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.api.node import Node
from holdfast.api.quantity import Quantity
from holdfast.devices.features import Features
from holdfast.devices.slices import DeviceCandidate, PoolId, SliceFacts


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of one pool that a node can reach.

    ``elsewhere`` are devices of the same pool on other nodes: never candidates, but they may
    have consumed the pool's counters. A pool with a ``fault`` has no candidates.
    """

    id: PoolId
    candidates: tuple[DeviceCandidate, ...] = ()
    elsewhere: tuple[DeviceCandidate, ...] = ()
    counters: Mapping[str, Mapping[str, Quantity]] = field(default_factory=dict)
    incomplete: bool = False
    fault: str = ""

    @property
    def label(self) -> str:
        """``driver/pool``, as messages name it."""
        return "/".join(self.id)

    @property
    def binds_late(self) -> bool:
        """Whether any device waits for conditions after allocation; such pools come last."""
        return any(c.device.binding_conditions for c in self.candidates)


def gather(
    slices: Iterable[SliceFacts],
    pools: Mapping[PoolId, Sequence[SliceFacts]],
    node: Node,
    features: Features,
) -> tuple[Pool, ...]:
    """Build the node's pools in the order they are searched.

    ``slices`` are those that may concern the node, ``pools`` all slices of every pool.
    """
    found: dict[PoolId, list[SliceFacts]] = {}
    for facts in slices:
        if not features.partitionable_devices and _partitioned(facts):
            continue
        if facts.relevant(node):
            _keep_newest(found.setdefault(facts.pool, []), facts)
    built = [
        pool
        for pool_id, newest in found.items()
        if (pool := _build(pool_id, newest, pools.get(pool_id, newest), features)) is not None
    ]
    return tuple(sorted(built, key=lambda pool: (pool.binds_late, pool.id)))


def _partitioned(facts: SliceFacts) -> bool:
    return bool(facts.counters) or facts.slice.spec.per_device_node_selection is not None


def _keep_newest(kept: list[SliceFacts], facts: SliceFacts) -> None:
    if kept and facts.generation < kept[0].generation:
        return
    if kept and facts.generation > kept[0].generation:
        kept.clear()
    kept.append(facts)


def _build(
    pool_id: PoolId, here: list[SliceFacts], everywhere: Sequence[SliceFacts], features: Features
) -> Pool | None:
    """Make a pool of its relevant slices; None when a newer generation is on its way."""
    wanted = here[0].slice.spec.pool.resource_slice_count
    generation = here[0].generation
    names = {facts.name for facts in here}
    others: list[SliceFacts] = []
    if len(here) != wanted:
        if any(facts.generation > generation for facts in everywhere):
            return None
        same = [facts for facts in everywhere if facts.generation == generation]
        if len(same) != wanted:
            return Pool(pool_id, incomplete=True)
        others = [facts for facts in same if facts.name not in names]
    here.sort(key=lambda facts: facts.name)
    return _checked(pool_id, here, others, features)


def _checked(
    pool_id: PoolId, here: list[SliceFacts], others: list[SliceFacts], features: Features
) -> Pool:
    candidates = tuple(c for facts in here for c in facts.candidates)
    elsewhere = tuple(c for facts in others for c in facts.candidates)
    counters: dict[str, Mapping[str, Quantity]] = {}
    fault = _duplicate([c.device.name for c in candidates], "device")
    if features.partitionable_devices and not fault:
        sets = [entry for facts in here for entry in facts.counters]
        counters = dict(sets)
        fault = _duplicate([name for name, _ in sets], "counter set")
        fault = fault or _dangling(counters, (*candidates, *elsewhere))
    if fault:
        return Pool(pool_id, fault=fault)
    return Pool(pool_id, candidates, elsewhere, counters)


def _duplicate(names: list[str], what: str) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"duplicate {what} name {name}"
        seen.add(name)
    return ""


def _dangling(
    counters: Mapping[str, Mapping[str, Quantity]], candidates: Iterable[DeviceCandidate]
) -> str:
    """Name a counter that a device consumes and the pool does not have."""
    for candidate in candidates:
        for set_name, amounts in candidate.consumes.items():
            if set_name not in counters:
                return f"counter set {set_name} not found"
            for name in amounts:
                if name not in counters[set_name]:
                    return f"counter {name} not found in counter set {set_name}"
    return ""
