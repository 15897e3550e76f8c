"""Names in the fields of objects: labels, subdomains, keys and values of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.api import field_errors, names
from holdfast.runtime.errors import Cause


def name_errors(path: str, text: str, messages: Iterable[str]) -> Iterator[Cause]:
    """Return an error of the field for each message about a name."""
    for message in messages:
        yield field_errors.invalid(path, text, message)


def check_label(text: str, path: str) -> Iterator[Cause]:
    """Check a DNS label: devices, requests, counters."""
    return name_errors(path, text, names.dns_label(text))


def check_subdomain(text: str, path: str) -> Iterator[Cause]:
    """Check a DNS subdomain: classes, nodes, claims."""
    return name_errors(path, text, names.dns_subdomain(text))


def check_label_name(text: str, path: str) -> Iterator[Cause]:
    """Check the key of a label: taints, conditions."""
    return name_errors(path, text, names.label_key(text))


def check_label_value(text: str, path: str) -> Iterator[Cause]:
    """Check the value of a label or a taint."""
    return name_errors(path, text, names.label_value(text))


def check_required(
    text: str, path: str, check: Callable[[str, str], Iterator[Cause]]
) -> Iterator[Cause]:
    """Check a name that must not be empty."""
    if text:
        yield from check(text, path)
    else:
        yield field_errors.required(path)
