"""Quantities, versions, addresses, URLs and formats as engine values.

The engine has no such types. All are BYTES: a tag byte and a canonical text, so that the engine's
``==`` compares them by value. A quantity never equals a version because their tags differ.
"""

from __future__ import annotations

import re
from typing import Any

from holdfast.api.cel.semver import Semver
from holdfast.api.devices import DeviceAttribute
from holdfast.api.quantity import AmountText, Quantity
from holdfast.runtime.errors import BadRequest

_QUANTITY, _SEMVER = b"Q", b"V"
IP, CIDR, URL, FORMAT = b"I", b"C", b"U", b"F"
_NAMES = {IP: "an IP address", CIDR: "a CIDR", URL: "a URL", FORMAT: "a format"}
# ``pack`` never writes more than three digits of exponent; longer ones are a user's bytes.
_PACKED = re.compile(r"(-?[0-9]{1,400})(?:e(-?[0-9]{1,3}))?")


def pack(value: Quantity | Semver) -> bytes:
    """Encode a value; equal values have equal bytes.

    >>> pack(Quantity.parse("1.5Gi")) == pack(Quantity.parse("1536Mi"))
    True
    """
    if isinstance(value, Semver):
        return _SEMVER + str(value).encode()
    digits, scale = value.digits, value.scale
    while digits and digits % 10 == 0:
        digits, scale = digits // 10, scale + 1
    return _QUANTITY + (f"{digits}e{scale}" if digits else "0").encode()


def unpack(data: bytes | bytearray) -> Quantity | Semver:
    """Decode the output of ``pack``; raise BadRequest for any other bytes."""
    tag, text = bytes(data[:1]), bytes(data[1:]).decode(errors="replace")
    if tag == _SEMVER:
        return Semver.parse(text)
    if tag == _QUANTITY and (shape := _PACKED.fullmatch(text)):
        return Quantity(int(shape[1]), int(shape[2] or "0"))
    raise BadRequest("no such overload: neither a quantity nor a version")


def tagged(tag: bytes, text: str) -> bytes:
    """Encode an address, a URL or a format."""
    return tag + text.encode()


def untagged(tag: bytes, data: bytes | bytearray) -> str:
    """Decode the output of ``tagged``; raise BadRequest for any other bytes."""
    if bytes(data[:1]) != tag:
        raise BadRequest(f"no such overload: this is not {_NAMES[tag]}")
    return bytes(data[1:]).decode(errors="replace")


def quantity(text: AmountText) -> bytes:
    """Parse and encode a quantity."""
    return pack(Quantity.parse(text))


def semver(text: str) -> bytes:
    """Parse and encode a version."""
    return pack(Semver.parse(text))


def attribute(value: DeviceAttribute, *, lists: bool = False) -> Any:
    """Return a device attribute as an engine value; raise BadRequest if it has no value."""
    if lists and (several := _several(value)) is not None:
        return several
    for plain in (value.int_, value.bool_, value.string):
        if plain is not None:
            return plain
    if value.version is not None:
        return semver(value.version)
    raise BadRequest("unsupported attribute value")


def _several(value: DeviceAttribute) -> list[Any] | None:
    for plain in (value.ints, value.bools, value.strings):
        if plain is not None:
            return list(plain)
    return None if value.versions is None else [semver(text) for text in value.versions]
