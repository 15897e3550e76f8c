"""The map of devices as JSON data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from holdfast.cli.devices.choosing import Listing
from holdfast.devices.device_map import Holder, MappedDevice, MappedPool, RemainingAmount

Json = dict[str, Any]


def as_data(listing: Listing) -> Json:
    """Return the pools with their devices, and the problems."""
    pools = [_pool(pool, listing) for pool in listing.pools]
    return {"pools": pools, "problems": listing.problems}


def _pool(pool: MappedPool, listing: Listing) -> Json:
    states = Counter(device.state.value for device in pool.devices)
    return {
        "driver": pool.id[0],
        "pool": pool.id[1],
        "generation": pool.generation,
        "problem": pool.problem or None,
        "problemNodes": list(pool.problem_nodes),
        "states": dict(sorted(states.items())),
        "counters": [_amount(one) for one in pool.counters],
        "devices": [_device(device, listing) for device in pool.devices],
    }


def _device(device: MappedDevice, listing: Listing) -> Json:
    published = device.candidate.device
    return {
        "device": published.name,
        "nodes": device.nodes,
        "state": device.state.value,
        "canBeAllocated": device.can_be_allocated,
        "holders": [_holder(holder) for holder in device.holders],
        "taints": [
            {**msgspec.to_builtins(taint), "rule": rule or None}
            for taint, rule in listing.taints_of(device)
        ],
        "capacityLeft": [_amount(one) for one in device.capacity],
        "shareable": device.candidate.shareable,
        "attributes": msgspec.to_builtins(published.attributes),
        "capacity": {name: str(has.value) for name, has in published.capacity.items()},
        "consumesCounters": {
            f"{set_name}/{name}": str(amount)
            for set_name, amounts in device.candidate.consumed_counters.items()
            for name, amount in amounts.items()
        },
        "bindingConditions": list(published.binding_conditions),
    }


def _holder(holder: Holder) -> Json:
    result = holder.result
    return {
        "namespace": holder.claim.namespace,
        "claim": holder.claim.name,
        "request": result.request,
        "pods": list(holder.consumers),
        "adminAccess": bool(result.admin_access),
        "consumedCapacity": {name: str(value) for name, value in result.consumed_capacity.items()},
    }


def _amount(one: RemainingAmount) -> Json:
    return {"name": one.name, "left": str(one.left), "total": str(one.total)}
