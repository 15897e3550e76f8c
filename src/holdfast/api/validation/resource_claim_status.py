"""Validation of the status of ResourceClaims."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Container, Hashable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.defaults.devices import default_claim
from holdfast.api.devices import MAX_CONSUMERS, MAX_DEVICES
from holdfast.api.json_fields import list_at, map_at, maps_at, text_at
from holdfast.api.validation.device_names import check_driver, check_pool, check_share_id
from holdfast.api.validation.device_parts import (
    MOST_CONFIGS,
    check_binding_conditions,
    check_conditions,
    check_json_object,
)
from holdfast.api.validation.json_fields import check_list, check_set, is_same
from holdfast.api.validation.names import check_label
from holdfast.api.validation.node_selector import check_node_selector
from holdfast.api.validation.resource_claim import (
    RequestNames,
    check_claim_config,
    check_reference,
    request_names,
)
from holdfast.runtime.errors import Cause

_MOST_DEVICE_CONDITIONS = 8
_MOST_ADDRESSES = 16
_LONGEST_INTERFACE = 256
_LONGEST_HARDWARE_ADDRESS = 128
_SOURCES = ("FromClaim", "FromClass")
_NO_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")

AllocatedDeviceId = tuple[str, str, str, str | None]
"""Driver, pool, device and share of an allocated device."""


def device_id(device: JsonMapping) -> AllocatedDeviceId:
    """Return the identity of the device in a result or a device status."""
    driver, pool, name = (text_at(device, key) for key in ("driver", "pool", "device"))
    share = device.get("shareID")
    return driver, pool, name, share if isinstance(share, str) else None


def allocated_devices(status: JsonMapping) -> set[AllocatedDeviceId]:
    """Return the devices that are allocated to a claim."""
    return set(map(device_id, _results(map_at(status, "allocation"))))


def _results(allocation: JsonMapping) -> Any:
    return maps_at(map_at(allocation, "devices"), "results")


def check_claim_status(claim: JsonMapping, old: JsonMapping) -> Iterator[Cause]:
    """Yield what is wrong with a new status; stored parts are not checked again."""
    status, before = map_at(claim, "status"), map_at(old, "status")
    yield from _check_consumers(claim, before)
    yield from _check_devices(status, before)
    allocation, allocated_before = status.get("allocation"), before.get("allocation")
    if allocation is None:
        return
    if allocated_before is None:
        names = request_names(map_at(claim, "spec"))
        yield from _check_allocation(names, allocation, "status.allocation")
    elif not is_same_allocation(allocation, allocated_before):
        yield field_errors.invalid("status.allocation", allocation, "field is immutable")


def is_same_allocation(new: Any, stored: Any) -> bool:
    """Return whether an allocation is unchanged; the stored one may lack defaults."""
    if is_same(new, stored):
        return True
    defaulted: dict[str, Any] = {"status": {"allocation": deepcopy(stored)}}
    default_claim(defaulted)
    return is_same(new, defaulted["status"]["allocation"])


def _check_consumers(claim: JsonMapping, before: JsonMapping) -> Iterator[Cause]:
    status, path = map_at(claim, "status"), "status.reservedFor"
    consumers, stored = maps_at(status, "reservedFor"), maps_at(before, "reservedFor")
    known = set(map(_consumer, stored))
    check = partial(_check_consumer, known)
    most = max(MAX_CONSUMERS, len(stored))
    yield from check_set(consumers, most, check, _uid, path)
    if consumers and status.get("allocation") is None:
        yield field_errors.forbidden(path, "may not be specified when `allocated` is not set")
    elif _is_deleting(claim) and not known.issuperset(map(_consumer, consumers)):
        message = (
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` "
            "are set"
        )
        yield field_errors.forbidden(path, message)


def _check_devices(status: JsonMapping, before: JsonMapping) -> Iterator[Cause]:
    path, devices = "status.devices", maps_at(status, "devices")
    allocated, stored = allocated_devices(status), maps_at(before, "devices")
    seen: set[AllocatedDeviceId] = set()
    for i, device in enumerate(devices):
        if device not in stored:
            yield from _check_device(allocated, device, f"{path}[{i}]")
        if device_id(device) in seen:
            yield field_errors.duplicate(f"{path}[{i}]", _shown_id(device))
        seen.add(device_id(device))


def _is_deleting(claim: JsonMapping) -> bool:
    return bool(map_at(claim, "metadata").get("deletionTimestamp"))


def _uid(consumer: JsonMapping) -> Hashable:
    return text_at(consumer, "uid")


def _consumer(consumer: JsonMapping) -> Hashable:
    return tuple(text_at(consumer, key) for key in ("apiGroup", "resource", "name", "uid"))


def _check_consumer(
    known: Container[Hashable], consumer: JsonMapping, path: str
) -> Iterator[Cause]:
    for part in () if _consumer(consumer) in known else ("resource", "name", "uid"):
        if not consumer.get(part):
            yield field_errors.required(f"{path}.{part}")


def _check_allocation(names: RequestNames, allocation: JsonMapping, path: str) -> Iterator[Cause]:
    devices, at = map_at(allocation, "devices"), f"{path}.devices"
    check = partial(_check_result, names)
    yield from check_list(_results(allocation), MAX_DEVICES, check, f"{at}.results")
    check = partial(_check_config, names)
    # The configuration of classes and of the claim.
    yield from check_list(maps_at(devices, "config"), 2 * MOST_CONFIGS, check, f"{at}.config")
    if (selector := allocation.get("nodeSelector")) is not None:
        yield from check_node_selector(selector, f"{path}.nodeSelector")


def _check_result(names: RequestNames, result: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_reference(names, text_at(result, "request"), f"{path}.request")
    yield from _check_id(result, path)
    yield from check_binding_conditions(result, path)


def _check_id(device: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_driver(text_at(device, "driver"), f"{path}.driver")
    yield from check_pool(text_at(device, "pool"), f"{path}.pool")
    yield from check_label(text_at(device, "device"), f"{path}.device")
    if (share := device.get("shareID")) is not None:
        yield from check_share_id(share, f"{path}.shareID")


def _check_config(names: RequestNames, config: JsonMapping, path: str) -> Iterator[Cause]:
    source = text_at(config, "source")
    if not source:
        yield field_errors.required(f"{path}.source")
    elif source not in _SOURCES:
        yield field_errors.not_supported(f"{path}.source", source, _SOURCES)
    yield from check_claim_config(names, config, path)


def _check_device(
    allocated: set[AllocatedDeviceId], device: JsonMapping, path: str
) -> Iterator[Cause]:
    yield from _check_id(device, path)
    if device_id(device) not in allocated:
        message = "must be an allocated device in the claim"
        yield field_errors.invalid(path, _shown_id(device), message)
    conditions = maps_at(device, "conditions")
    yield from check_conditions(conditions, _MOST_DEVICE_CONDITIONS, f"{path}.conditions")
    if (data := device.get("data")) is not None:
        yield from check_json_object(data, f"{path}.data")
    if (network := device.get("networkData")) is not None:
        yield from _check_network(network, f"{path}.networkData")


def _shown_id(device: JsonMapping) -> Any:
    driver, pool, name, share = device_id(device)
    return {"Driver": driver, "Pool": pool, "Device": name, "ShareID": share or ""}


def _check_network(network: JsonMapping, path: str) -> Iterator[Cause]:
    for key, most in (
        ("interfaceName", _LONGEST_INTERFACE),
        ("hardwareAddress", _LONGEST_HARDWARE_ADDRESS),
    ):
        if len(text_at(network, key).encode(errors="surrogatepass")) > most:
            yield field_errors.too_long(f"{path}.{key}", most)
    addresses = list_at(network, "ips")
    yield from check_set(addresses, _MOST_ADDRESSES, _check_address, str, f"{path}.ips")


def _check_address(address: str, path: str) -> Iterator[Cause]:
    canonical = _canonical_address(address)
    if not canonical:
        yield field_errors.invalid(path, address, _NO_ADDRESS)
    elif address != canonical:
        yield field_errors.invalid(path, address, f'must be in canonical form ("{canonical}")')


def _canonical_address(text: str) -> str:
    """Return an address with prefix length in canonical form, "" if it is none.

    >>> _canonical_address("010.9.8.7/24"), _canonical_address("2001:DB8::0:1/64")
    ('10.9.8.7/24', '2001:db8::1/64')
    """
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit() or "%" in address:
        return ""
    if ":" not in address:
        address = _LEADING_ZEROS.sub("", address)
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return ""
    bits = int(length[:9])
    if bits > ip.max_prefixlen:
        return ""
    if isinstance(ip, ipaddress.IPv6Address) and (mapped := ip.ipv4_mapped):
        return f"{mapped}/{bits - 96 if bits > 32 else bits}"
    return f"{ip}/{bits}"
