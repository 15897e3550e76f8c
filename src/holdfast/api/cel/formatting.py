"""``"…".format([…])`` as version 2 of CEL's strings library has it; the engine has a later one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from cel_expr_python import cel

from holdfast.runtime.errors import BadRequest

_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d{1,3}))?(.)?)", re.DOTALL)
_DIGITS = 6
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NAMED_FLOATS = ("NaN", "Infinity", "-Infinity")


def format_text(template: str, values: list[Any]) -> str:
    """Return a template with its clauses replaced by the values.

    >>> format_text("%s has %d of %.1f%%", [["a", True], 3, 1234.56])
    '["a", true] has 3 of 1,234.6%'
    """
    used = 0

    def replaced(clause: re.Match[str]) -> str:
        nonlocal used
        percent, digits, letter = clause.groups()
        if percent:
            return "%"
        if letter is None:
            raise BadRequest("unexpected end of string")
        if used >= len(values):
            raise BadRequest(f"index {used} out of range")
        used += 1
        write = _CLAUSES.get(letter)
        if write is None:
            raise BadRequest(f'could not parse formatting clause: unrecognized clause "{letter}"')
        return write(values[used - 1], _DIGITS if digits is None else int(digits))

    return _CLAUSE.sub(replaced, template)


def _wrong(rule: str, value: Any) -> BadRequest:
    return BadRequest(f"error during formatting: {rule}, was given {_kind(value)}")


def _kind(value: Any) -> str:
    kinds = {bool: "bool", int: "int", float: "double", str: "string", bytearray: "bytes",
             list: "list", dict: "map", type(None): "null_type"}  # fmt: skip
    return kinds.get(type(value), type(value).__name__)


def _text(value: Any, _: int = 0) -> str:
    match value:
        case bool() | None:
            return json.dumps(value)
        case float():
            return shortest_float(value)
        case bytearray():
            return value.decode(errors="replace")
        case list():
            return f"[{', '.join(map(_nested, value))}]"
        case dict():
            pairs = sorted(f"{_nested(key)}:{_nested(one)}" for key, one in value.items())
            return f"{{{', '.join(pairs)}}}"
        case datetime():
            moment = value.astimezone(UTC).isoformat()
            return moment.replace("+00:00", "Z")
        case timedelta():
            return f"{shortest_float(value.total_seconds())}s"
    if isinstance(value, cel.Type):
        return str(value.name()).partition("<")[0].lower()
    return str(value)


def _nested(value: Any) -> str:
    """Return a value inside of a list or map as CEL writes it."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytearray():
            return "b" + json.dumps(_text(value), ensure_ascii=False)
        case float():
            return f"{value:.6f}" if math.isfinite(value) else json.dumps(_text(value))
        case datetime():
            return f'timestamp("{_text(value)}")'
        case timedelta():
            return f'duration("{_text(value)}")'
    return _text(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(value: Any, _: int) -> str:
    if not _is_integer(value):
        raise _wrong("decimal clause can only be used on integers", value)
    return str(value)


def _number(value: Any, rule: str) -> float:
    if isinstance(value, str) and value in _NAMED_FLOATS:
        return float(value)
    if not isinstance(value, float):
        raise _wrong(rule, value)
    return value


def _fixed(value: Any, digits: int) -> str:
    number = _number(value, "fixed-point clause can only be used on doubles")
    return f"{number:,.{digits}f}" if math.isfinite(number) else _unusual(number)


def _scientific(value: Any, _: int) -> str:
    number = _number(value, "scientific clause can only be used on doubles")
    if not math.isfinite(number):
        return _unusual(number)
    digits, exponent = f"{number:.{_DIGITS}e}".split("e")
    return f"{digits}×10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"


def _unusual(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _binary(value: Any, _: int) -> str:
    if not isinstance(value, int):
        raise _wrong("only integers and bools can be formatted as binary", value)
    return format(int(value), "b")


def _hexadecimal(value: Any, _: int) -> str:
    if isinstance(value, str | bytearray):
        return (value.encode() if isinstance(value, str) else value).hex()
    if not _is_integer(value):
        rule = "only integers, byte buffers, and strings can be formatted as hex"
        raise _wrong(rule, value)
    return format(value, "x")


def _octal(value: Any, _: int) -> str:
    if not _is_integer(value):
        raise _wrong("octal clause can only be used on integers", value)
    return format(value, "o")


_CLAUSES: Mapping[str, Callable[[Any, int], str]] = {
    "s": _text,
    "d": _integer,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hexadecimal,
    "X": lambda value, digits: _hexadecimal(value, digits).upper(),
    "o": _octal,
}


_MOST_DIGITS, _LEAST_EXPONENT = 6, -4


def shortest_float(value: float) -> str:
    """Return the shortest text of a number: Go's ``g``, with an exponent from 10⁶ on.

    >>> shortest_float(123456.0), shortest_float(1.5), shortest_float(1e-5), shortest_float(1e6)
    ('123456', '1.5', '1e-05', '1e+06')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    negative, digits, scale = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(scale, int)
    exponent = len(digits) + scale - 1
    if value and not _LEAST_EXPONENT <= exponent < _MOST_DIGITS:
        first, rest = digits[0], "".join(map(str, digits[1:]))
        mantissa = f"{first}.{rest}" if rest else str(first)
        return f"{'-' if negative else ''}{mantissa}e{exponent:+03d}"
    return repr(value).removesuffix(".0") if exponent >= _LEAST_EXPONENT else f"{value:.17g}"
