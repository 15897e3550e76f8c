"""Errors of fields, with the messages of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.runtime.errors import BadRequest, Cause, Details, aggregate_message


def invalid(path: str, value: Any, detail: str) -> Cause:
    """Return the error for an invalid value.

    >>> invalid("spec.replicas", -1, "must be greater than or equal to 0").message
    'Invalid value: -1: must be greater than or equal to 0'
    """
    return Cause(path, f"Invalid value: {_shown(value)}: {detail}", "FieldValueInvalid")


def invalid_field(path: str, detail: str) -> Cause:
    """Return the error for a field as a whole, without its value."""
    return Cause(path, f"Invalid value: {detail}", "FieldValueInvalid")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    """Return the error for a value that is not one of the supported values."""
    known = ", ".join(f'"{word}"' for word in supported)
    return Cause(
        path,
        f"Unsupported value: {_shown(value)}: supported values: {known}",
        "FieldValueNotSupported",
    )


def required(path: str, detail: str = "") -> Cause:
    """Return the error for a missing field."""
    return Cause(path, f"Required value: {detail}" if detail else "Required value",
                 "FieldValueRequired")  # fmt: skip


def forbidden(path: str, detail: str) -> Cause:
    """Return the error for a field that must not be set."""
    return Cause(path, f"Forbidden: {detail}", "FieldValueForbidden")


def duplicate(path: str, value: Any) -> Cause:
    """Return the error for a value that occurs twice."""
    return Cause(path, f"Duplicate value: {_shown(value)}", "FieldValueDuplicate")


def too_many(path: str, count: int, most: int) -> Cause:
    """Return the error for a list or map with too many entries.

    >>> too_many("spec.volumes", 3, 1).message
    'Too many: 3: must have at most 1 item'
    """
    items = "item" if most == 1 else "items"
    return Cause(path, f"Too many: {count}: must have at most {most} {items}", "FieldValueTooMany")


def too_long(path: str, most: int) -> Cause:
    """Return the error for a text that is too long; the text itself is not repeated.

    >>> too_long("spec.driver", 63).message
    'Too long: may not be more than 63 bytes'
    """
    return Cause(path, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")


def not_found(path: str, value: Any, detail: str = "") -> Cause:
    """Return the error for a reference to something that does not exist."""
    shown = f"Not found: {_shown(value)}"
    return Cause(path, f"{shown}: {detail}" if detail else shown, "FieldValueNotFound")


def child(path: str, name: str) -> str:
    """Append a name to a field path.

    >>> child("", "values"), child("spec", "values")
    ('values', 'spec.values')
    """
    return f"{path}.{name}" if path else name


def raise_if_any(causes: Iterable[Cause]) -> None:
    """Raise BadRequest with all causes, if there are any."""
    all_causes = tuple(causes)
    if not all_causes:
        return
    raise BadRequest(aggregate_message(all_causes), Details(causes=all_causes))


_GO_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def go_quoted(text: str) -> str:
    r"""Quote a text as Go's %q does: characters that cannot be printed are escaped.

    >>> print(go_quoted('a"b\r\x1b'), go_quoted("é\u2028"))
    "a\"b\r\x1b" "é\u2028"
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_go_escaped, text)) + '"'


def _go_escaped(sign: str) -> str:
    if sign in _GO_ESCAPES:
        return _GO_ESCAPES[sign]
    if sign.isprintable():
        return sign
    code = ord(sign)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _shown(value: Any) -> str:
    return go_quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
