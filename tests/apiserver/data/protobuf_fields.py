"""Encode protobuf messages field by field."""

from holdfast.server.wire.protobuf import MAGIC


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def framed(api_version, kind, raw, extra=b""):
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, meta) + field(2, raw) + extra
