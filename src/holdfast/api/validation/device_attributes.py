"""Validation of the attributes and capacities of devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import list_at, map_at
from holdfast.api.quantity import AmountText, Quantity
from holdfast.api.validation.device_names import LONGEST_NAME, check_qualified
from holdfast.api.validation.json_fields import check_distinct, check_map
from holdfast.runtime.errors import BadRequest, Cause

_MOST_NAMES = 32
_MOST_VALUES = 48
_MOST_OPTIONS = 10
_LONGEST_VALUE = 64
_LISTS = ("bools", "ints", "strings", "versions")
_TYPES = ("bool", "int", "string", "version", *_LISTS)
_NUMBER = r"(0|[1-9]\d*)"
_WORD = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_matches_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_WORD}(\.{_WORD})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
).fullmatch


def has_lists(device: JsonMapping) -> bool:
    """Return whether an attribute of a device has a list of values."""
    attributes = map_at(device, "attributes").values()
    return any((one or {}).get(key) is not None for one in attributes for key in _LISTS)


def check_attributes_and_capacity(device: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the attributes and capacities of a device."""
    attributes, capacity = map_at(device, "attributes"), map_at(device, "capacity")
    if (count := len(attributes) + len(capacity)) > _MOST_NAMES:
        message = f"the total number of attributes and capacities must not exceed {_MOST_NAMES}"
        yield field_errors.invalid(path, count, message)
    if (count := sum(map(_value_count, attributes.values()))) > _MOST_VALUES:
        message = f"the total number of attribute values must not exceed {_MOST_VALUES}"
        yield field_errors.invalid(path, count, message)
    at = f"{path}.attributes"
    yield from check_map(attributes, check_qualified, _check_attribute, at, LONGEST_NAME)
    check = partial(_check_capacity, device.get("allowMultipleAllocations") is True)
    yield from check_map(capacity, check_qualified, check, f"{path}.capacity", LONGEST_NAME)


def _value_count(attribute: Any) -> int:
    return sum(len(list_at(attribute or {}, key)) for key in _LISTS) or 1


def _check_attribute(attribute: JsonMapping, path: str) -> Iterator[Cause]:
    for key, check in (("string", _check_string), ("version", _check_version)):
        if (value := attribute.get(key)) is not None:
            yield from check(value, f"{path}.{key}")
    for key in _LISTS:
        if attribute.get(key) == []:
            yield field_errors.invalid(f"{path}.{key}", [], "must not be empty if specified")
    for key, check in (("strings", _check_string), ("versions", _check_version)):
        for i, value in enumerate(list_at(attribute, key)):
            yield from check(value, f"{path}.{key}[{i}]")
    given = [key for key in _TYPES if attribute.get(key) is not None]
    if len(given) != 1:
        shown = {key: attribute[key] for key in given} if given else ""
        yield field_errors.invalid(path, shown, "exactly one value must be specified")


def _check_string(value: str, path: str) -> Iterator[Cause]:
    if len(value.encode(errors="surrogatepass")) > _LONGEST_VALUE:
        yield field_errors.too_long(path, _LONGEST_VALUE)


def _check_version(value: str, path: str) -> Iterator[Cause]:
    if not _matches_version(value):
        message = "must be a string compatible with semver.org spec 2.0.0"
        yield field_errors.invalid(path, value, message)
    yield from _check_string(value, path)


def _check_capacity(shareable: bool, capacity: JsonMapping, path: str) -> Iterator[Cause]:
    policy, at = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return
    if not shareable:
        yield field_errors.forbidden(at, "allowMultipleAllocations must be true")
        return
    # An amount that cannot be read was stored before (``device_amounts``).
    with suppress(BadRequest):
        yield from _check_policy(policy, capacity.get("value") or "0", at)


def _check_policy(policy: JsonMapping, value: AmountText, path: str) -> Iterator[Cause]:
    options, limits = list_at(policy, "validValues"), policy.get("validRange")
    if options and limits is not None:
        message = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        yield field_errors.forbidden(path, message)
        return
    if not options and limits is None:
        return
    kind = "validValues" if options else "validRange"
    if policy.get("default") is None:
        yield field_errors.required(f"{path}.default", f"required when {kind} is defined")
        return
    default, whole = Quantity.parse(policy["default"]), Quantity.parse(value)
    if options:
        yield from _check_options(default, whole, options, f"{path}.{kind}")
    else:
        yield from _check_range(default, whole, limits or {}, f"{path}.{kind}")


def _check_options(
    default: Quantity, whole: Quantity, options: Sequence[Any], path: str
) -> Iterator[Cause]:
    amounts = [Quantity.parse(option or "0") for option in options]
    for i, (low, high) in enumerate(pairwise(amounts), start=1):
        if low > high:
            message = "values must be sorted in ascending order"
            yield field_errors.invalid(f"{path}[{i}]", str(high), message)
    if len(amounts) > _MOST_OPTIONS:
        yield field_errors.too_many(path, len(amounts), _MOST_OPTIONS)
    else:
        for i, amount in enumerate(amounts):
            if amount > whole:
                message = f"option is larger than capacity value: {whole}"
                yield field_errors.invalid(f"{path}[{i}]", str(amount), message)
        yield from check_distinct([str(amount.value()) for amount in amounts], path)
    if len(amounts) > _MOST_OPTIONS or default not in amounts:
        message = "default value is not valid according to the requestPolicy"
        yield field_errors.invalid(path, str(default), message)


def _check_range(
    default: Quantity, whole: Quantity, limits: JsonMapping, path: str
) -> Iterator[Cause]:
    least, most, step = (
        None if limits.get(key) is None else Quantity.parse(limits[key])
        for key in ("min", "max", "step")
    )
    if least is None:
        yield field_errors.required(f"{path}.min", "required when validRange is defined")
        return
    if least > whole:
        message = f"min is larger than capacity value: {whole}"
        yield field_errors.invalid(f"{path}.min", str(least), message)
    if default < least:
        message = f"default is less than min: {least}"
        yield field_errors.invalid(f"{path}.min", str(default), message)
    if most is not None:
        yield from _check_most(default, least, most, whole, f"{path}.max")
    if step is not None:
        first = least + step
        if first > whole:
            message = f"one step {first} is larger than capacity value: {whole}"
            yield field_errors.invalid(f"{path}.step", str(step), message)
        for amount in (default,) if most is None else (default, most):
            yield from _check_step(amount, least, step, f"{path}.step")


def _check_most(
    default: Quantity, least: Quantity, most: Quantity, whole: Quantity, path: str
) -> Iterator[Cause]:
    if least > most:
        yield field_errors.invalid(path, str(least), f"min is larger than max: {most}")
    if most > whole:
        message = f"max is larger than capacity value: {whole}"
        yield field_errors.invalid(path, str(most), message)
    if default > most:
        yield field_errors.invalid(path, str(default), f"default is more than max: {most}")


def _check_step(amount: Quantity, least: Quantity, step: Quantity, path: str) -> Iterator[Cause]:
    # A step of zero stops upstream's server; no value is a multiple of it.
    size = step.value()
    if not size or (amount.value() - least.value()) % size:
        message = f"value is not a multiple of a given step ({step}) from ({least})"
        yield field_errors.invalid(path, str(amount), message)
