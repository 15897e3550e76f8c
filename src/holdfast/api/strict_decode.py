"""Decode raw values into structs and collect every error; msgspec stops at the first one."""

from __future__ import annotations

import base64
import binascii
import types
import typing
from functools import cache
from typing import Any, TypeVar

import msgspec

from holdfast.api import durations
from holdfast.api.field_errors import child, invalid
from holdfast.runtime.errors import BadRequest, Cause

T = TypeVar("T")
_WORDS: dict[Any, str] = {
    str: "a string", int: "an integer", bool: "true or false", float: "a number",
}  # fmt: skip


class Seconds(float):
    """A duration in seconds, written in Go's format (``1m30s``)."""


class _Invalid(Exception):
    """The value is invalid; its error has been added to the causes."""


def decode_struct(kind: type[T], raw: Any, path: str, causes: list[Cause]) -> T:
    """Decode a struct and append errors to ``causes``; invalid fields get their default.

    Field names are those of JSON. A null counts as absent, an unknown field is an error.
    """
    if raw is None:
        return kind()
    try:
        value: T = _struct(kind, raw, path, causes)
    except _Invalid:
        return kind()
    return value


def _value(kind: Any, raw: Any, path: str, causes: list[Cause]) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(kind, raw, path, causes)
    if typing.get_origin(kind) is tuple:
        return _items(typing.get_args(kind)[0], raw, path, causes)
    if kind is Seconds:
        return _seconds(raw, path, causes)
    if kind is bytes:
        return _bytes(raw, path, causes)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        message = f"must be {_WORDS[kind]}" if kind in _WORDS else str(error)
        raise _add_cause(causes, invalid(path, raw, message)) from error


def _struct(kind: Any, raw: Any, path: str, causes: list[Cause]) -> Any:
    if not isinstance(raw, dict):
        raise _add_cause(causes, invalid(path, raw, "must be an object"))
    fields = _fields(kind)
    attributes: dict[str, Any] = {}
    for name, value in raw.items():
        at = child(path, str(name))
        if name not in fields:
            causes.append(Cause(at, f'unknown field "{name}"', "FieldValueInvalid"))
        elif value is not None:
            attribute, of = fields[name]
            try:
                attributes[attribute] = _value(of, value, at, causes)
            except _Invalid:
                continue
    return kind(**attributes)


def _items(kind: Any, raw: Any, path: str, causes: list[Cause]) -> tuple[Any, ...]:
    if not isinstance(raw, list | tuple):
        raise _add_cause(causes, invalid(path, raw, "must be a list"))
    items = []
    for i, item in enumerate(raw):
        try:
            items.append(_value(kind, item, f"{path}[{i}]", causes))
        except _Invalid:
            # Later checks report list indexes, so an invalid item keeps its place.
            items.append(kind() if isinstance(kind, type) else None)
    return tuple(items)


def _seconds(raw: Any, path: str, causes: list[Cause]) -> Seconds:
    if not isinstance(raw, str):
        raise _add_cause(causes, invalid(path, raw, 'must be a duration, such as "15s"'))
    try:
        return Seconds(durations.parse_seconds(raw))
    except BadRequest as error:
        raise _add_cause(causes, invalid(path, raw, str(error))) from error


def _bytes(raw: Any, path: str, causes: list[Cause]) -> bytes:
    try:
        return base64.b64decode(raw, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise _add_cause(causes, Cause(path, "Invalid value: must be base64")) from error


def _add_cause(causes: list[Cause], cause: Cause) -> _Invalid:
    causes.append(cause)
    return _Invalid()


@cache
def _fields(kind: Any) -> dict[str, tuple[str, Any]]:
    """Map JSON names to attribute and type; ``X | None`` is X, since null is absent."""
    hints = typing.get_type_hints(kind)
    names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    return {wire: (attribute, _plain(hints[attribute])) for wire, attribute in names}


def _plain(kind: Any) -> Any:
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    others = [one for one in typing.get_args(kind) if one is not type(None)]
    return others[0] if len(others) == 1 else kind
