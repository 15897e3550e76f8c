"""The parts of protobuf's wire format that several parsers need."""

from __future__ import annotations

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types: the low three bits of the key before each field."""


def read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    r"""Parse a varint of up to 64 bits; return it and the offset after it.

    Raises IndexError if it is longer or truncated.

    >>> read_varint(b"\xac\x02", 0)
    (300, 2)
    """
    value = buffer[at]
    at += 1
    if value < 128:
        return value, at
    value, shift = value & 127, 7
    while shift < 64:
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise IndexError("it holds a number that is too long")
