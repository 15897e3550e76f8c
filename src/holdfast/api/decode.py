"""Decode JSON into typed objects, as tolerantly as Go does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""A read-only JSON object."""


def decode_object(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode one object as ``kind``.

    The typed decoder is tried first (a few microseconds). A null for a list or map means empty, as
    in Go; such objects are decoded a second time without their nulls, which is slower.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return cast("T", decoder.decode(data))
    except msgspec.ValidationError:
        return convert_object(msgspec.json.decode(data), kind)


def convert_object(raw: Any, kind: type[T]) -> T:
    """Convert an object from a dict to ``kind``; nulls count as absent."""
    if kind is dict:
        return cast("T", raw)
    return msgspec.convert(without_nulls(raw), kind, strict=False)


def json_values(value: Any) -> Any:
    """Convert a struct into JSON values: dicts, lists, strings, numbers."""
    return msgspec.json.decode(msgspec.json.encode(value))


def without_nulls(value: Any) -> Any:
    """Copy a JSON value without the keys whose value is null.

    >>> without_nulls({"a": None, "b": [{"c": None}]})
    {'b': [{}]}
    """
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value
