"""Choose devices of a node for a pod."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from holdfast.device_share.allocations import Allocations, DeviceAllocation
from holdfast.device_share.candidates import (
    UNRESTRICTED,
    Candidates,
    DeviceRejection,
    Restriction,
    find_candidates,
)
from holdfast.device_share.gpu_choosing import choose_gpus
from holdfast.device_share.node_devices import Inventory, NodeDevice, NodeDevices
from holdfast.device_share.pod_devices import PodDevices
from holdfast.device_share.preference import Preference, best_first
from holdfast.device_share.requests import CORE, MEMORY, RATIO, Amounts
from holdfast.device_share.scoring import ScoringStrategy

VIOLATION = "node(s) Device Joint-Allocate rules violation"
NO_ISOLATION_PROVIDER = "GPUIsolationProviderHAMICore not found on the node"

Chosen = dict[str, list[int]]


def node_rejection(
    inventory: Inventory, asked: PodDevices, unsupported_models: Set[tuple[str, str]] = frozenset()
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
    state: NodeDevices,
    asked: PodDevices,
    restriction: Restriction = UNRESTRICTED,
    strategy: ScoringStrategy | None = None,
) -> Allocations | DeviceRejection:
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
        found = _choose(state, asked, replace(restriction, allowed=only), strategy)
        if not isinstance(found, DeviceRejection):
            return found
    return _choose(state, asked, restriction, strategy)


def _choose(
    state: NodeDevices,
    asked: PodDevices,
    restriction: Restriction,
    strategy: ScoringStrategy | None,
) -> Allocations | DeviceRejection:
    found: dict[str, Candidates] = {}
    for request in asked.requests:
        candidates = find_candidates(state, asked, request, restriction)
        if isinstance(candidates, DeviceRejection):
            return candidates
        found[request.type] = candidates
    preference = Preference(restriction.preferred, strategy)
    joint = asked.joint if len(found) > 1 else ()
    if asked.same_pcie and len(joint) > 1:
        chosen = _choose_all(state, asked, _on_common_pcies(found, joint), joint, preference)
        if not isinstance(chosen, DeviceRejection):
            return _allocations(found, chosen)
    result = _choose_all(state, asked, found, joint, preference)
    return result if isinstance(result, DeviceRejection) else _allocations(found, result)


def _choose_all(
    state: NodeDevices,
    asked: PodDevices,
    found: Mapping[str, Candidates],
    joint: tuple[str, ...],
    common: Preference,
) -> Chosen | DeviceRejection:
    """Choose devices type by type: of those to allocate jointly, the first type decides."""
    chosen: Chosen = {}
    for kind in (*joint, *(kind for kind in found if kind not in joint)):
        preference = common
        least = found[kind].count
        if kind in joint[1:]:
            preference = replace(common, pcies=frozenset(found[joint[0]].pcies(chosen[joint[0]])))
            if asked.same_pcie:
                least = max(least, len(preference.pcies))
        minors = _choose_type(state, asked, found[kind], least, preference)
        if isinstance(minors, DeviceRejection):
            return minors
        chosen[kind] = minors
    if asked.same_pcie and joint:
        switches = found[joint[0]].pcies(chosen[joint[0]])
        if any(found[kind].pcies(chosen[kind]) != switches for kind in joint[1:]):
            return DeviceRejection((VIOLATION,))
    return chosen


def _choose_type(
    state: NodeDevices,
    asked: PodDevices,
    candidates: Candidates,
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
    found: Mapping[str, Candidates], joint: tuple[str, ...]
) -> dict[str, Candidates]:
    """Keep only devices to be allocated jointly whose PCIe switch serves all of their types."""
    switches = [found[kind].pcies(list(found[kind].devices)) for kind in joint]
    common = set.intersection(*switches)
    kept = dict(found)
    for kind in joint:
        devices = {
            minor: device for minor, device in found[kind].devices.items() if device.pcie in common
        }
        kept[kind] = replace(found[kind], devices=devices)
    return kept


def _allocations(found: Mapping[str, Candidates], chosen: Chosen) -> Allocations:
    allocations = {}
    for kind in sorted(chosen):
        candidates = found[kind]
        listed = []
        for minor in sorted(chosen[kind]):
            amounts = candidates.amounts
            if kind == "gpu":
                amounts = with_memory(amounts, candidates.devices[minor])
            function = candidates.vfs.get(minor)
            listed.append(DeviceAllocation(minor, amounts, (function,) if function else ()))
        allocations[kind] = tuple(listed)
    return allocations


def with_memory(amounts: Amounts, gpu: NodeDevice) -> Amounts:
    """Complete the memory of a GPU: bytes from the ratio, or the ratio from bytes, rounded down."""
    core, memory, ratio = amounts[CORE], amounts[MEMORY], amounts[RATIO]
    total = gpu.total[MEMORY]
    if not memory:
        memory = ratio * total // 100
    elif not ratio and total:
        ratio = memory * 100 // total
    return core, memory, ratio
