"""Read and set fields of raw objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.quantity import MILLI, Quantity
from holdfast.runtime.errors import BadRequest


def set_defaults(where: JsonObject, **values: Any) -> None:
    """Set each key that is absent, null or the empty string."""
    for key, value in values.items():
        if where.get(key) in (None, ""):
            where[key] = value


def set_null_defaults(where: JsonObject, **values: Any) -> None:
    """Set each key that is absent or null; an empty string stays, and is refused later."""
    for key, value in values.items():
        if where.get(key) is None:
            where[key] = value


def set_zero_defaults(where: JsonObject, **values: Any) -> None:
    """Set each key that is absent, null or zero."""
    for key, value in values.items():
        if not where.get(key):
            where[key] = value


def ensure_map(where: JsonObject, key: str) -> JsonObject:
    """Return the map under a key; create an empty one if it is absent."""
    value = where.get(key)
    if value is None:
        value = where[key] = {}
    return expect_map(value, key)


def expect_map(value: Any, key: str) -> JsonObject:
    """Return a value that is a map; raise Go's decoding error for any other."""
    if not isinstance(value, dict):
        raise BadRequest(f"json: cannot unmarshal {_kind(value)} into Go struct field {key}")
    return value


def entries(where: JsonObject, *keys: str) -> Iterable[JsonObject]:
    """Yield the maps in the lists under these keys; an absent list is empty."""
    for key in keys:
        value = where.get(key)
        if value is None:
            continue
        if not isinstance(value, list):
            raise BadRequest(f"json: cannot unmarshal {_kind(value)} into Go struct field {key}")
        for entry in value:
            yield expect_map(entry, key)


def if_present(where: JsonObject, key: str, default: Callable[[JsonObject], None]) -> None:
    """Call ``default`` with the map under a key, if there is one."""
    value = where.get(key)
    if value is not None:
        default(expect_map(value, key))


def canonical_amounts(where: JsonObject, *keys: str) -> None:
    """Replace quantities with their canonical form, rounded up to thousandths."""
    for key in keys:
        amounts = where.get(key)
        if amounts:
            where[key] = {
                name: str(_to_milli(value)) for name, value in expect_map(amounts, key).items()
            }


def expect_amount(value: Any) -> str:
    """Return the canonical form of a quantity; raise Go's decoding error for any other value."""
    return str(_parsed(value))


def _to_milli(value: Any) -> Quantity:
    amount = _parsed(value)
    rounded, exact = amount.round_up(MILLI)
    return amount if exact else rounded


def _parsed(value: Any) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRequest(f"json: cannot unmarshal {_kind(value)} into a resource quantity")
    return Quantity.parse(value)


def _kind(value: Any) -> str:
    names = {str: "string", bool: "bool", list: "array", dict: "object"}
    return names.get(type(value), "number")
