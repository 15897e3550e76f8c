"""Limit a recorded allocation of devices to what the pod's requests allow."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.api.koordinator_names import DEVICE_ALLOCATED
from holdfast.api.pod import Pod
from holdfast.runtime.errors import BadRequest
from holdfast.state.device_share.allocation_annotation import (
    allocations_text,
    read_allocations,
    read_device_ids,
)
from holdfast.state.device_share.allocations import (
    AllocationsByType,
    DeviceUse,
    SharedDeviceAllocation,
)
from holdfast.state.device_share.node_devices import NodeDeviceInventory
from holdfast.state.device_share.pod_devices import (
    APPLY_FOR_ALL,
    DEVICE_LEVEL,
    REQUESTS_AS_COUNT,
    RequestedDevices,
    pod_devices,
)
from holdfast.state.device_share.requests import (
    MEMORY,
    DeviceAmounts,
    SharedDeviceRequest,
    device_requests,
    gpu_amounts,
)

_ANY = 1 << 62


def possible_devices(text: str, pod: Pod, request: Mapping[str, int]) -> str:
    """Return the part of ``device-allocated`` that a pod can have; "" for nothing.

    ``request`` is in whole units by resource name. A malformed text is returned as it is.
    """
    annotations = {DEVICE_ALLOCATED: text}
    try:
        written = read_allocations(annotations)
    except BadRequest:
        return text
    possible = within_request(written, pod, request)
    if possible == written:
        return text
    return allocations_text(possible, read_device_ids(annotations)) if possible else ""


def within_request(
    written: AllocationsByType, pod: Pod, request: Mapping[str, int]
) -> AllocationsByType:
    """Return no more devices than the pod requests, with the lowest minors, and no more of each.

    What it does not request, like bytes if it requests percent of memory, depends on the device:
    see ``consistent_use``.
    """
    try:
        asked = pod_devices(pod, request)
    except BadRequest:
        # An annotation that guides the choice may have become malformed since.
        asked = _without_hints(request)
    limits = {} if asked is None else {one.type: _limit(asked, one) for one in asked.requests}
    by_type = {
        kind: _first(listed, *limits[kind]) for kind, listed in written.items() if kind in limits
    }
    return {kind: listed for kind, listed in by_type.items() if listed}


def consistent_use(use: DeviceUse, inventory: NodeDeviceInventory, *, by_bytes: bool) -> DeviceUse:
    """Return the use with bytes and percent of the memory of GPUs that agree.

    ``by_bytes``: the pod requests bytes, so these count; else the percent.
    """
    totals = {gpu.minor: gpu.total for gpu in inventory.devices.get("gpu", ())}
    changed = [
        (kind, minor, _agreeing(amounts, totals.get(minor, ()), by_bytes=by_bytes))
        if kind == "gpu"
        else (kind, minor, amounts)
        for kind, minor, amounts in use.amounts
    ]
    return use if tuple(changed) == use.amounts else DeviceUse(tuple(changed), use.vfs)


def _agreeing(amounts: DeviceAmounts, total: DeviceAmounts, *, by_bytes: bool) -> DeviceAmounts:
    if not total or not total[MEMORY]:
        return amounts
    core, memory, ratio = amounts
    if by_bytes:
        return core, memory, min(ratio, memory * 100 // total[MEMORY])
    return core, min(memory, ratio * total[MEMORY] // 100), ratio


def _without_hints(request: Mapping[str, int]) -> RequestedDevices:
    try:
        return RequestedDevices(device_requests(request))
    except BadRequest:
        # No pod is given devices for such a request here; another scheduler may have done so.
        core, memory, ratio = gpu_amounts(request)
        count = max(1, -(-max(core, ratio) // 100))
        amounts = tuple([-(-amount // count) for amount in (core, memory, ratio)])
        return RequestedDevices((SharedDeviceRequest("gpu", count, amounts),))


def _limit(asked: RequestedDevices, request: SharedDeviceRequest) -> tuple[int, DeviceAmounts]:
    """Return how many devices a pod can have, and how much of each."""
    most = request.amounts
    if request.type == "gpu":
        # Of memory one of bytes and percent is requested; the other one follows from it.
        core, memory, ratio = most
        return request.count, (core, memory or _ANY, ratio or _ANY)
    hint, count = asked.hint(request.type), request.count
    if count == 1 and hint.strategy == APPLY_FOR_ALL:
        count = _ANY
    elif count == 1 and hint.strategy == REQUESTS_AS_COUNT:
        count = most[0]
        most = (100 if hint.exclusive == DEVICE_LEVEL else 1,)
    if request.type in asked.joint and asked.same_pcie:
        count = max(count, *(one.count for one in asked.requests))
    return count, most


def _first(
    listed: tuple[SharedDeviceAllocation, ...], count: int, most: DeviceAmounts
) -> tuple[SharedDeviceAllocation, ...]:
    """Return the first devices of which the pod has something that it requests, one entry each."""
    by_minor: dict[int, SharedDeviceAllocation] = {}
    for one in listed:
        amounts = tuple(map(min, one.amounts, most))
        wanted = any(has for has, limit in zip(amounts, most, strict=True) if limit < _ANY)
        if wanted and one.minor not in by_minor and len(by_minor) < count:
            by_minor[one.minor] = SharedDeviceAllocation(one.minor, amounts, one.vfs[:1])
    return tuple(by_minor.values())
