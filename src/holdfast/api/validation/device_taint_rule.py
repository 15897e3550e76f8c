"""Validation of DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, maps_at
from holdfast.api.validation.device_names import check_driver, check_pool
from holdfast.api.validation.device_parts import check_conditions, check_taint
from holdfast.api.validation.names import check_label
from holdfast.api.validation.ratcheting import ratcheting
from holdfast.runtime.errors import Cause

_MOST_CONDITIONS = 8
_SELECTED = {"driver": check_driver, "pool": check_pool, "device": check_label}


def _check(rule: JsonMapping) -> Iterator[Cause]:
    spec = map_at(rule, "spec")
    selector = map_at(spec, "deviceSelector")
    for key, check in _SELECTED.items():
        if (name := selector.get(key)) is not None:
            yield from check(name, f"spec.deviceSelector.{key}")
    yield from check_taint(map_at(spec, "taint"), "spec.taint")


check_device_taint_rule = ratcheting(_check)
"""Yield what is wrong with a rule and was not wrong before."""


def check_device_taint_rule_status(new: JsonMapping) -> Iterator[Cause]:
    """Yield what is wrong with the status of a rule."""
    conditions = maps_at(map_at(new, "status"), "conditions")
    return check_conditions(conditions, _MOST_CONDITIONS, "status.conditions")
