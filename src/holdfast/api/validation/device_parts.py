"""Parts that several kinds of resource.k8s.io share: configuration, taints, conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.api import field_errors
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import list_at, text_at
from holdfast.api.validation.device_names import check_driver
from holdfast.api.validation.json_fields import check_distinct, check_list
from holdfast.api.validation.names import check_label_name, check_label_value
from holdfast.runtime.errors import Cause

MOST_CONFIGS = 32
MOST_DATA_BYTES = 10 * 1024
_MOST_CONDITIONS = 4
_OMITTED = "<value omitted>"
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")


def check_config(config: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the configuration of a class, claim or allocation."""
    opaque = config.get("opaque")
    if opaque is None:
        yield field_errors.required(f"{path}.opaque")
        return
    yield from check_driver(text_at(opaque, "driver"), f"{path}.opaque.driver")
    yield from check_json_object(opaque.get("parameters"), f"{path}.opaque.parameters")


def check_json_object(value: Any, path: str) -> Iterator[Cause]:
    """Yield what is wrong with parameters or data that must be a JSON object."""
    if value is None:
        yield field_errors.required(path)
    elif len(msgspec.json.encode(value)) > MOST_DATA_BYTES:
        yield field_errors.too_long(path, MOST_DATA_BYTES)
    elif not isinstance(value, dict):
        yield field_errors.invalid(path, _OMITTED, "must be a valid JSON object")


def check_taint(taint: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the taint of a device."""
    yield from check_label_name(text_at(taint, "key"), f"{path}.key")
    yield from check_label_value(text_at(taint, "value"), f"{path}.value")
    if effect := text_at(taint, "effect"):
        yield from _check_word(effect, _EFFECTS, f"{path}.effect")
    else:
        yield field_errors.required(f"{path}.effect")


def check_toleration(toleration: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the toleration of a request."""
    if key := text_at(toleration, "key"):
        yield from check_label_name(key, f"{path}.key")
    operator, value = text_at(toleration, "operator"), text_at(toleration, "value")
    if operator == "Exists":
        if value:
            message = "must be empty for operator `Exists`"
            yield field_errors.invalid(f"{path}.value", value, message)
    elif operator == "Equal":
        yield from check_label_value(value, f"{path}.value")
    elif operator:
        yield from _check_word(operator, _OPERATORS, f"{path}.operator")
    else:
        yield field_errors.required(f"{path}.operator")
    if effect := text_at(toleration, "effect"):
        yield from _check_word(effect, _EFFECTS, f"{path}.effect")


def _check_word(word: str, known: Sequence[str], path: str) -> Iterator[Cause]:
    if word not in known:
        yield field_errors.not_supported(path, word, known)


def check_binding_conditions(device: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the binding conditions of a device or result."""
    names = ("bindingConditions", "bindingFailureConditions")
    good, bad = (list_at(device, name) for name in names)
    at_good, at_bad = (f"{path}.{name}" for name in names)
    yield from check_list(good, _MOST_CONDITIONS, check_label_name, at_good)
    yield from check_list(bad, _MOST_CONDITIONS, check_label_name, at_bad)
    yield from check_distinct(good, at_good)
    yield from check_distinct(bad, at_bad)
    for i, condition in enumerate(bad):
        if condition in good:
            message = "bindingFailureConditions must not overlap with bindingConditions"
            yield field_errors.invalid(f"{at_bad}[{i}]", condition, message)
    if bad and not good:
        message = "bindingConditions are required to use bindingFailureConditions"
        yield field_errors.invalid(at_good, device.get(names[0]), message)
    if good and not bad:
        message = "bindingFailureConditions are required to use bindingConditions"
        yield field_errors.invalid(at_bad, device.get(names[1]), message)


_STATUSES = ("False", "True", "Unknown")
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_LONGEST_REASON = 1024
_LONGEST_MESSAGE = 32 * 1024
_NO_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON}')"
)
_matches_reason = re.compile(_REASON).fullmatch


def check_conditions(conditions: Sequence[Any], most: int, path: str) -> Iterator[Cause]:
    """Yield what is wrong with conditions: too many, types that are not distinct, bad parts."""
    if len(conditions) > most:
        yield field_errors.too_many(path, len(conditions), most)
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind = text_at(condition, "type")
        if kind in seen:
            yield field_errors.duplicate(f"{path}[{i}].type", kind)
        seen.add(kind)
        yield from _check_condition(condition, f"{path}[{i}]")


def _check_condition(condition: JsonMapping, path: str) -> Iterator[Cause]:
    yield from check_label_name(text_at(condition, "type"), f"{path}.type")
    if (status := text_at(condition, "status")) not in _STATUSES:
        yield field_errors.not_supported(f"{path}.status", status, _STATUSES)
    if (generation := condition.get("observedGeneration") or 0) < 0:
        message = "must be greater than or equal to zero"
        yield field_errors.invalid(f"{path}.observedGeneration", generation, message)
    if not condition.get("lastTransitionTime"):
        yield field_errors.required(f"{path}.lastTransitionTime")
    reason = text_at(condition, "reason")
    if not reason:
        yield field_errors.required(f"{path}.reason")
    elif not _matches_reason(reason):
        yield field_errors.invalid(f"{path}.reason", reason, _NO_REASON)
    for key, most in (("reason", _LONGEST_REASON), ("message", _LONGEST_MESSAGE)):
        if len(text_at(condition, key).encode(errors="surrogatepass")) > most:
            yield field_errors.too_long(f"{path}.{key}", most)
