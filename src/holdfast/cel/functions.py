"""Kubernetes' own CEL functions on quantities, versions and lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from cel_expr_python import cel

from holdfast.api.quantity import MAX_INT64, Quantity
from holdfast.cel.semver import Semver
from holdfast.cel.values import pack, unpack
from holdfast.errors import BadRequest

_T = cel.Type
_SCALARS = (_T.BOOL, _T.INT, _T.STRING, _T.BYTES, _T.DOUBLE, _T.UINT)
INCLUDES_LIMIT = 48


def _function(
    name: str, returns: Any, impl: Callable[..., Any], *signatures: Sequence[Any], member: bool
) -> Any:
    overloads = [
        cel.Overload(
            id=f"kubernetes_{name.replace('.', '_')}_{i}", return_type=returns,
            parameters=list(signature), is_member=member, impl=impl,
        )
        for i, signature in enumerate(signatures)
    ]  # fmt: skip
    return cel.FunctionDecl(name, overloads)


def _member(name: str, returns: Any, impl: Callable[..., Any], *signatures: Sequence[Any]) -> Any:
    return _function(name, returns, impl, *signatures, member=True)


def _free(name: str, returns: Any, impl: Callable[..., Any], *signatures: Sequence[Any]) -> Any:
    return _function(name, returns, impl, *signatures, member=False)


def _pair(a: bytearray, b: bytearray) -> tuple[Any, Any]:
    left, right = unpack(a), unpack(b)
    if type(left) is not type(right):
        raise BadRequest("no such overload: a quantity and a version cannot be compared")
    return left, right


def _compare(a: bytearray, b: bytearray) -> int:
    left, right = _pair(a, b)
    return int(left > right) - int(left < right)


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


def _operand(value: bytearray | int) -> Quantity:
    return Quantity(value) if isinstance(value, int) else _amount(value)


def _parses(read: Callable[..., Any], *args: Any) -> bool:
    try:
        read(*args)
    except BadRequest:
        return False
    return True


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


def _includes(value: Any, item: Any) -> bool:
    if not isinstance(value, list):
        return bool(value == item)
    if item in value[:INCLUDES_LIMIT]:
        return True
    if len(value) > INCLUDES_LIMIT:
        raise BadRequest(
            f"'includes' function cannot be applied to lists longer than {INCLUDES_LIMIT} values"
        )
    return False


def _unsupported(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise BadRequest(f"{name} is not built in Holdfast; use matches() instead")

    return refuse


def _ordered(items: Iterable[Any]) -> list[Any]:
    listed = list(items)
    if any(isinstance(i, bytes | bytearray) for i in listed):
        raise BadRequest("no such overload: quantities and versions have no order in lists")
    return listed


def _is_sorted(items: list[Any]) -> bool:
    listed = _ordered(items)
    return all(a <= b for a, b in pairwise(listed))


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def pick(items: list[Any]) -> Any:
        if not items:
            raise BadRequest(f"{choose.__name__} called on empty list")
        return choose(_ordered(items))

    return pick


def _comparable(value: Any) -> Hashable:
    """Return a key that is equal for equal values; booleans never equal numbers."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return (list, *map(_comparable, value))
    if isinstance(value, dict):
        return (dict, frozenset((_comparable(k), _comparable(v)) for k, v in value.items()))
    return (bool(value), bool) if isinstance(value, bool) else value


def _as_set(items: list[Any]) -> set[Hashable]:
    return set(map(_comparable, items))


def quantity_functions() -> list[Any]:
    """Declare ``quantity(s)`` and the methods of quantities, some of which versions share."""
    one, two, with_int = [_T.BYTES], [_T.BYTES, _T.BYTES], [_T.BYTES, _T.INT]
    return [
        _free("quantity", _T.BYTES, lambda s: pack(Quantity.parse(s)), [_T.STRING]),
        _free("isQuantity", _T.BOOL, lambda s: _parses(Quantity.parse, s), [_T.STRING]),
        _member("compareTo", _T.INT, _compare, two),
        _member("isGreaterThan", _T.BOOL, lambda a, b: _compare(a, b) > 0, two),
        _member("isLessThan", _T.BOOL, lambda a, b: _compare(a, b) < 0, two),
        _member("add", _T.BYTES, lambda a, b: pack(_amount(a) + _operand(b)), two, with_int),
        _member("sub", _T.BYTES, lambda a, b: pack(_amount(a) - _operand(b)), two, with_int),
        _member("sign", _T.INT, _sign, one),
        _member("isInteger", _T.BOOL, lambda a: _whole(_amount(a)), one),
        _member("asInteger", _T.INT, _as_integer, one),
        _member("asApproximateFloat", _T.DOUBLE, lambda a: float(_amount(a)), one),
    ]


def semver_functions() -> list[Any]:
    """Declare ``semver(s[, normalize])`` and the methods of versions."""
    plain, loose = [_T.STRING], [_T.STRING, _T.BOOL]
    return [
        _free("semver", _T.BYTES, _read_version, plain, loose),
        _free("isSemver", _T.BOOL, lambda *a: _parses(_read_version, *a), plain, loose),
        _member("major", _T.INT, lambda a: _version(a).major, [_T.BYTES]),
        _member("minor", _T.INT, lambda a: _version(a).minor, [_T.BYTES]),
        _member("patch", _T.INT, lambda a: _version(a).patch, [_T.BYTES]),
    ]


def list_functions() -> list[Any]:
    """Declare Kubernetes' functions on lists and strings; find and findAll only raise an error."""
    many, texts = _T.List(_T.DYN), _T.List(_T.STRING)
    both = [many, many]
    pattern, limited = [_T.STRING, _T.STRING], [_T.STRING, _T.STRING, _T.INT]
    return [
        _member("isSorted", _T.BOOL, _is_sorted, [many]),
        _member("sum", _T.DYN, lambda items: sum(_ordered(items)), [many]),
        _member("min", _T.DYN, _extreme(min), [many]),
        _member("max", _T.DYN, _extreme(max), [many]),
        _free("sets.contains", _T.BOOL, lambda a, b: _as_set(a) >= _as_set(b), both),
        _free("sets.equivalent", _T.BOOL, lambda a, b: _as_set(a) == _as_set(b), both),
        _free("sets.intersects", _T.BOOL, lambda a, b: not _as_set(a).isdisjoint(_as_set(b)), both),
        _member("find", _T.STRING, _unsupported("find"), pattern),
        _member("findAll", texts, _unsupported("findAll"), pattern, limited),
    ]


def includes_function() -> list[Any]:
    """Declare ``x.includes(y)``: equality with a value, or membership in a list (feature-gated)."""
    pairs = [[a, b] for a in (*_SCALARS, _T.LIST) for b in _SCALARS]
    return [_member("includes", _T.BOOL, _includes, *pairs)]
