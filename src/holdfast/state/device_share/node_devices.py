"""The devices of a node: what each of them has, what is used of it and what is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.api import koordinator_names as names
from holdfast.api.quantity import MAX_INT64, units
from holdfast.api.shared_device import DeviceInfo, SharedDevices, VirtualFunction
from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.allocations import UNUSED, DeviceUse
from holdfast.state.device_share.partitions import PartitionTable, partition_table
from holdfast.state.device_share.requests import MEMORY, RATIO, RESOURCES, DeviceAmounts
from holdfast.state.numa.topology import MAX_NUMA_NODES

LabelPairs = tuple[tuple[str, str], ...]
NO_TOPOLOGY = -1
"""The PCIe of a device without topology."""
ANY_NUMA_NODE = -1
"""The NUMA nodes of a device whose NUMA node is unknown: a mask with every bit set."""


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """One device as the Device object describes it, without its id, which differs by node.

    ``total`` is zero for an unhealthy device. ``numa_nodes`` is a bit mask: 0 without topology.
    ``pcie`` is the rank of its PCIe id among those of the node.
    """

    minor: int
    total: DeviceAmounts
    numa_nodes: int = 0
    pcie: int = NO_TOPOLOGY
    labels: LabelPairs = ()
    vf_groups: tuple[tuple[LabelPairs, tuple[VirtualFunction, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDeviceInventory:
    """All devices of a node, and the labels that decide whether and how they can be used.

    Nodes of the same hardware have equal inventories.
    """

    devices: Mapping[str, tuple[NodeDevice, ...]] = field(default_factory=dict)
    partitions: PartitionTable | None = None
    honors_partitions: bool = False
    vendor: str = ""
    model: str = ""
    isolation_provider: str = ""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = (*self.devices.items(), self.partitions, self.vendor, self.model)
        object.__setattr__(self, "_hash", hash(values))

    def __hash__(self) -> int:
        return self._hash

    @property
    def tells_numa_nodes(self) -> bool:
        """Whether the NUMA node of any device is known."""
        return any(one.numa_nodes > 0 for devices in self.devices.values() for one in devices)

    def totals(self) -> dict[str, int]:
        """Return the sums over all healthy devices by resource name.

        For GPUs also ``koordinator.sh/gpu``, and ``gpu.shared``: a hundred shares of each.
        """
        total: dict[str, int] = {}
        for kind, devices in self.devices.items():
            for device in devices:
                for name, amount in zip(RESOURCES[kind], device.total, strict=True):
                    total[name] = total.get(name, 0) + amount
        if names.GPU_CORE in total:
            total[names.GPU] = total[names.GPU_CORE]
            healthy = sum(any(gpu.total) for gpu in self.devices["gpu"])
            total[names.GPU_SHARED] = 100 * healthy
        return total

    def by_device(self) -> dict[tuple[str, int], DeviceAmounts]:
        """Return what each healthy device has, by type and minor."""
        return {
            (kind, device.minor): device.total
            for kind, devices in self.devices.items()
            for device in devices
            if any(device.total)
        }


NO_DEVICES = NodeDeviceInventory()


@dataclass(frozen=True, slots=True)
class NodeDeviceState:
    """The devices of a node and what is used of them; equal states have equal choices."""

    inventory: NodeDeviceInventory = NO_DEVICES
    used: DeviceUse = UNUSED

    def free(self, kind: str) -> dict[int, DeviceAmounts]:
        """Return what is free by minor, nothing below zero."""
        free = {device.minor: device.total for device in self.inventory.devices.get(kind, ())}
        for used_kind, minor, used in self.used.amounts:
            if used_kind == kind and minor in free:
                free[minor] = free_amounts(kind, free[minor], used)
        return free


def free_amounts(kind: str, total: DeviceAmounts, used: DeviceAmounts) -> DeviceAmounts:
    """Return what is left of a device.

    The memory ratio of a GPU is also reduced by the bytes in use: many small requests in bytes,
    each rounded down to 0 %, do not leave 100 % for others.
    """
    free = [max(a - b, 0) for a, b in zip(total, used, strict=True)]
    if kind == "gpu" and total[MEMORY]:
        percent = total[RATIO] - used[MEMORY] * 100 // total[MEMORY]
        free[RATIO] = max(0, min(free[RATIO], percent))
    return tuple(free)


def inventory_of(device: SharedDevices, node_labels: Mapping[str, str]) -> NodeDeviceInventory:
    """Return the inventory of a node from its Device and the labels of the Node.

    Devices of unknown types are left out; if two have the same type and minor, the last one counts.
    """
    ranks = _pcie_ranks(device.spec.devices)
    by_type: dict[str, dict[int, NodeDevice]] = {}
    for info in device.spec.devices:
        if info.type in RESOURCES:
            by_type.setdefault(info.type, {})[info.minor] = _node_device(info, ranks)
    partitions, honors = partition_table(device, node_labels)
    return NodeDeviceInventory(
        {
            kind: tuple(by_type[kind][minor] for minor in sorted(by_type[kind]))
            for kind in sorted(by_type)
        },
        partitions,
        honors,
        node_labels.get(names.GPU_VENDOR, ""),
        node_labels.get(names.GPU_MODEL, ""),
        node_labels.get(names.GPU_ISOLATION_PROVIDER, ""),
    )


def device_ids(device: SharedDevices) -> dict[tuple[str, int], str]:
    """Return the ids of the devices by type and minor, for the annotation of pods."""
    return {(info.type, info.minor): info.id for info in device.spec.devices if info.id}


def _pcie_ranks(devices: Iterable[DeviceInfo]) -> dict[str, int]:
    ids = sorted({info.topology.pcie_id for info in devices if info.topology is not None})
    return {pcie: rank for rank, pcie in enumerate(ids)}


def _node_device(info: DeviceInfo, ranks: Mapping[str, int]) -> NodeDevice:
    total = tuple([_amount(info, name) if info.health else 0 for name in RESOURCES[info.type]])
    where = info.topology
    numa = 0
    if where is not None:
        numa = ANY_NUMA_NODE if not 0 <= where.node_id < MAX_NUMA_NODES else 1 << where.node_id
    return NodeDevice(
        info.minor,
        total,
        numa,
        NO_TOPOLOGY if where is None else ranks[where.pcie_id],
        _pairs(info.labels),
        tuple((_pairs(group.labels), group.vfs) for group in info.vf_groups),
    )


def _amount(info: DeviceInfo, name: str) -> int:
    try:
        return min(max(units(info.resources.get(name, 0)), 0), MAX_INT64)
    except BadRequest:
        return 0


def _pairs(labels: Mapping[str, str]) -> LabelPairs:
    return tuple(sorted(labels.items()))
