"""Choose GPUs: by partitions, by topology, or any."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from holdfast.device_share.candidates import Candidates, DeviceRejection
from holdfast.device_share.node_devices import NO_TOPOLOGY, Inventory
from holdfast.device_share.partitions import Partition, PartitionTable, choose_partition
from holdfast.device_share.pod_devices import SCOPES, PartitionSpec, PodDevices
from holdfast.device_share.preference import Preference, best_first

_NODE, _NUMA_NODE, _PCIE, _DEVICE = (
    SCOPES[name] for name in ("Node", "NUMANode", "PCIe", "Device")
)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The GPUs of the node, of a NUMA node or of a PCIe switch, and of the scopes around it."""

    level: int
    minors: frozenset[int]
    around: tuple[frozenset[int], ...] = ()


def choose_gpus(
    inventory: Inventory, asked: PodDevices, candidates: Candidates, preference: Preference
) -> list[int] | DeviceRejection:
    """Return the minors of the GPUs to take, or why there are none."""
    request = asked.gpus
    assert request is not None
    if not request.shared and (
        inventory.partitions or asked.partition or inventory.honors_partitions
    ):
        minors = _choose_partition(inventory.partitions, asked.partition, candidates, preference)
        must = asked.partition is not None or inventory.honors_partitions
        if must or not isinstance(minors, DeviceRejection):
            return minors
    required = SCOPES[asked.hint("gpu").required_scope]
    scopes = gpu_scopes(inventory)
    several_shares = request.shared and candidates.count > 1
    if scopes and not several_shares:
        return _choose_scope(scopes, required, request.shared, candidates, preference)
    if required:
        text = "Unsupported Multi-Shared GPU" if scopes else "missing GPU Device Topology Tree"
        return DeviceRejection((f"node(s) {text}",), unresolvable=True)
    minors = best_first(candidates, preference)[: candidates.count]
    if len(minors) < candidates.count:
        return DeviceRejection(("Insufficient gpu devices",))
    return minors


def _choose_partition(
    table: PartitionTable | None,
    spec: PartitionSpec | None,
    candidates: Candidates,
    preference: Preference,
) -> list[int] | DeviceRejection:
    if table is None:
        return DeviceRejection(("node(s) missing GPU Partition Table",), unresolvable=True)
    partitions = table.find(candidates.count)
    if not partitions:
        return DeviceRejection(("node(s) Unsupported number of GPU requests",), unresolvable=True)
    unused = candidates.devices.keys() - candidates.used
    found: list[Partition] = []
    for partition in partitions:
        if (spec is not None and spec.restricted) and partition.score < partitions[0].score:
            break
        if found and partition.score < found[0].score:
            break
        enough = spec is None or not spec.bandwidth or (partition.bandwidth or 0) >= spec.bandwidth
        if enough and partition.minors <= unused:
            found.append(partition)
    if not found:
        return DeviceRejection(("Insufficient Partitioned GPU Devices",))
    preferred = [minor for kind, minor in preference.devices if kind == "gpu"]
    best = choose_partition(found, table, candidates.count, candidates.used, preferred)
    return sorted(best.minors)


@lru_cache(maxsize=1024)
def gpu_scopes(inventory: Inventory) -> tuple[_Scope, ...]:
    """Return the scopes of the GPUs in order of NUMA nodes and PCIe switches, the node last.

    Empty if a GPU has no topology.
    """
    gpus = inventory.devices.get("gpu", ())
    if not gpus or any(gpu.pcie == NO_TOPOLOGY for gpu in gpus):
        return ()
    node = frozenset(gpu.minor for gpu in gpus)
    scopes = []
    for numa_nodes in sorted({gpu.numa_nodes for gpu in gpus}):
        near = [gpu for gpu in gpus if gpu.numa_nodes == numa_nodes]
        numa = frozenset(gpu.minor for gpu in near)
        for pcie in sorted({gpu.pcie for gpu in near}):
            switch = frozenset(gpu.minor for gpu in near if gpu.pcie == pcie)
            scopes.append(_Scope(_PCIE, switch, (node, numa)))
        scopes.append(_Scope(_NUMA_NODE, numa, (node,)))
    return (*scopes, _Scope(_NODE, node))


def _choose_scope(
    scopes: tuple[_Scope, ...],
    required: int,
    shared: bool,
    candidates: Candidates,
    preference: Preference,
) -> list[int] | DeviceRejection:
    """Choose the smallest scope that fits, among equals one that is partly used already."""
    if required == _DEVICE and candidates.count == 1:
        required = _PCIE
    best: tuple[tuple[int, int, int, int, int], list[int]] | None = None
    order = best_first(
        candidates, preference if shared else Preference(preference.devices, None, preference.pcies)
    )
    for scope in scopes:
        if scope.level < required or len(scope.minors) < candidates.count:
            continue
        minors = [minor for minor in order if minor in scope.minors][: candidates.count]
        if len(minors) < candidates.count:
            continue
        rank = (
            sum(("gpu", minor) in preference.devices for minor in minors)
            if preference.devices
            else 0,
            sum(candidates.devices[minor].pcie in preference.pcies for minor in minors),
            scope.level,
            sum(not one.isdisjoint(candidates.used) for one in (*scope.around, scope.minors)),
            preference.score(candidates, minors[0]) if shared else 0,
        )
        if best is None or rank > best[0]:
            best = rank, minors
    if best is not None:
        return best[1]
    text = "Insufficient Topology Scoped GPU Devices" if required else "Insufficient GPU Devices"
    return DeviceRejection((text,))
