"""Validation of DeviceClasses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, maps_at
from holdfast.api.resource_names import is_extended
from holdfast.api.validation.device_parts import (
    MOST_CONFIGS,
    check_config,
)
from holdfast.api.validation.device_selectors import DEFAULT_RULES, SelectorRules, check_total_size
from holdfast.api.validation.json_fields import check_list
from holdfast.api.validation.ratcheting import ratcheting
from holdfast.runtime.errors import Cause


def check_device_class(
    new: JsonMapping, old: JsonMapping | None, rules: SelectorRules = DEFAULT_RULES
) -> Iterable[Cause]:
    """Return what is wrong with a new DeviceClass, or what an update makes wrong."""
    return ratcheting(partial(_check, rules))(new, old)


def _check(rules: SelectorRules, obj: JsonMapping) -> Iterator[Cause]:
    spec = map_at(obj, "spec")
    selectors = maps_at(spec, "selectors")
    too_large = list(check_total_size(selectors, "spec.selectors"))
    yield from too_large or rules.check(selectors, "spec.selectors")
    yield from check_list(maps_at(spec, "config"), MOST_CONFIGS, check_config, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        message = "must be a valid extended resource name"
        yield field_errors.invalid("spec.extendedResourceName", name, message)
