"""Causes of schema violations, with upstream's messages."""

from __future__ import annotations

import json
from typing import Any

from holdfast.runtime.errors import Cause

# Upstream reports no field for violations of combined schemas.
NO_FIELD = "<nil>"
_GO_TYPES = {
    bool: "bool", int: "int64", float: "float64", str: "string", dict: "map[string]interface {}",
    list: "[]interface {}", type(None): "nil",
}  # fmt: skip
_EXACT = 2**53  # as upstream: larger floats may not be the number that was written


def required(path: str) -> Cause:
    """Build the cause for a missing required field."""
    return Cause(path, "Required value", "FieldValueRequired")


def wrong_type(path: str, value: Any, wanted: str) -> Cause:
    """Build the cause for a value of another JSON type."""
    json_type = type_name(value)
    return Cause(
        path,
        f'Invalid value: "{json_type}": {path} in body must be of type {wanted}: "{json_type}"',
        "FieldValueTypeInvalid",
    )


def wrong_format(path: str, value: Any, wanted: str) -> Cause:
    """Build the cause for a value that is not a string of the format."""
    text = quoted(value if isinstance(value, str) else _GO_TYPES[type(value)])
    return Cause(
        path,
        f"Invalid value: {text}: {path} in body must be of type {wanted}: {text}",
        "FieldValueTypeInvalid",
    )


def unsupported(path: str, value: Any, allowed: list[Any]) -> Cause:
    """Build the cause for a value that is not in the enumeration."""
    listed = ", ".join(
        quoted(one if isinstance(one, str) else json.dumps(one, separators=(",", ":")))
        for one in allowed
    )
    return Cause(
        path,
        f"Unsupported value: {quoted(value)}: supported values: {listed}",
        "FieldValueNotSupported",
    )


def broken(path: str, value: Any, rule: str) -> Cause:
    """Build the cause for a value that violates a limit such as a minimum."""
    return Cause(path, f"Invalid value: {quoted(value)}: {path} in body {rule}")


def too_long(path: str, most: int) -> Cause:
    """Build the cause for a too long string; upstream says bytes but counts characters."""
    return Cause(path, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")


def duplicate(path: str, value: Any) -> Cause:
    """Build the cause for a duplicate in a list of type set or map."""
    return Cause(path, f"Duplicate value: {quoted(value)}", "FieldValueDuplicate")


def combined(message: str) -> Cause:
    """Build the cause for a violation of combined schemas (anyOf and so on)."""
    return Cause(NO_FIELD, f'Invalid value: "": {message}')


def type_name(value: Any) -> str:
    """Return the JSON type of a value; a float that is exactly an integer counts as one.

    >>> [type_name(v) for v in (None, True, 1, 1.5, 2.0, 1e19, "", [], {})]
    ['null', 'boolean', 'integer', 'number', 'integer', 'number', 'string', 'array', 'object']
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (
        isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
    ):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def quoted(value: Any) -> str:
    """Return a value as JSON, for messages."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def limit_for(value: float, limit: float) -> str:
    """Format a limit as Go prints it next to a value, which may be an integer.

    >>> limit_for(1000001, 1000000), limit_for(1000001.5, 1000000), limit_for(2, 1.5)
    ('1000000', '1e+06', '1.5')
    """
    whole = isinstance(value, int) and float(limit).is_integer()
    return repr(int(limit)) if whole else go_number(limit)


def go_number(value: float) -> str:
    """Format a limit as Go prints it.

    >>> go_number(10), go_number(1.5), go_number(1000000), go_number(1234567)
    ('10', '1.5', '1e+06', '1.234567e+06')
    """
    digits, _, exponent = f"{float(value):.17e}".partition("e")
    power = int(exponent)
    if -5 < power < 21 and (power < 6 or not float(value).is_integer()):
        return repr(int(value)) if float(value).is_integer() else repr(float(value))
    shortest = repr(float(f"{digits}e0"))
    mantissa = shortest.removesuffix(".0")
    return f"{mantissa}e{power:+03d}"
