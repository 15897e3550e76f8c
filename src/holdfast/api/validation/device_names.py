"""Names in resource.k8s.io: drivers, pools, attributes, shares of devices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.api import field_errors, names
from holdfast.api.validation.names import check_subdomain, name_errors
from holdfast.runtime.errors import Cause

_LONGEST_DRIVER = 63
_LONGEST_POOL = 253
_LONGEST_ID = 32
LONGEST_NAME = _LONGEST_DRIVER + 1 + _LONGEST_ID
"""The length of the longest qualified name."""
_HEX = frozenset("0123456789abcdefABCDEF")
_UID_SHAPE = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch


def check_driver(text: str, path: str) -> Iterator[Cause]:
    """Check the name of a driver: a short subdomain, in which upper case is tolerated."""
    if not text:
        yield field_errors.required(path)
        return
    if _size(text) > _LONGEST_DRIVER:
        yield field_errors.too_long(path, _LONGEST_DRIVER)
    yield from name_errors(path, text, names.dns_subdomain(text.lower()))


def check_pool(text: str, path: str) -> Iterator[Cause]:
    """Check the name of a pool: subdomains with slashes between them."""
    if not text:
        yield field_errors.required(path)
        return
    if _size(text) > _LONGEST_POOL:
        yield field_errors.too_long(path, _LONGEST_POOL)
    for part in text.split("/"):
        yield from check_subdomain(part, path)


def check_qualified(text: str, path: str) -> Iterator[Cause]:
    """Check an identifier with an optional domain; as upstream, names with two slashes pass."""
    parts = text.split("/")
    if len(parts) == 1:
        yield from _check_identifier(text, path)
    elif len(parts) == 2:
        domain, identifier = parts
        if domain:
            yield from check_driver(domain, path)
        else:
            yield field_errors.invalid(path, "", "the domain must not be empty")
        if identifier:
            yield from _check_identifier(identifier, path)
        else:
            yield field_errors.invalid(path, "", "the name must not be empty")


def check_fully_qualified(text: str, path: str) -> Iterator[Cause]:
    """Check an identifier with a domain."""
    yield from check_qualified(text, path)
    if "/" not in text:
        message = "a fully qualified name must be a domain and a name separated by a slash"
        yield field_errors.invalid(path, text, message)


def _check_identifier(text: str, path: str) -> Iterator[Cause]:
    if _size(text) > _LONGEST_ID:
        yield field_errors.too_long(path, _LONGEST_ID)
    yield from name_errors(path, text, names.c_identifier(text))


def check_share_id(text: str, path: str) -> Iterator[Cause]:
    """Check the UID of a share: a UUID in lower case."""
    if error := _uuid_error(text):
        yield field_errors.invalid(path, text, f"error validating uid: {error}")
    elif len(text) != 36 or text != text.lower():
        message = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
        yield field_errors.invalid(path, text, message)


def _uuid_error(text: str) -> str:
    """Return why a text is no UUID in any of its spellings, or ""."""
    match _size(text):
        case 36:
            plain = text
        case 45:
            if text[:9].lower() != "urn:uuid:":
                return f"invalid urn prefix: {field_errors.go_quoted(text[:9])}"
            plain = text[9:]
        case 38:
            if (text[0], text[-1]) != ("{", "}"):
                return "invalid bracketed UUID format"
            plain = text[1:-1]
        case 32:
            return "" if _HEX.issuperset(text) else "invalid UUID format"
        case length:
            return f"invalid UUID length: {length}"
    return "" if _UID_SHAPE(plain) else "invalid UUID format"


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
