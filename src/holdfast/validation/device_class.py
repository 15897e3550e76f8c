"""Validation of DeviceClasses."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api import field_errors
from holdfast.api.resource_names import is_extended
from holdfast.errors import Cause
from holdfast.validation.device_parts import (
    MOST_CONFIGS,
    check_config,
)
from holdfast.validation.device_selectors import check_selectors, check_total_size
from holdfast.validation.json_fields import Raw, check_list, map_at, maps_at, only_new


def _check(obj: Raw) -> Iterator[Cause]:
    spec = map_at(obj, "spec")
    selectors = maps_at(spec, "selectors")
    too_large = list(check_total_size(selectors, "spec.selectors"))
    yield from too_large or check_selectors(selectors, "spec.selectors")
    yield from check_list(maps_at(spec, "config"), MOST_CONFIGS, check_config, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        message = "must be a valid extended resource name"
        yield field_errors.invalid("spec.extendedResourceName", name, message)


check_device_class = only_new(_check)
"""Yield what is wrong with a new DeviceClass, or what an update makes wrong."""
