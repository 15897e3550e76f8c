"""What serves an extended resource on which nodes, and how much of it can be had, as JSON data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import (
    MAX_DEVICES,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from holdfast.devices.errors import AllocationError
from holdfast.devices.search_results import FITS
from holdfast.framework.plugin import Rows
from holdfast.plugins.dynamic_resources.device_search import DeviceSearch

Json = dict[str, Any]


def explain_resource(devices: DeviceSearch, name: str) -> Json:
    """Return what serves an extended resource on which nodes, and how much of it is free."""
    inventory, nodes = devices.inventory, devices.nodes
    device_class = inventory.device_class_for(name)
    assert device_class is not None, "a class serves the resource"
    counts = inventory.allocation_cache.counts(inventory.classes.by_name[device_class]).refreshed()
    served: dict[str, list[Json]] = {"devicePlugin": [], "devices": []}
    resource, rows = nodes.resources.id(name), nodes.rows
    by_plugin = np.array([devices.has_allocatable(name, row) for row in rows.tolist()], np.bool_)
    by_devices = rows[~by_plugin & (counts.total[rows] > 0)]
    for row in rows[by_plugin].tolist():
        total, used = (int(a[resource, row]) for a in (nodes.allocatable, nodes.requested))
        served["devicePlugin"].append(_amount(nodes.names[row], total, total - used))
    free = _allocatable_devices(devices, device_class, by_devices)
    unused = (counts.total - counts.allocated)[by_devices]
    # A claim cannot ask for more.
    free = np.where(free == MAX_DEVICES, np.maximum(free, unused), free)
    for row, count in zip(by_devices.tolist(), free.tolist(), strict=True):
        served["devices"].append(_amount(nodes.names[row], int(counts.total[row]), count))
    return {"name": name, "deviceClass": device_class, **served}


def _allocatable_devices(devices: DeviceSearch, device_class: str, rows: Rows) -> NDArray[np.int64]:
    """Return per row how many devices one claim could get now: not those with a taint, say."""
    inventory = devices.inventory
    found, left = np.zeros(len(rows), np.int64), np.arange(len(rows))
    for count in range(1, MAX_DEVICES + 1):
        request = ExactRequest(device_class_name=device_class, count=count)
        asked = DeviceClaim(requests=(DeviceRequest(name="request", exactly=request),))
        claim = ResourceClaim(spec=ResourceClaimSpec(devices=asked))
        try:
            allocator = inventory.allocator((claim,))
        except AllocationError:
            break
        results = inventory.allocation_cache.results(allocator, devices.limits.steps)
        left = left[results.codes(rows[left], all_rows=True) == FITS]
        found[left] = count
        if not len(left):
            break
    return found


def _amount(node: str, total: int, free: int) -> Json:
    return {"node": node, "total": total, "free": max(0, free)}
