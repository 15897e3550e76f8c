"""Options in the query of a request; errors have upstream's messages."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.api.field_errors import go_quoted
from holdfast.runtime.errors import BadRequest, Cause, Details, Invalid

_KINDS = {
    "create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions",
    "delete": "DeleteOptions", "deletecollection": "DeleteOptions",
}  # fmt: skip
_INTEGER = re.compile(r"([+-]?)([0-9]+)")
_DIGITS = 21  # more than any integer of 64 bits has
_LEVELS = ("Ignore", "Strict", "Warn")


def invalid_option(
    kind: str, field: str, message: str, reason: str = "FieldValueInvalid"
) -> Invalid:
    """Build the 422 for an invalid option."""
    return Invalid(
        f'{kind}.meta.k8s.io "" is invalid: {field}: {message}',
        Details(group="meta.k8s.io", kind=kind, causes=(Cause(field, message, reason),)),
    )


def forbidden_option(kind: str, field: str, message: str) -> Invalid:
    """Build the 422 for an option that is forbidden here."""
    return invalid_option(kind, field, f"Forbidden: {message}", "FieldValueForbidden")


def unsupported_option(kind: str, field: str, shown: str, known: tuple[str, ...]) -> Invalid:
    """Build the 422 for an unsupported value; ``shown`` is the value as JSON."""
    listed = ", ".join(f'"{name}"' for name in known)
    message = f"Unsupported value: {shown}: supported values: {listed}"
    return invalid_option(kind, field, message, "FieldValueNotSupported")


def is_dry_run(verb: str, query: Mapping[str, str]) -> bool:
    """Return whether the request is a dry run."""
    wanted = query.get("dryRun", "")
    if wanted not in ("", "All"):
        kind = _KINDS.get(verb, "CreateOptions")
        raise unsupported_option(kind, "dryRun", f'["{wanted}"]', ("All",))
    return wanted == "All"


def field_validation_level(verb: str, query: Mapping[str, str]) -> str:
    """Return the level of field validation: Ignore, Warn (the default) or Strict."""
    level = query.get("fieldValidation", "") or "Warn"
    if level not in _LEVELS:
        kind = _KINDS.get(verb, "CreateOptions")
        raise unsupported_option(kind, "fieldValidation", f'"{level}"', ("", *_LEVELS))
    return level


def integer_option(query: Mapping[str, str], name: str) -> int | None:
    """Parse an integer option of 64 bits; None if it is not set."""
    text = query.get(name, "")
    return parse_integer("ParseInt", text, -(1 << 63), (1 << 63) - 1) if text else None


def parse_integer(function: str, text: str, least: int, most: int) -> int:
    """Parse a decimal integer as a function of Go's strconv does; raise its error as BadRequest.

    >>> parse_integer("ParseUint", "9" * 30, 0, (1 << 64) - 1)
    Traceback (most recent call last):
    holdfast...BadRequest: strconv.ParseUint: parsing "999999999999999999999999999999": value out...
    """
    shape = _INTEGER.fullmatch(text)
    problem = "invalid syntax"
    if shape is not None and (least < 0 or not shape[1]):
        digits = shape[2].lstrip("0")
        value = int(f"{shape[1]}{digits or 0}") if len(digits) < _DIGITS else most + 1
        if least <= value <= most:
            return value
        problem = "value out of range"
    raise BadRequest(f"strconv.{function}: parsing {go_quoted(text)}: {problem}")
