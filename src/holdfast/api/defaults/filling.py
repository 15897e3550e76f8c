"""Small verbs for writing into raw objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.api.quantity import MILLI, Quantity
from holdfast.errors import BadRequest

Raw = dict[str, Any]


def fill(where: Raw, **values: Any) -> None:
    """Set each key that is absent, null or the empty string."""
    for key, value in values.items():
        if where.get(key) in (None, ""):
            where[key] = value


def fill_zero(where: Raw, **values: Any) -> None:
    """Set each key that is absent, null or zero."""
    for key, value in values.items():
        if not where.get(key):
            where[key] = value


def part(where: Raw, key: str) -> Raw:
    """Get the map under a key, putting an empty one there if need be."""
    found = where.get(key)
    if found is None:
        found = where[key] = {}
    return expect_map(found, key)


def expect_map(value: Any, key: str) -> Raw:
    """Insist that a value is a map, as decoding into a Go struct would."""
    if not isinstance(value, dict):
        raise BadRequest(f"json: cannot unmarshal {_kind(value)} into Go struct field {key}")
    return value


def entries(where: Raw, *keys: str) -> Iterable[Raw]:
    """Walk the maps of the lists under the given keys; absent lists are empty."""
    for key in keys:
        found = where.get(key)
        if found is None:
            continue
        if not isinstance(found, list):
            raise BadRequest(f"json: cannot unmarshal {_kind(found)} into Go struct field {key}")
        for entry in found:
            yield expect_map(entry, key)


def if_present(where: Raw, key: str, default: Callable[[Raw], None]) -> None:
    """Default the map under a key, if there is one."""
    found = where.get(key)
    if found is not None:
        default(expect_map(found, key))


def canonical_amounts(where: Raw, *keys: str) -> None:
    """Write the amounts under the given keys canonically, rounded up to thousandths."""
    for key in keys:
        amounts = where.get(key)
        if amounts:
            where[key] = {
                name: str(_to_milli(value)) for name, value in expect_map(amounts, key).items()
            }


def _to_milli(value: Any) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRequest(f"json: cannot unmarshal {_kind(value)} into a resource quantity")
    amount = Quantity.parse(value)
    rounded, exact = amount.round_up(MILLI)
    return amount if exact else rounded


def _kind(value: Any) -> str:
    names = {str: "string", bool: "bool", list: "array", dict: "object"}
    return names.get(type(value), "number")
