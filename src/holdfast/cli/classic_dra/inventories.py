"""The devices of classic drivers: NodeInventories, and the claims that have a part of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.api.classic_dra.node_inventory import NodeInventory
from holdfast.api.decode import JsonObject
from holdfast.api.quantity import Quantity
from holdfast.cli.devices.choosing import Filter
from holdfast.cli.table import NOTHING, format_table, join_names
from holdfast.node.driverkit.classic_dra.fitting import FreeDevice, remaining
from holdfast.node.driverkit.classic_dra.inventory_conversion import choice_of, devices_of
from holdfast.state.devices.device_map import DeviceState

MOST_DEVICES = 100
HEAD = ("CLASSIC DRIVER", "DEVICE", "NODE", "STATE", "CLAIM", "LEFT")


def classic_devices(inventories: Iterable[NodeInventory], which: Filter) -> list[JsonObject]:
    """Return the devices of inventories that the filter selects, with the claims that have them."""
    if which.device_class:
        return []  # device classes select only devices of slices
    ordered = sorted(inventories, key=lambda one: (one.spec.driver_name, one.spec.node_name))
    return [
        device
        for inventory in ordered
        if which.driver in ("", inventory.spec.driver_name)
        if not which.node or inventory.spec.node_name in ("", which.node)
        for device in _devices(inventory)
        if not which.free or device["state"] in _FREE
        if not which.namespace
        or any(claim.startswith(f"{which.namespace}/") for claim in device["claims"])
    ]


_FREE = (DeviceState.FREE.value, DeviceState.SHARED.value)


def _devices(inventory: NodeInventory) -> Iterable[JsonObject]:
    claims = inventory.status.allocated.values()
    choices = [choice_of(claim) for claim in claims]
    usable = {device.name: device for device in devices_of(inventory)}
    left = {one.name: one for one in remaining(usable.values(), choices)}
    names = [device.name for device in inventory.spec.devices]
    names += (name for choice in choices for name in choice.whole)  # including those that are gone
    names += (share.device for choice in choices for share in choice.shares)
    for name in dict.fromkeys(names):
        holders = [
            f"{claim.namespace}/{claim.name}"
            for claim in claims
            if name in claim.devices or any(share.device == name for share in claim.shares)
        ]
        yield {
            "driver": inventory.spec.driver_name,
            "device": name,
            "node": inventory.spec.node_name or None,
            "state": _state(inventory, usable.get(name), left.get(name), holders).value,
            "claims": holders,
            "capacityLeft": [
                {"name": key, "left": str(amount), "total": str(usable[name].capacity[key])}
                for key, amount in (left[name].capacity if name in left else {}).items()
                if key in usable[name].capacity
            ],
        }


def _state(
    inventory: NodeInventory,
    device: FreeDevice | None,
    left: FreeDevice | None,
    holders: Sequence[str],
) -> DeviceState:
    if not inventory.spec.ready:
        return DeviceState.UNUSABLE
    if left is not None and left.in_use:
        known = device.capacity if device is not None else ()
        is_full = any(left.capacity[key] <= Quantity(0) for key in known)
        return DeviceState.FULL if is_full else DeviceState.SHARED
    if holders:
        return DeviceState.USED
    return DeviceState.TAINTED if device is None else DeviceState.FREE


def as_table(devices: Sequence[JsonObject], *, wide: bool) -> str:
    """Format devices as a table; only the first of many are listed, unless ``wide``."""
    shown = devices if wide else devices[:MOST_DEVICES]
    rows = [
        (
            one["driver"],
            one["device"],
            one["node"] or "all nodes",
            one["state"],
            join_names(one["claims"]) or NOTHING,
            ", ".join(f"{c['name']} {c['left']} of {c['total']}" for c in one["capacityLeft"])
            or NOTHING,
        )
        for one in shown
    ]
    table = format_table(HEAD, rows)
    more = len(devices) - len(shown)
    return f"{table}\n{more} devices are not listed; -o wide lists them all" if more else table
