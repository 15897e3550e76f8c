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


Fields = list[tuple[int, int | bytes]]
"""Number and content of each field of a message."""
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}


def message_fields(data: bytes) -> Fields:
    r"""Return the fields of a message: numbers, and bytes for all other types.

    >>> message_fields(b"\x08\x05\x12\x01a")
    [(1, 5), (2, b'a')]
    """
    fields: Fields = []
    at, end = 0, len(data)
    while at < end:
        key, at = (data[at], at + 1) if data[at] < 128 else read_varint(data, at)
        wire = key & 7
        if wire in _FIXED_SIZES:
            size = _FIXED_SIZES[wire]
        else:
            size, at = (data[at], at + 1) if data[at] < 128 else read_varint(data, at)
        if wire == VARINT:
            fields.append((key >> 3, size))
            continue
        fields.append((key >> 3, data[at : at + size]))
        at += size
    return fields
