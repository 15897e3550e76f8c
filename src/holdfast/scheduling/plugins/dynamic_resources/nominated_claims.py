"""Devices for pods that are nominated to a node: less important pods must leave them free."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.api.devices import ResourceClaim
from holdfast.scheduling.plugins.dynamic_resources.device_search import (
    PodClaimsSearch,
    device_backed_names,
)
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.claims import ClaimNotReady, claims_of_pod, in_flight_uid
from holdfast.state.devices.errors import AllocationError
from holdfast.state.devices.extended_resources import (
    create_requests_and_mappings,
    extended_resource_claim,
)
from holdfast.state.devices.search import result_of


def can_allocate_beside(
    devices: PodClaimsSearch,
    row: int,
    nominated: Iterable[PodInfo],
    allocated_devices: AllocatedDevices,
    on_pause: Callable[[], None] = lambda: None,
) -> bool:
    """Return whether a row has devices for the nominated pods and for the pod itself.

    A search that fails counts as none, like one that finds nothing. ``on_pause`` is called after
    each step of a long search, and may raise an exception to end it.
    """
    unallocated, node = devices.unallocated_on(row), devices.nodes.nodes[row]
    if node is None:
        return False
    if unallocated.allocator is None:
        return not unallocated.error
    others = _unallocated_claims(devices, row, nominated)
    for claim in unallocated.claims:
        others.pop(claim.uid, None)
    inventory, steps = devices.inventory, devices.limits.steps
    try:
        allocator = unallocated.allocator
        if others:
            allocator = inventory.allocator((*others.values(), *unallocated.claims))
        pools = inventory.pools_of(node)
        search = allocator.solve_in_steps(node, pools, allocated_devices, steps)
        return result_of(search, on_pause) is not None
    except AllocationError:
        return False


def _unallocated_claims(
    devices: PodClaimsSearch, row: int, pods: Iterable[PodInfo]
) -> dict[str, ResourceClaim]:
    """Return the claims that would be allocated if these pods were placed on a row, by uid."""
    inventory = devices.inventory
    by_uid: dict[str, ResourceClaim] = {}
    for pod in pods:
        try:
            claims = claims_of_pod(pod.pod, inventory.claims)
        except ClaimNotReady:
            continue
        for claim in claims:
            if claim.status.allocation is None and inventory.claims.in_flight(claim.uid) is None:
                by_uid[claim.uid] = claim
        names = [
            name
            for name in device_backed_names(pod, devices.nodes, inventory)
            if not devices.has_allocatable(name, row)
        ]
        requests = create_requests_and_mappings(pod.pod, names, inventory.device_class_for)
        if requests.requests:
            uid = in_flight_uid(pod.uid)
            by_uid[uid] = extended_resource_claim(pod.pod, uid, requests)
    return by_uid
