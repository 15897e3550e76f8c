"""GPU partitions: sets of GPUs with fast links between them, from which whole GPUs are chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from holdfast.api import koordinator_names as names
from holdfast.api.meta import Struct
from holdfast.api.quantity import AmountText, units
from holdfast.api.shared_device import SharedDevices
from holdfast.runtime.errors import BadRequest

_HONOR = "Honor"
_HOPPER = frozenset(("H100", "H800", "H20"))
_ROOM_LEFT = {8: 10_000, 4: 100, 2: 1}
"""The value of leaving a partition of this size unused."""


@dataclass(frozen=True, slots=True)
class Partition:
    """GPUs that are allocated together; ``bandwidth`` of the ring bus in bytes, None if unknown."""

    minors: frozenset[int]
    score: int = 1
    bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """Partitions by number of GPUs; those with the highest score first."""

    of_size: tuple[tuple[int, tuple[Partition, ...]], ...]

    def find(self, size: int) -> tuple[Partition, ...]:
        """Return the partitions of this size, none if the size is not supported."""
        return next((listed for count, listed in self.of_size if count == size), ())


class _Written(Struct, frozen=True):
    minors: tuple[int, ...] = ()
    ring_bus_bandwidth: AmountText | None = None
    allocation_score: int = 0


def partition_table(
    device: SharedDevices, node_labels: Mapping[str, str]
) -> tuple[PartitionTable | None, bool]:
    """Return the partitions of a node, and whether whole GPUs must be one of them.

    The annotation of the Device comes first; an unreadable one counts as absent. GPUs of some
    models have built-in partitions.
    """
    if table := _read(device.metadata.annotations.get(names.GPU_PARTITIONS, "")):
        return table, device.metadata.labels.get(names.GPU_PARTITION_POLICY) == _HONOR
    vendor = node_labels.get(names.GPU_VENDOR) or "nvidia"
    known = vendor == "nvidia" and node_labels.get(names.GPU_MODEL) in _HOPPER
    honors = node_labels.get(names.GPU_PARTITION_POLICY) == _HONOR
    return (HOPPER if known else None), honors


def choose_partition(
    candidates: Collection[Partition],
    table: PartitionTable,
    size: int,
    used: Collection[int],
    preferred: Collection[int],
) -> Partition:
    """Return the candidate with the most preferred GPUs that leaves the largest partitions."""
    larger = []
    for count, worth in _ROOM_LEFT.items():
        if count >= size and (listed := table.find(count)):
            best = listed[0].score
            larger += [(one.minors, worth * best) for one in listed if one.score == best]

    def rank(candidate: Partition) -> tuple[int, int]:
        taken = candidate.minors.union(used)
        left = sum(worth for minors, worth in larger if taken.isdisjoint(minors))
        return len(candidate.minors.intersection(preferred)), left

    return max(candidates, key=rank)


def _read(text: str) -> PartitionTable | None:
    if not text:
        return None
    try:
        written = msgspec.json.decode(text, type=dict[int, tuple[_Written, ...]])
        return _table(
            {size: [_partition(one) for one in listed] for size, listed in written.items()}
        )
    except (msgspec.DecodeError, RecursionError, BadRequest):
        return None


def _partition(written: _Written) -> Partition:
    bandwidth = written.ring_bus_bandwidth
    return Partition(
        frozenset(written.minors),
        written.allocation_score,
        None if bandwidth is None else units(bandwidth),
    )


def _table(of_size: Mapping[int, list[Partition]]) -> PartitionTable:
    return PartitionTable(
        tuple(
            (size, tuple(sorted(of_size[size], key=lambda one: -one.score)))
            for size in sorted(of_size)
        )
    )


HOPPER = _table(
    {
        size: [Partition(frozenset(range(first, first + size))) for first in range(0, 8, size)]
        for size in (1, 2, 4, 8)
    }
)
"""Eight GPUs: singles, pairs, quads, or all of them."""
