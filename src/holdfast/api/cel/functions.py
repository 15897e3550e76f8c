"""Kubernetes' own CEL functions, as the engine evaluates them.

``declarations`` lists the functions. Static types are checked earlier, so this module only
distinguishes kinds of values; values whose types the engine lacks are BYTES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from cel_expr_python import cel

from holdfast.api.cel import list_functions, network_functions
from holdfast.api.cel.declarations import INCLUDES, declarations
from holdfast.api.cel.formatting import format_text
from holdfast.api.cel.list_functions import (
    COMPUTED_PATTERNS,
    MAP_OF,
    MAP_SUM,
    OWN,
    SAME_ITEMS,
    SET_SUM,
)
from holdfast.api.cel.network_functions import succeeds
from holdfast.api.cel.semver import Semver
from holdfast.api.cel.static_types import OPTIONAL
from holdfast.api.cel.values import pack, unpack
from holdfast.api.quantity import MAX_INT64, Quantity
from holdfast.runtime.errors import BadRequest

_T = cel.Type
_ANY = cel.Type("any")
_KINDS = {
    "bool": _T.BOOL, "int": _T.INT, "uint": _T.UINT, "double": _T.DOUBLE, "string": _T.STRING,
    "bytes": _T.BYTES, "duration": _T.DURATION, "timestamp": _T.TIMESTAMP,
    "list": _T.List(_T.DYN), "map": _T.Map(_T.DYN, _T.DYN),
}  # fmt: skip
_OWN_NAMES = ("format", "indexOf", "lastIndexOf", "string", "substring", "min", "max", "sum")
"""Functions that the engine also has, or whose result types are one type in Python."""
_UNKNOWN_KINDS = {"indexOf": "list_a_index_of_int", "lastIndexOf": "list_a_last_index_of_int"}
_TIMES = ("duration", "timestamp")


def _pair(a: bytearray, b: bytearray) -> tuple[Any, Any]:
    left, right = unpack(a), unpack(b)
    if type(left) is not type(right):
        raise BadRequest("no such overload: a quantity and a version cannot be compared")
    return left, right


def _compare(a: bytearray, b: bytearray) -> int:
    left, right = _pair(a, b)
    return int(left > right) - int(left < right)


def _is_greater(a: bytearray, b: bytearray) -> bool:
    return _compare(a, b) > 0


def _is_less(a: bytearray, b: bytearray) -> bool:
    return _compare(a, b) < 0


def _amount(data: bytearray) -> Quantity:
    value = unpack(data)
    if not isinstance(value, Quantity):
        raise BadRequest("no such overload: this is a version, not a quantity")
    return value


def _version(data: bytearray) -> Semver:
    value = unpack(data)
    if not isinstance(value, Semver):
        raise BadRequest("no such overload: this is a quantity, not a version")
    return value


def _read_version(text: str, normalize: bool = False) -> bytes:
    return pack(Semver.parse(text, normalize=normalize))


def _whole(value: Quantity) -> bool:
    whole = value.value()
    return Quantity(whole) == value and -MAX_INT64 - 1 <= whole <= MAX_INT64


def _as_integer(data: bytearray) -> int:
    value = _amount(data)
    if not _whole(value):
        raise BadRequest("cannot convert value to integer")
    return value.value()


def _sign(data: bytearray) -> int:
    digits = _amount(data).digits
    return (digits > 0) - (digits < 0)


_AMOUNTS: Mapping[str, Callable[..., Any]] = {
    "string_to_quantity": lambda text: pack(Quantity.parse(text)),
    "is_quantity_string": succeeds(Quantity.parse),
    "quantity_get_float": lambda a: float(_amount(a)),
    "quantity_get_int": _as_integer,
    "quantity_is_integer": lambda a: _whole(_amount(a)),
    "quantity_sign": _sign,
    "quantity_add": lambda a, b: pack(_amount(a) + _amount(b)),
    "quantity_add_int": lambda a, b: pack(_amount(a) + Quantity(b)),
    "quantity_sub": lambda a, b: pack(_amount(a) - _amount(b)),
    "quantity_sub_int": lambda a, b: pack(_amount(a) - Quantity(b)),
    "string_to_semver": _read_version,
    "string_bool_to_semver": _read_version,
    "is_semver_string": succeeds(_read_version),
    "is_semver_string_bool": succeeds(_read_version),
    "semver_major": lambda a: _version(a).major,
    "semver_minor": lambda a: _version(a).minor,
    "semver_patch": lambda a: _version(a).patch,
    **{f"{kind}_is_greater_than": _is_greater for kind in ("quantity", "semver")},
    **{f"{kind}_is_less_than": _is_less for kind in ("quantity", "semver")},
    **{f"{kind}_compare_to": _compare for kind in ("quantity", "semver")},
}
IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_format": format_text,
    **_AMOUNTS,
    **list_functions.FUNCTIONS,
    **network_functions.FUNCTIONS,
}
"""By overload; the engine evaluates all others itself."""


def evaluated_name(function: str, overloads: tuple[str, ...]) -> str:
    """Return the name under which the engine evaluates a call of a function."""
    if function in OWN:
        return OWN[function]
    if function not in _OWN_NAMES or not any(one in IMPLEMENTATIONS for one in overloads):
        return function
    if len(overloads) == 1 and function not in _UNKNOWN_KINDS:
        return f"@{overloads[0]}"
    return f"@{function}" if function in _UNKNOWN_KINDS else function


def _kind(declared: Mapping[str, Any]) -> Any:
    name = declared["type_name"]
    if name == OPTIONAL:
        return _kind(declared["params"][0])  # ``rewriting`` turns it into an optional value
    if declared.get("is_type_param") or name == "dyn":
        return _ANY
    return _KINDS.get(name, _T.BYTES)


@cache
def evaluated_functions() -> Mapping[str, Sequence[Any]]:
    """Return all our functions that the engine calls: overloads by name."""
    overloads: dict[tuple[str, bool, str], Any] = {}
    for function in declarations(INCLUDES):
        for declared in function["overloads"]:
            if declared["id"] in IMPLEMENTATIONS:
                for name in _names(function["name"], declared["id"]):
                    _add(overloads, name, declared)
    _add(overloads, MAP_OF, {"id": MAP_OF, "args": [_LIST], "return": {"type_name": "map"}})
    for name in (*OWN.values(), SAME_ITEMS):
        _add(overloads, name, {"id": name, "args": [_LIST, _LIST], "return": _BOOL})
    text, texts = {"type_name": "string"}, {**_LIST, "params": [{"type_name": "string"}]}
    for name, result in (("matches", _BOOL), ("find", text), ("findAll", texts)):
        own = COMPUTED_PATTERNS[name]
        for more in ([], [{"type_name": "int"}])[: 2 if name == "findAll" else 1]:
            _add(overloads, own, {"id": own, "args": [text, text, *more], "return": result})
    for name, count in ((SET_SUM, 2), (MAP_SUM, 3)):
        _add(overloads, name, {"id": name, "args": [_LIST] * count, "return": _LIST})
    by_name: dict[str, list[Any]] = {}
    for (name, *_), overload in overloads.items():
        by_name.setdefault(name, []).append(overload)
    return by_name


_LIST, _BOOL = {"type_name": "list"}, {"type_name": "bool"}


def _names(function: str, overload: str) -> list[str]:
    """Return the names under which an overload is evaluated, with known and with unknown types."""
    names = [evaluated_name(function, (overload,))]
    if function in ("min", "max", "sum") and not any(kind in overload for kind in _TIMES):
        names.append(function)
    return names


def _add(
    overloads: dict[tuple[str, bool, str], Any], name: str, declared: Mapping[str, Any]
) -> None:
    member = "target" in declared
    parameters = [*([declared["target"]] if member else []), *declared["args"]]
    unknown = name in ("@indexOf", "@lastIndexOf")
    kinds = [_ANY if unknown else _kind(one) for one in parameters]
    key = (name, member, ",".join(kind.name() for kind in kinds))
    result = _T.DYN if name in ("min", "max", "sum") else _kind(declared["return"])
    if key not in overloads:
        overloads[key] = cel.Overload(
            id=f"{name}_{len(overloads)}", return_type=result, parameters=kinds, is_member=member,
            impl=IMPLEMENTATIONS[declared["id"]],
        )  # fmt: skip
