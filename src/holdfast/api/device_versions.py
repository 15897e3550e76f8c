"""Conversion of ``resource.k8s.io/v1beta1`` objects; v1beta2 has the fields of v1.

In v1beta1 the fields of a device are in ``basic``, those of an exact request in the request itself,
and ``nodeName`` and ``allNodes`` of a slice are unset if empty or false. Values of wrong types are
kept, so that an object that an older server stored can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.api.decode import JsonObject

Change = Callable[[JsonObject], JsonObject]
_EXACT_FIELDS = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)
_UNSET = (None, "", 0)
"""Values of exact fields that count as unset; no field is a bool but adminAccess."""


def _at(path: str, change: Change) -> Change:
    """Return a function that copies an object with the parts at a path changed.

    ``[]`` in the path means every item of the list; absent parts stay absent.
    """

    def at(value: Any, keys: tuple[str, ...]) -> Any:
        if not keys:
            return change(value) if isinstance(value, dict) else value
        if keys[0] == "[]":
            return [at(item, keys[1:]) for item in value] if isinstance(value, list) else value
        if not isinstance(value, dict) or value.get(keys[0]) is None:
            return value
        return {**value, keys[0]: at(value[keys[0]], keys[1:])}

    keys = tuple(path.split("."))
    return lambda obj: at(obj, keys)


def _is_set(name: str, value: Any) -> bool:
    return value is not None if name == "adminAccess" else value not in _UNSET


def _request_to_v1(request: JsonObject) -> JsonObject:
    """Move the fields of an exact request to ``exactly``, if one is set.

    >>> _request_to_v1({"name": "a", "deviceClassName": "gpu", "count": 2})
    {'name': 'a', 'exactly': {'deviceClassName': 'gpu', 'count': 2}}
    >>> _request_to_v1({"name": "a", "deviceClassName": "", "firstAvailable": []})
    {'name': 'a', 'firstAvailable': []}
    """
    exactly = {name: request[name] for name in _EXACT_FIELDS if _is_set(name, request.get(name))}
    rest = {name: value for name, value in request.items() if name not in _EXACT_FIELDS}
    return {**rest, "exactly": exactly} if exactly else rest


def _request_to_v1beta1(request: JsonObject) -> JsonObject:
    """Move the fields of ``exactly`` to the request.

    >>> _request_to_v1beta1({"name": "a", "exactly": {"deviceClassName": "gpu"}})
    {'name': 'a', 'deviceClassName': 'gpu'}
    """
    exactly = request.get("exactly")
    if not isinstance(exactly, dict):
        exactly = {}
    rest = {name: value for name, value in request.items() if name != "exactly"}
    # As upstream, the name of the class is shown even if it is empty.
    return {**rest, "deviceClassName": "", **exactly}


def _device_to_v1(device: JsonObject) -> JsonObject:
    """Move the fields of ``basic`` to the device.

    >>> _device_to_v1({"name": "gpu-0", "basic": {"allNodes": True}})
    {'name': 'gpu-0', 'allNodes': True}
    """
    basic = device.get("basic")
    name = {"name": device["name"]} if "name" in device else {}
    return {**name, **basic} if isinstance(basic, dict) else name


def _device_to_v1beta1(device: JsonObject) -> JsonObject:
    """Move all fields but the name to ``basic``, which is always present.

    >>> _device_to_v1beta1({"name": "gpu-0"})
    {'name': 'gpu-0', 'basic': {}}
    """
    name = {"name": device["name"]} if "name" in device else {}
    return {**name, "basic": {key: value for key, value in device.items() if key != "name"}}


def _without_empty_nodes(spec: JsonObject) -> JsonObject:
    return {
        name: value for name, value in spec.items() if value or name not in ("nodeName", "allNodes")
    }


def _claim(path: str) -> tuple[Change, Change]:
    requests = f"{path}.devices.requests.[]"
    return _at(requests, _request_to_v1), _at(requests, _request_to_v1beta1)


def _slice(change: Change) -> Change:
    devices, spec = _at("spec.devices.[]", change), _at("spec", _without_empty_nodes)
    return lambda obj: spec(devices(obj))


V1BETA1: Mapping[str, tuple[Change, Change]] = {
    "ResourceClaim": _claim("spec"),
    "ResourceClaimTemplate": _claim("spec.spec"),
    "ResourceSlice": (_slice(_device_to_v1), _slice(_device_to_v1beta1)),
}
"""Conversion to v1 and back by kind; DeviceClasses have the same fields in both."""
