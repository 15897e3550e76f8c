"""NUMA hints of shared devices: the sets of NUMA nodes whose devices could serve a pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.device_share.allocations import Allocations
from holdfast.device_share.candidates import DeviceRejection
from holdfast.device_share.node_devices import Inventory
from holdfast.device_share.pod_devices import PodDevices
from holdfast.numa.hints import Hint, numa_masks
from holdfast.numa.policies import RESTRICTED

SAME_GPUS = 500
"""The score of NUMA nodes with the GPUs that the whole node would give: more than CPUs can have."""
INSUFFICIENT = "Insufficient NUMA Scoped Devices"


def device_hints(
    inventory: Inventory,
    asked: PodDevices,
    numa_nodes: Sequence[int],
    policy: str,
    choose: Callable[[int], Allocations | DeviceRejection],
) -> dict[str, list[Hint]] | DeviceRejection:
    """Return hints by type of device, or why no set of NUMA nodes serves the pod.

    ``choose`` tries to choose devices of the NUMA nodes of a mask, for example from a reservation
    first. Nodes that do not tell the NUMA nodes of their devices have no preference.
    """
    places = [device.numa_nodes for devices in inventory.devices.values() for device in devices]
    if not any(place > 0 for place in places):
        return {}
    found: list[tuple[int, Allocations]] = []
    whole: Allocations | DeviceRejection = DeviceRejection((INSUFFICIENT,), unresolvable=True)
    for mask in numa_masks(numa_nodes):
        whole = DeviceRejection((INSUFFICIENT,), unresolvable=True)
        if _enough_devices(inventory, asked, mask):
            whole = choose(mask)
        if not isinstance(whole, DeviceRejection):
            found.append((mask, whole))
    if isinstance(whole, DeviceRejection):
        return whole
    fewest = min(mask.bit_count() for mask, _ in found)
    same = _gpus(whole)
    hints = [
        Hint(
            mask,
            preferred=policy == RESTRICTED or mask.bit_count() == fewest,
            score=SAME_GPUS if _gpus(allocations) == same else 0,
        )
        for mask, allocations in found
    ]
    return {request.type: hints for request in asked.requests}


def _enough_devices(inventory: Inventory, asked: PodDevices, mask: int) -> bool:
    """Return whether the NUMA nodes have enough devices at all, whatever is used of them."""
    for request in asked.requests:
        devices = inventory.devices.get(request.type, ())
        if sum(device.numa_nodes & mask != 0 for device in devices) < request.count:
            return False
    return True


def _gpus(allocations: Allocations) -> frozenset[int]:
    return frozenset(one.minor for one in allocations.get("gpu", ()))
