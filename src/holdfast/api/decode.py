"""Turn JSON into typed objects, tolerating what Go tolerates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""A JSON object that is only read."""


def decode_object(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Read one object as ``kind``.

    The typed decoder is tried first (a few microseconds). A null where a list or map is expected
    means empty, as in Go: such objects take the slow road once, with their nulls dropped.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return cast("T", decoder.decode(data))
    except msgspec.ValidationError:
        return convert_object(msgspec.json.decode(data), kind)


def convert_object(raw: Any, kind: type[T]) -> T:
    """Read one object that is already a dict as ``kind``; nulls count as absent."""
    if kind is dict:
        return cast("T", raw)
    return msgspec.convert(without_nulls(raw), kind, strict=False)


def json_values(value: Any) -> Any:
    """Write a struct as JSON values: dicts, lists, strings, numbers."""
    return msgspec.json.decode(msgspec.json.encode(value))


def without_nulls(value: Any) -> Any:
    """Copy a JSON value leaving out every key whose value is null.

    >>> without_nulls({"a": None, "b": [{"c": None}]})
    {'b': [{}]}
    """
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value
