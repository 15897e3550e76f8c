"""Validation of ResourceSlices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, maps_at, text_at
from holdfast.api.validation.device_attributes import check_attributes_and_capacity, has_lists
from holdfast.api.validation.device_names import check_driver, check_pool
from holdfast.api.validation.device_parts import check_binding_conditions, check_taint
from holdfast.api.validation.json_fields import check_list, check_map, check_set
from holdfast.api.validation.names import check_label, check_required, check_subdomain
from holdfast.api.validation.node_selector import check_node_selector
from holdfast.api.validation.ratcheting import ratcheting
from holdfast.runtime.errors import Cause

_MOST_DEVICES = 128
_MOST_ADVANCED_DEVICES = 64
_MOST_TAINTS = 16
_MOST_COUNTER_SETS = 8
_MOST_COUNTERS = 32
_MOST_CONSUMPTIONS = 2
_LONGEST_COUNTER = 63
_IMMUTABLE = "field is immutable"
_UNSET_OR_TRUE = "must be either unset or set to true"
_SLICE_SELECTION = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_DEVICE_SELECTION = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
_NO_DEVICE_SELECTION = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set "
    "to true in the ResourceSlice spec"
)


def check_slice(new: JsonMapping, old: JsonMapping | None) -> Iterable[Cause]:
    """Yield what is wrong with a new slice, or what an update makes wrong."""
    yield from _check_contents(new, old)
    if old is not None:
        yield from _check_immutable(map_at(new, "spec"), map_at(old, "spec"))


def _check_immutable(now: JsonMapping, before: JsonMapping) -> Iterator[Cause]:
    pool, pool_before = map_at(now, "pool"), map_at(before, "pool")
    for path, value, value_before in (
        ("spec.pool.name", text_at(pool, "name"), text_at(pool_before, "name")),
        ("spec.driver", text_at(now, "driver"), text_at(before, "driver")),
        ("spec.nodeName", now.get("nodeName"), before.get("nodeName")),
    ):
        if value != value_before:
            yield field_errors.invalid(path, value, _IMMUTABLE)


def _check(obj: JsonMapping) -> Iterator[Cause]:
    spec = map_at(obj, "spec")
    yield from check_driver(text_at(spec, "driver"), "spec.driver")
    yield from _check_pool(map_at(spec, "pool"), "spec.pool")
    yield from _check_selection(spec)
    if spec.get("devices") is not None and spec.get("sharedCounters") is not None:
        message = "only one of `sharedCounters` or `devices` is allowed"
        yield field_errors.invalid("spec", "", message)
    devices = maps_at(spec, "devices")
    most = _MOST_ADVANCED_DEVICES if any(map(_is_advanced, devices)) else _MOST_DEVICES
    check = partial(_check_device, bool(spec.get("perDeviceNodeSelection")))
    yield from check_set(devices, most, check, _name, "spec.devices")
    counters = maps_at(spec, "sharedCounters")
    at = "spec.sharedCounters"
    yield from check_set(counters, _MOST_COUNTER_SETS, _check_counter_set, _name, at)


_check_contents = ratcheting(_check)


def _name(named: JsonMapping) -> str:
    return text_at(named, "name")


def _is_advanced(device: JsonMapping) -> bool:
    """Return whether a device has something that makes it costly to allocate."""
    return bool(device.get("taints") or device.get("consumesCounters") or has_lists(device))


def _check_pool(pool: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_pool(text_at(pool, "name"), f"{path}.name")
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        message = "must be greater than zero"
        yield field_errors.invalid(f"{path}.resourceSliceCount", count, message)
    if (generation := pool.get("generation") or 0) < 0:
        message = "must be greater than or equal to zero"
        yield field_errors.invalid(f"{path}.generation", generation, message)


def _check_selection(spec: JsonMapping) -> Iterator[Cause]:
    """Yield what is wrong with the nodes that can use the devices of the slice."""
    message = "must be either unset or set to a non-empty string"
    yield from _check_nodes(spec, "spec", message)
    if (selector := spec.get("nodeSelector")) is not None:
        terms = selector.get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            at = "spec.nodeSelector.nodeSelectorTerms"
            yield field_errors.invalid(at, terms, "must have exactly one node selector term")
    if spec.get("perDeviceNodeSelection") is False:
        yield field_errors.invalid("spec.perDeviceNodeSelection", False, _UNSET_OR_TRUE)
    chosen = _chosen(spec, "nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    if not chosen:
        yield field_errors.required("spec", _SLICE_SELECTION)
    elif len(chosen) > 1:
        message = f"{_SLICE_SELECTION}, but multiple fields are set"
        yield field_errors.invalid("spec", _listed(chosen), message)


def _check_nodes(where: JsonMapping, path: str, empty_name: str) -> Iterator[Cause]:
    """Check the fields that a slice and its devices have in common."""
    if name := where.get("nodeName"):
        yield from check_subdomain(name, f"{path}.nodeName")
    elif name is not None:
        yield field_errors.invalid(f"{path}.nodeName", name, empty_name)
    if (selector := where.get("nodeSelector")) is not None:
        yield from check_node_selector(selector, f"{path}.nodeSelector")
    if where.get("allNodes") is False:
        yield field_errors.invalid(f"{path}.allNodes", False, _UNSET_OR_TRUE)


def _chosen(where: JsonMapping, *keys: str) -> list[str]:
    """Return the ways of selecting nodes that are used; an empty node name is none."""
    return [key for key in keys if where.get(key) not in (None, "", False)]


def _listed(keys: Iterable[str]) -> str:
    return "{" + ", ".join(f"`{key}`" for key in keys) + "}"


def _check_device(selects_nodes: bool, device: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_label(_name(device), f"{path}.name")
    yield from check_attributes_and_capacity(device, path)
    yield from check_list(maps_at(device, "taints"), _MOST_TAINTS, check_taint, f"{path}.taints")
    consumptions = maps_at(device, "consumesCounters")
    at = f"{path}.consumesCounters"
    yield from check_set(consumptions, _MOST_CONSUMPTIONS, _check_consumption, _counter_set, at)
    yield from _check_device_nodes(selects_nodes, device, path)
    yield from check_binding_conditions(device, path)


def _check_device_nodes(selects_nodes: bool, device: JsonMapping, path: str) -> Iterator[Cause]:
    keys = ("nodeName", "nodeSelector", "allNodes")
    if not selects_nodes:
        if any(device.get(key) is not None for key in keys):
            yield field_errors.invalid(path, None, _NO_DEVICE_SELECTION)
        return
    yield from _check_nodes(device, path, "must not be empty")
    chosen = _chosen(device, *keys)
    if not chosen:
        yield field_errors.required(path, _DEVICE_SELECTION)
    elif len(chosen) > 1:
        yield field_errors.invalid(path, _listed(chosen), _DEVICE_SELECTION)


def _counter_set(consumption: JsonMapping) -> str:
    return text_at(consumption, "counterSet")


def _check_counter_set(counter_set: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_required(_name(counter_set), f"{path}.name", check_label)
    yield from _check_counters(counter_set, path)


def _check_consumption(consumption: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_required(_counter_set(consumption), f"{path}.counterSet", check_label)
    yield from _check_counters(consumption, path)


def _check_counters(where: JsonMapping, path: str) -> Iterator[Cause]:
    counters, at = map_at(where, "counters"), f"{path}.counters"
    if not counters:
        yield field_errors.required(at)
    elif len(counters) > _MOST_COUNTERS:
        yield field_errors.too_many(at, len(counters), _MOST_COUNTERS)
    else:
        yield from check_map(counters, check_label, _any_counter, at, _LONGEST_COUNTER)


def _any_counter(counter: Any, path: str) -> Iterable[Cause]:
    """Accept every counter: quantities are checked earlier."""
    return ()
