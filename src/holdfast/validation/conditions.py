"""Validation of conditions in a status."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.api import field_errors
from holdfast.api.json_fields import Raw, text_at
from holdfast.errors import Cause
from holdfast.validation.names import check_label_name

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


def _check_condition(condition: Raw, path: str) -> Iterator[Cause]:
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
