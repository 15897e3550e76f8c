"""Checks of single values: limits, lengths, patterns, formats, enumerations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.api import field_errors
from holdfast.api.patterns import matcher
from holdfast.api.string_formats import FORMATS
from holdfast.runtime.errors import Cause
from holdfast.server.schema.structural import messages

# Returns what is wrong with the value at a path, or None. Values of other types are ignored: the
# type is checked elsewhere.
ValueCheck = Callable[[Any, str], Cause | None]

_CACHED_LENGTH = 256
_INT_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}


def value_checks(schema: Mapping[str, Any]) -> tuple[ValueCheck, ...]:
    """Compile the checks of a schema, in the order in which upstream reports violations."""
    makers: tuple[Callable[[Mapping[str, Any]], ValueCheck | None], ...] = (
        _whole_number, _maximum, _minimum, _multiple, _text,
        _min_items, _max_items, _min_properties, _max_properties, _enum,
    )  # fmt: skip
    return tuple(check for make in makers if (check := make(schema)) is not None)


def text_check(
    schema: Mapping[str, Any], checks: tuple[ValueCheck, ...]
) -> Callable[[Any], bool] | None:
    """Return whether a value is a text that fulfils the checks, cached for short texts.

    Many objects have lists of the same few thousand names, such as names of nodes.
    """
    if schema.get("type") != "string":
        return None

    def fulfils(value: str) -> bool:
        return all(check(value, "") is None for check in checks)

    known = lru_cache(maxsize=4096)(fulfils)
    return lambda value: (
        type(value) is str and (known(value) if len(value) <= _CACHED_LENGTH else fulfils(value))
    )


def format_check(schema: Mapping[str, Any]) -> tuple[str, Callable[[str], bool]] | None:
    """Return name and check of the string format; None if it has none or an unknown one."""
    name = schema.get("format", "")
    known = FORMATS.get(name)
    return (name, known) if known else None


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole_number(schema: Mapping[str, Any]) -> ValueCheck | None:
    if schema.get("type") != "integer":
        return None
    name = schema.get("format", "")
    limit = _INT_LIMITS.get(name, 1 << 63)
    kind = f"with format {name}" if name in _INT_LIMITS else "(default format)"

    def check(value: Any, path: str) -> Cause | None:
        if not is_number(value) or (float(value).is_integer() and -limit <= value < limit):
            return None
        return messages.combined(f"Checked value must be of type integer {kind} in {path}")

    return check


def _maximum(schema: Mapping[str, Any]) -> ValueCheck | None:
    limit, strict = schema.get("maximum"), schema.get("exclusiveMaximum")
    if limit is None:
        return None
    rule = f"should be less than {'' if strict else 'or equal to '}"

    def check(value: Any, path: str) -> Cause | None:
        if not is_number(value) or value < limit or (value == limit and not strict):
            return None
        return messages.broken(path, value, rule + messages.limit_for(value, limit))

    return check


def _minimum(schema: Mapping[str, Any]) -> ValueCheck | None:
    limit, strict = schema.get("minimum"), schema.get("exclusiveMinimum")
    if limit is None:
        return None
    rule = f"should be greater than {'' if strict else 'or equal to '}"

    def check(value: Any, path: str) -> Cause | None:
        if not is_number(value) or value > limit or (value == limit and not strict):
            return None
        return messages.broken(path, value, rule + messages.limit_for(value, limit))

    return check


def _multiple(schema: Mapping[str, Any]) -> ValueCheck | None:
    factor = schema.get("multipleOf")
    if not factor:
        return None
    rule = f"should be a multiple of {messages.go_number(factor)}"

    def check(value: Any, path: str) -> Cause | None:
        if not is_number(value) or float(value / factor).is_integer():
            return None
        return messages.broken(path, value, rule)

    return check


def _text(schema: Mapping[str, Any]) -> ValueCheck | None:
    """Return a check of length and pattern; as upstream, it reports the first violation."""
    most, least = schema.get("maxLength"), schema.get("minLength") or 0
    pattern = schema.get("pattern")
    if most is None and not least and not pattern:
        return None
    matches = matcher(pattern) if pattern else None

    def check(value: Any, path: str) -> Cause | None:
        if not isinstance(value, str):
            return None
        if most is not None and len(value) > most:
            return messages.too_long(path, most)
        if len(value) < least:
            return messages.broken(path, value, f"should be at least {least} chars long")
        if matches and not matches(value):
            return messages.broken(path, value, f"should match '{pattern}'")
        return None

    return check


def _counted(
    kind: type[Sized],
    key: str,
    wrong: Callable[[int, int], bool],
    message: Callable[[str, int, int], Cause],
) -> Callable[[Mapping[str, Any]], ValueCheck | None]:
    """Return a function that compiles one limit on the number of items or properties."""

    def make(schema: Mapping[str, Any]) -> ValueCheck | None:
        limit = schema.get(key)
        if limit is None:
            return None
        return lambda value, path: (
            message(path, len(value), limit)
            if isinstance(value, kind) and wrong(len(value), limit)
            else None
        )

    return make


def _too_few(what: str) -> Callable[[str, int, int], Cause]:
    return lambda path, count, least: messages.broken(
        path, count, f"should have at least {least} {what}"
    )


_min_items = _counted(list, "minItems", int.__lt__, _too_few("items"))
_max_items = _counted(list, "maxItems", int.__gt__, field_errors.too_many)
_min_properties = _counted(dict, "minProperties", int.__lt__, _too_few("properties"))
_max_properties = _counted(dict, "maxProperties", int.__gt__, field_errors.too_many)


def _enum(schema: Mapping[str, Any]) -> ValueCheck | None:
    allowed = schema.get("enum")
    if not allowed:
        return None

    known = {_identity(one) for one in allowed}
    return lambda value, path: (
        None if _identity(value) in known else messages.unsupported(path, value, allowed)
    )


def _identity(value: Any) -> tuple[type, Any]:
    """Return a key that is equal for equal JSON values; true differs from 1."""
    if isinstance(value, dict | list):
        return bytes, msgspec.json.encode(value, order="sorted")
    return bool if isinstance(value, bool) else object, value
