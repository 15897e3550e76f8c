"""Devices and choices in the form of a NodeInventory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.api.classic_dra.names import MAX_HANDLE_BYTES
from holdfast.api.classic_dra.node_inventory import BookedClaim, BookedShare, NodeInventory
from holdfast.api.decode import convert_object
from holdfast.api.devices import Device as ApiDevice
from holdfast.api.devices import DeviceAttribute
from holdfast.node.driverkit.classic_dra.fitting import (
    Attribute,
    Choice,
    ClaimParameters,
    FreeDevice,
    Share,
    quantity,
)
from holdfast.node.driverkit.inventory import Device, InvalidInventory, Item, raw_device
from holdfast.runtime.errors import HoldfastError

MAX_BOOKING_BYTES = 2 * MAX_HANDLE_BYTES


def booked(
    namespace: str, name: str, choice: Choice, request: ClaimParameters | None = None
) -> BookedClaim:
    """Return a claim's booking in the form of the API; with its request if a function allocates.

    Raises HoldfastError if it is large: all claims of a node are in one object.
    """
    request = request or ClaimParameters()
    shares = (BookedShare(device=one.device, capacity=dict(one.capacity)) for one in choice.shares)
    booked_claim = BookedClaim(
        namespace=namespace,
        name=name,
        devices=choice.whole,
        shares=tuple(shares),
        data=msgspec.to_builtins(choice.data),
        shared=choice.shared,
        granted=choice.granted,
        parameters=msgspec.to_builtins(request.parameters),
        class_parameters=msgspec.to_builtins(request.class_parameters),
    )
    if (size := len(msgspec.json.encode(booked_claim))) > MAX_BOOKING_BYTES:
        raise HoldfastError(f"its booking has {size} bytes, more than {MAX_BOOKING_BYTES}")
    return booked_claim


def choice_of(claim: BookedClaim) -> Choice:
    """Return a booking as the choice of ``fits``."""
    shares = (Share(one.device, one.capacity) for one in claim.shares)
    return Choice((*claim.devices, *shares), claim.data, claim.shared, claim.granted)


def request_of(claim: BookedClaim, parameters: Any, class_parameters: Any) -> tuple[Any, Any]:
    """Return the stored parameters of a claim and of its class as values of their types."""
    given = ((claim.parameters, parameters), (claim.class_parameters, class_parameters))
    first, second = (
        value if kind is None or value is None else msgspec.convert(value, kind)
        for value, kind in given
    )
    return first, second


def devices_of(inventory: NodeInventory) -> list[FreeDevice]:
    """Return the devices of an inventory that can be used, as if none were booked."""
    return [_free(device) for device in inventory.spec.devices if not device.taints]


def expected_devices(items: Iterable[Item]) -> list[FreeDevice]:
    """Return the devices of a node that does not exist yet; raises InvalidInventory."""
    raw = raw_spec("", "", items, ready=True)["devices"]
    return [_free(convert_object(device, ApiDevice)) for device in raw if not device.get("taints")]


def raw_spec(driver: str, node: str, items: Iterable[Item], *, ready: bool) -> dict[str, Any]:
    """Return the spec of an inventory; raises InvalidInventory."""
    devices: dict[str, Any] = {}
    for item in items:
        if not isinstance(item, Device) or item.consumes:
            raise InvalidInventory(
                f"{item.name}: a driver with @driver.fits has no counter sets: let fits divide "
                "devices into shares"
            )
        if item.name in devices:
            raise InvalidInventory(f'two devices have the name "{item.name}"')
        devices[item.name] = raw_device(item)
    return {
        "driverName": driver,
        "nodeName": node,
        "ready": ready,
        "devices": list(devices.values()),
    }


def _free(device: ApiDevice) -> FreeDevice:
    attributes = {key: _plain(value) for key, value in device.attributes.items()}
    capacity = {key: quantity(value.value) for key, value in device.capacity.items()}
    return FreeDevice(device.name, attributes, capacity)


def _plain(value: DeviceAttribute) -> Attribute:
    values = (getattr(value, name) for name in value.__struct_fields__)
    one: Attribute = next((each for each in values if each is not None), "")
    return one
