"""Choose devices of a node for a pod; GPUs by partitions, by topology, or any."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from holdfast.state.device_share.allocations import AllocationsByType, SharedDeviceAllocation
from holdfast.state.device_share.candidates import (
    UNRESTRICTED,
    CandidateDevices,
    DeviceRejection,
    Restriction,
    find_candidates,
)
from holdfast.state.device_share.node_devices import (
    NO_TOPOLOGY,
    NodeDevice,
    NodeDeviceInventory,
    NodeDeviceState,
)
from holdfast.state.device_share.partitions import Partition, PartitionTable, choose_partition
from holdfast.state.device_share.pod_devices import SCOPES, PartitionSpec, RequestedDevices
from holdfast.state.device_share.requests import CORE, MEMORY, RATIO, DeviceAmounts
from holdfast.state.device_share.scoring import Preference, ScoringStrategy, best_first

VIOLATION = "node(s) Device Joint-Allocate rules violation"
NO_ISOLATION_PROVIDER = "GPUIsolationProviderHAMICore not found on the node"

Chosen = dict[str, list[int]]


def node_rejection(
    inventory: NodeDeviceInventory,
    asked: RequestedDevices,
    unsupported_models: Set[tuple[str, str]] = frozenset(),
) -> DeviceRejection | None:
    """Return why the node cannot share its GPUs with the pod, None if it can.

    ``unsupported_models`` are (vendor, model) of GPUs that cannot be shared.
    """
    if asked.gpus is None or not asked.gpus.shared:
        return None
    if asked.isolation_provider not in ("", inventory.isolation_provider):
        return DeviceRejection((NO_ISOLATION_PROVIDER,), unresolvable=True)
    vendor, model = inventory.vendor, inventory.model
    if (vendor, model) in unsupported_models:
        text = f'model "{model}" of vendor "{vendor}" does not support GPU Share'
        return DeviceRejection((text,), unresolvable=True)
    return None


def choose_devices(
    state: NodeDeviceState,
    asked: RequestedDevices,
    restriction: Restriction = UNRESTRICTED,
    strategy: ScoringStrategy | None = None,
) -> AllocationsByType | DeviceRejection:
    """Return the devices for a pod by type, or why there are none.

    Preferred devices alone are tried first, then with others.
    """
    if restriction.preferred:
        kinds = {kind for kind, _ in restriction.preferred}
        others = (
            (kind, device.minor)
            for kind, devices in state.inventory.devices.items()
            if kind not in kinds
            for device in devices
        )
        only = restriction.preferred.union(others)
        if restriction.allowed is not None:
            only &= restriction.allowed
        allocations = _choose(state, asked, replace(restriction, allowed=only), strategy)
        if not isinstance(allocations, DeviceRejection):
            return allocations
    return _choose(state, asked, restriction, strategy)


def _choose(
    state: NodeDeviceState,
    asked: RequestedDevices,
    restriction: Restriction,
    strategy: ScoringStrategy | None,
) -> AllocationsByType | DeviceRejection:
    by_type: dict[str, CandidateDevices] = {}
    for request in asked.requests:
        candidates = find_candidates(state, asked, request, restriction)
        if isinstance(candidates, DeviceRejection):
            return candidates
        by_type[request.type] = candidates
    preference = Preference(restriction.preferred, strategy)
    joint = asked.joint if len(by_type) > 1 else ()
    if asked.same_pcie and len(joint) > 1:
        chosen = _choose_all(state, asked, _on_common_pcies(by_type, joint), joint, preference)
        if not isinstance(chosen, DeviceRejection):
            return _allocations(by_type, chosen)
    result = _choose_all(state, asked, by_type, joint, preference)
    return result if isinstance(result, DeviceRejection) else _allocations(by_type, result)


def _choose_all(
    state: NodeDeviceState,
    asked: RequestedDevices,
    by_type: Mapping[str, CandidateDevices],
    joint: tuple[str, ...],
    common: Preference,
) -> Chosen | DeviceRejection:
    """Choose devices type by type: of those to allocate jointly, the first type decides."""
    chosen: Chosen = {}
    for kind in (*joint, *(kind for kind in by_type if kind not in joint)):
        preference = common
        least = by_type[kind].count
        if kind in joint[1:]:
            preference = replace(common, pcies=frozenset(by_type[joint[0]].pcies(chosen[joint[0]])))
            if asked.same_pcie:
                least = max(least, len(preference.pcies))
        minors = _choose_type(state, asked, by_type[kind], least, preference)
        if isinstance(minors, DeviceRejection):
            return minors
        chosen[kind] = minors
    if asked.same_pcie and joint:
        switches = by_type[joint[0]].pcies(chosen[joint[0]])
        if any(by_type[kind].pcies(chosen[kind]) != switches for kind in joint[1:]):
            return DeviceRejection((VIOLATION,))
    return chosen


def _choose_type(
    state: NodeDeviceState,
    asked: RequestedDevices,
    candidates: CandidateDevices,
    least: int,
    preference: Preference,
) -> list[int] | DeviceRejection:
    if candidates.kind == "gpu":
        return choose_gpus(state.inventory, asked, candidates, preference)
    minors = best_first(candidates, preference)[: max(least, len(preference.pcies))]
    if len(minors) < least:
        return DeviceRejection((f"Insufficient {candidates.kind} devices",))
    return minors


def _on_common_pcies(
    by_type: Mapping[str, CandidateDevices], joint: tuple[str, ...]
) -> dict[str, CandidateDevices]:
    """Keep only devices to be allocated jointly whose PCIe switch serves all of their types."""
    switches = [by_type[kind].pcies(list(by_type[kind].devices)) for kind in joint]
    common = set.intersection(*switches)
    kept = dict(by_type)
    for kind in joint:
        devices = {
            minor: device
            for minor, device in by_type[kind].devices.items()
            if device.pcie in common
        }
        kept[kind] = replace(by_type[kind], devices=devices)
    return kept


def _allocations(by_type: Mapping[str, CandidateDevices], chosen: Chosen) -> AllocationsByType:
    allocations = {}
    for kind in sorted(chosen):
        candidates = by_type[kind]
        listed = []
        for minor in sorted(chosen[kind]):
            amounts = candidates.amounts
            if kind == "gpu":
                amounts = with_memory(amounts, candidates.devices[minor])
            function = candidates.vfs.get(minor)
            listed.append(SharedDeviceAllocation(minor, amounts, (function,) if function else ()))
        allocations[kind] = tuple(listed)
    return allocations


def with_memory(amounts: DeviceAmounts, gpu: NodeDevice) -> DeviceAmounts:
    """Complete the memory of a GPU: bytes from the ratio, or the ratio from bytes, rounded down."""
    core, memory, ratio = amounts[CORE], amounts[MEMORY], amounts[RATIO]
    total = gpu.total[MEMORY]
    if not memory:
        memory = ratio * total // 100
    elif not ratio and total:
        ratio = memory * 100 // total
    return core, memory, ratio


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
    inventory: NodeDeviceInventory,
    asked: RequestedDevices,
    candidates: CandidateDevices,
    preference: Preference,
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
    candidates: CandidateDevices,
    preference: Preference,
) -> list[int] | DeviceRejection:
    if table is None:
        return DeviceRejection(("node(s) missing GPU Partition Table",), unresolvable=True)
    partitions = table.find(candidates.count)
    if not partitions:
        return DeviceRejection(("node(s) Unsupported number of GPU requests",), unresolvable=True)
    unused = candidates.devices.keys() - candidates.used
    usable_partitions: list[Partition] = []
    for partition in partitions:
        if (spec is not None and spec.restricted) and partition.score < partitions[0].score:
            break
        if usable_partitions and partition.score < usable_partitions[0].score:
            break
        enough = spec is None or not spec.bandwidth or (partition.bandwidth or 0) >= spec.bandwidth
        if enough and partition.minors <= unused:
            usable_partitions.append(partition)
    if not usable_partitions:
        return DeviceRejection(("Insufficient Partitioned GPU Devices",))
    preferred = [minor for kind, minor in preference.devices if kind == "gpu"]
    best = choose_partition(usable_partitions, table, candidates.count, candidates.used, preferred)
    return sorted(best.minors)


@lru_cache(maxsize=1024)
def gpu_scopes(inventory: NodeDeviceInventory) -> tuple[_Scope, ...]:
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
    candidates: CandidateDevices,
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
