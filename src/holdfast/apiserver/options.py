"""The options a request carries in its query: read once, refused in upstream's words."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import BadRequest, Cause, Details, Invalid

_KINDS = {
    "create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions",
    "delete": "DeleteOptions", "deletecollection": "DeleteOptions",
}  # fmt: skip
_LEVELS = ("Ignore", "Strict", "Warn")


def wrong_option(kind: str, field: str, words: str, reason: str = "FieldValueInvalid") -> Invalid:
    """Build the 422 for an option that cannot be."""
    return Invalid(
        f'{kind}.meta.k8s.io "" is invalid: {field}: {words}',
        Details(group="meta.k8s.io", kind=kind, causes=(Cause(field, words, reason),)),
    )


def forbidden_option(kind: str, field: str, words: str) -> Invalid:
    """Build the 422 for an option that may not stand here."""
    return wrong_option(kind, field, f"Forbidden: {words}", "FieldValueForbidden")


def unknown_choice(kind: str, field: str, shown: str, known: tuple[str, ...]) -> Invalid:
    """Build the 422 for a choice that does not exist; ``shown`` is the value as JSON."""
    listed = ", ".join(f'"{name}"' for name in known)
    words = f"Unsupported value: {shown}: supported values: {listed}"
    return wrong_option(kind, field, words, "FieldValueNotSupported")


def is_dry_run(verb: str, query: Mapping[str, str]) -> bool:
    """Tell whether nothing may be kept."""
    wanted = query.get("dryRun", "")
    if wanted not in ("", "All"):
        kind = _KINDS.get(verb, "CreateOptions")
        raise unknown_choice(kind, "dryRun", f'["{wanted}"]', ("All",))
    return wanted == "All"


def field_validation(verb: str, query: Mapping[str, str]) -> str:
    """Tell how unknown fields are met: Ignore, Warn (the default) or Strict."""
    level = query.get("fieldValidation", "") or "Warn"
    if level not in _LEVELS:
        kind = _KINDS.get(verb, "CreateOptions")
        raise unknown_choice(kind, "fieldValidation", f'"{level}"', ("", *_LEVELS))
    return level


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """Read an integer option; None if it is not there."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError as wrong:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from wrong
