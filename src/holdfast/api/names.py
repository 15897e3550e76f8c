"""Validate names, label keys and label values, with upstream's messages.

Each check returns a list of errors, empty if the text is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable

SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated name suffixes; they cannot spell words."""
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"

_matches_1035_label = re.compile(_DNS_1035_LABEL).fullmatch
_matches_label = re.compile(_DNS_LABEL).fullmatch
_matches_subdomain = re.compile(_DNS_SUBDOMAIN).fullmatch
_matches_key = re.compile(_KEY).fullmatch
_matches_value = re.compile(_VALUE).fullmatch
_matches_identifier = re.compile(_IDENTIFIER).fullmatch
_matches_integer = re.compile("0|-?[1-9][0-9]*").fullmatch

_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_EMPTY = "must be non-empty"


def _shape(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    """Return the error for a long text; bytes count, even where upstream says characters."""
    return [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []


def dns_subdomain(text: str) -> list[str]:
    """Check a lower-case DNS subdomain, the format of most object names."""
    return _subdomain(text, "characters")


def long_name(text: str) -> list[str]:
    """Check a DNS subdomain with the message of upstream's newer rules, as for device classes."""
    return _subdomain(text, "bytes")


def _subdomain(text: str, unit: str) -> list[str]:
    errors = _too_long(text, 253, unit)
    if not _matches_subdomain(text):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character"
        )
        errors.append(_shape(rule, _DNS_SUBDOMAIN, "example.com"))
    return errors


def dns_label(text: str) -> list[str]:
    """Check a lower-case DNS label: namespaces, containers, ports."""
    errors = _too_long(text, 63)
    if _matches_label(text):
        return errors
    if _matches_subdomain(text):
        return [*errors, "must not contain dots"]
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return [*errors, _shape(rule, _DNS_LABEL, "my-name", "123-abc")]


def dns_1035_label(text: str) -> list[str]:
    """Check a DNS label that starts with a letter: services, versions and names of CRDs."""
    errors = _too_long(text, 63)
    if not _matches_1035_label(text):
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start "
            "with an alphabetic character, and end with an alphanumeric character"
        )
        errors.append(_shape(rule, _DNS_1035_LABEL, "my-name", "abc-123"))
    return errors


def path_segment(text: str) -> list[str]:
    """Check a name that only has to be a valid path segment: roles and bindings."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in ("/", "%") if sign in text]


def label_key(text: str) -> list[str]:
    """Check a label or annotation key, or a qualified resource name."""
    parts = text.split("/")
    shape = _shape(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        return [
            f"a valid label key {shape} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    errors = []
    if len(parts) == 2:
        part_errors = long_name(parts[0]) if parts[0] else [_EMPTY]
        errors += [f"prefix part {error}" for error in part_errors]
    name = parts[-1]
    part_errors = _too_long(name, 63, "bytes") if name else [_EMPTY]
    if not _matches_key(name):
        part_errors.append(shape)
    return errors + [f"name part {error}" for error in part_errors]


def label_value(text: str) -> list[str]:
    """Check a label value; it may be empty."""
    errors = _too_long(text, 63, "bytes")
    if not _matches_value(text):
        rule = f"a valid label must be an empty string or {_KEY_RULE.removeprefix('must ')}"
        errors.append(_shape(rule, _VALUE, "MyValue", "my_value", "12345"))
    return errors


def c_identifier(text: str) -> list[str]:
    """Check an identifier of the language C, the format of device attributes."""
    if _matches_identifier(text):
        return []
    rule = (
        "a valid C identifier must start with alphabetic character or '_', followed by a string "
        "of alphanumeric characters or '_'"
    )
    return [_shape(rule, _IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def canonical_integer(text: str) -> int | None:
    """Parse a 64-bit integer without plus sign and leading zeros; None if it is not one."""
    if not _matches_integer(text) or len(text) > 20:
        return None
    return _within_int64(int(text))


def parse_integer(text: str) -> int | None:
    """Parse a 64-bit integer; signs and leading zeros are allowed; None if it is not one."""
    if not re.fullmatch("[+-]?[0-9]{1,64}", text):
        return None
    return _within_int64(int(text))


def _within_int64(number: int) -> int | None:
    return number if -(2**63) <= number < 2**63 else None


NameCheck = Callable[[str], list[str]]
