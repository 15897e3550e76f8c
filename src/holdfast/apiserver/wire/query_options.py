"""The options a request carries in its query: read once, refused in upstream's words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.api.field_errors import go_quoted
from holdfast.errors import BadRequest, Cause, Details, Invalid

_KINDS = {
    "create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions",
    "delete": "DeleteOptions", "deletecollection": "DeleteOptions",
}  # fmt: skip
_INTEGER = re.compile(r"([+-]?)([0-9]+)")
_DIGITS = 21  # more than any integer of 64 bits has
_LEVELS = ("Ignore", "Strict", "Warn")


def invalid_option(kind: str, field: str, words: str, reason: str = "FieldValueInvalid") -> Invalid:
    """Build the 422 for an option that cannot be."""
    return Invalid(
        f'{kind}.meta.k8s.io "" is invalid: {field}: {words}',
        Details(group="meta.k8s.io", kind=kind, causes=(Cause(field, words, reason),)),
    )


def forbidden_option(kind: str, field: str, words: str) -> Invalid:
    """Build the 422 for an option that may not stand here."""
    return invalid_option(kind, field, f"Forbidden: {words}", "FieldValueForbidden")


def unsupported_option(kind: str, field: str, shown: str, known: tuple[str, ...]) -> Invalid:
    """Build the 422 for a choice that does not exist; ``shown`` is the value as JSON."""
    listed = ", ".join(f'"{name}"' for name in known)
    words = f"Unsupported value: {shown}: supported values: {listed}"
    return invalid_option(kind, field, words, "FieldValueNotSupported")


def is_dry_run(verb: str, query: Mapping[str, str]) -> bool:
    """Tell whether nothing may be kept."""
    wanted = query.get("dryRun", "")
    if wanted not in ("", "All"):
        kind = _KINDS.get(verb, "CreateOptions")
        raise unsupported_option(kind, "dryRun", f'["{wanted}"]', ("All",))
    return wanted == "All"


def field_validation_level(verb: str, query: Mapping[str, str]) -> str:
    """Tell how unknown fields are met: Ignore, Warn (the default) or Strict."""
    level = query.get("fieldValidation", "") or "Warn"
    if level not in _LEVELS:
        kind = _KINDS.get(verb, "CreateOptions")
        raise unsupported_option(kind, "fieldValidation", f'"{level}"', ("", *_LEVELS))
    return level


def integer_option(query: Mapping[str, str], name: str) -> int | None:
    """Read an integer option of 64 bits; None if it is not there."""
    text = query.get(name, "")
    return parse_integer("ParseInt", text, -(1 << 63), (1 << 63) - 1) if text else None


def parse_integer(function: str, text: str, least: int, most: int) -> int:
    """Read a decimal integer as the function of Go's strconv does, or raise BadRequest.

    >>> parse_integer("ParseUint", "9" * 30, 0, (1 << 64) - 1)
    Traceback (most recent call last):
    holdfast...BadRequest: strconv.ParseUint: parsing "999999999999999999999999999999": value out...
    """
    shape = _INTEGER.fullmatch(text)
    wrong = "invalid syntax"
    if shape is not None and (least < 0 or not shape[1]):
        digits = shape[2].lstrip("0")
        value = int(f"{shape[1]}{digits or 0}") if len(digits) < _DIGITS else most + 1
        if least <= value <= most:
            return value
        wrong = "value out of range"
    raise BadRequest(f"strconv.{function}: parsing {go_quoted(text)}: {wrong}")
