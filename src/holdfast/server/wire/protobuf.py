"""Decode Kubernetes protobuf bodies, which Go clients send for built-in kinds.

A body is four magic bytes and a ``runtime.Unknown``, which contains the kind and the object. Go
encodes every field that is not a pointer, so zero values arrive where JSON would omit the field;
the generated table says which fields those are (see ``tools/api_data/protos.py``). Times,
quantities and some unions are messages that are not objects in JSON.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.api.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, read_varint
from holdfast.api.timestamps import rfc3339, rfc3339_micro
from holdfast.runtime.errors import BadRequest
from holdfast.server import data
from holdfast.server.wire.nesting_limit import too_deep

MAGIC = b"k8s\x00"

_REPEATED, _MAP, _KEEP, _INLINE = 1, 2, 4, 8
_MACHINERY = "k8s.io.apimachinery.pkg"
_META = f"{_MACHINERY}.apis.meta.v1"
_UNKNOWN = f"{_MACHINERY}.runtime.Unknown"
_RAW = f"{_MACHINERY}.runtime.RawExtension"
_EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"
_DEPTH_LIMIT = 100
_SCALAR_WIRE = {
    "string": BYTES, "bytes": BYTES, "bool": VARINT, "int": VARINT, "double": FIXED64,
}  # fmt: skip


# OSError and OverflowError: a timestamp outside the calendar.
_DECODE_ERRORS = (IndexError, OSError, OverflowError, RecursionError, struct.error, ValueError)


def _quantity(value: dict[str, Any]) -> str:
    return value.get("string") or "0"


def _time(value: dict[str, Any]) -> str | None:
    """Return the time in whole seconds, as in JSON; Go's zero time is an empty message."""
    return rfc3339(value["seconds"]) if "seconds" in value else None


def _micro_time(value: dict[str, Any]) -> str | None:
    if "seconds" not in value:
        return None
    return rfc3339_micro(value["seconds"] + value.get("nanos", 0) // 1000 / 1e6)


def _int_or_string(value: dict[str, Any]) -> int | str:
    text: str = value.get("strVal", "")
    number: int = value.get("intVal", 0)
    return text if value.get("type") else number


def _raw_json(value: dict[str, Any]) -> Any:
    raw = value.get("raw") or value.get("Raw")
    return msgspec.json.decode(raw) if raw else None


def _schema_or_bool(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("allows", False)


def _schema_or_list(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("jSONSchemas", [])


def _schema_or_names(value: dict[str, Any]) -> Any:
    return value["schema"] if "schema" in value else value.get("property", [])


def _duration(value: dict[str, Any]) -> str:
    """Format a duration as Go does, with nanoseconds."""
    nanos = value.get("duration", 0)
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    seconds, rest = divmod(nanos, 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    tail = f"{seconds}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(seconds)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{tail}s"


_SPECIAL_TYPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    f"{_MACHINERY}.api.resource.Quantity": _quantity,
    f"{_META}.Time": _time,
    f"{_META}.MicroTime": _micro_time,
    f"{_META}.Duration": _duration,
    f"{_META}.FieldsV1": _raw_json,
    f"{_MACHINERY}.util.intstr.IntOrString": _int_or_string,
    f"{_EXTENSIONS}.JSON": _raw_json,
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": _schema_or_list,
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": _schema_or_names,
}


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message."""

    name: str
    kind: str  # a scalar's name, or "" for a message
    flags: int
    message: _Message | None


@dataclass(slots=True)
class _Message:
    """One message: its fields by number, and the conversion to JSON if it is not an object."""

    name: str
    fields: dict[int, _Field] = field(default_factory=dict)
    finish: Callable[[dict[str, Any]], Any] | None = None


def decode_body(body: bytes) -> dict[str, Any]:
    """Decode a body to the object that the same request in JSON would contain.

    Raises BadRequest for an invalid body or an unknown kind.
    """
    if not body.startswith(MAGIC):
        raise BadRequest("the body is no Kubernetes protobuf: it does not start with k8s\\x00")
    try:
        return _decode_unknown(body[len(MAGIC) :], 0)
    except _DECODE_ERRORS as broken:
        raise BadRequest(f"the protobuf body cannot be read: {broken}") from broken


def _decode_unknown(frame: bytes, depth: int) -> dict[str, Any]:
    unknown = _read(frame, _message(_UNKNOWN), depth)
    api_version, kind = unknown.get("apiVersion", ""), unknown.get("kind", "")
    raw: bytes = unknown.get("raw", b"")
    out: dict[str, Any] = {"kind": kind, "apiVersion": api_version}
    if unknown.get("contentType") == "application/json":
        out.update(msgspec.json.decode(raw, type=dict[str, Any]))
    else:
        value = _read(raw, _message_of(api_version, kind), depth)
        if not isinstance(value, dict):
            raise BadRequest(f'the kind "{kind}" is not that of an object')
        out.update(value)
    return out


def _message_of(api_version: str, kind: str) -> _Message:
    """Return the message of a kind; DeleteOptions and the like exist in every group version."""
    table = data.load("protobuf")
    for package in (table["groups"].get(api_version), _META):
        if package and f"{package}.{kind}" in table["messages"]:
            return _message(f"{package}.{kind}")
    raise BadRequest(
        f'no kind "{kind}" is registered for version "{api_version}" in protobuf form; '
        "send JSON instead"
    )


def _message(name: str) -> _Message:
    """Return a message, cached; it is cached before its fields, for recursive types."""
    if known := _messages.get(name):
        return known
    message = _messages[name] = _Message(name, finish=_SPECIAL_TYPES.get(name))
    for number, json_name, kind, flags in data.load("protobuf")["messages"][name]:
        scalar = kind in _SCALAR_WIRE
        inner = None if scalar else _message(kind)
        message.fields[number] = _Field(json_name, kind if scalar else "", flags, inner)
    if [f.name for f in message.fields.values()] == [""]:  # the Go type is a bare list
        message.finish = lambda value: value.get("", [])
    return message


_messages: dict[str, _Message] = {}


def _read(buffer: bytes, message: _Message, depth: int) -> Any:
    """Decode one message."""
    if depth > _DEPTH_LIMIT:
        raise too_deep(_DEPTH_LIMIT)
    out: dict[str, Any] = {}
    fields, at, end = message.fields, 0, len(buffer)
    while at < end:
        tag = buffer[at]  # nearly always one byte; a call of read_varint would be slow
        at += 1
        if tag > 127:
            tag, at = read_varint(buffer, at - 1)
        known = fields.get(tag >> 3)
        if tag & 7 == BYTES:
            piece, at = _read_delimited(buffer, at)
            if known is not None:
                _decode_delimited(out, known, piece, depth)
        else:
            value, at = _read_number(buffer, at, tag & 7)
            if known is not None:
                if _SCALAR_WIRE.get(known.kind) != tag & 7:
                    raise IndexError(f"{known.name} is not of the wire type {tag & 7}")
                _put(out, known, _scalar(known.kind, value))
    return message.finish(out) if message.finish else out


def _decode_delimited(out: dict[str, Any], known: _Field, piece: bytes, depth: int) -> None:
    """Decode one length-delimited field: text, a message, a map entry or packed numbers."""
    if known.flags & _MAP:
        key, value = _entry(known, piece, depth)
        out.setdefault(known.name, {})[key] = value
    elif known.kind == "string":
        _put(out, known, str(piece, "utf-8"))
    elif known.message is not None:
        value = _nested(known.message, piece, depth)
        if known.flags & _INLINE:
            out.update(value)
        else:
            _put(out, known, value)
    elif known.kind == "bytes":
        _put(out, known, _text(known, piece))
    else:  # packed numbers
        at = 0
        while at < len(piece):
            number, at = _read_number(piece, at, _SCALAR_WIRE[known.kind])
            _put(out, known, _scalar(known.kind, number))


def _nested(message: _Message, piece: bytes, depth: int) -> Any:
    value = _read(piece, message, depth + 1)
    if message.name != _RAW:
        return value
    raw: bytes = value.get("raw", b"")
    if raw.startswith(MAGIC):
        return _decode_unknown(raw[len(MAGIC) :], depth + 1)
    return msgspec.json.decode(raw) if raw else None


def _entry(known: _Field, entry: bytes, depth: int) -> tuple[str, Any]:
    """Decode one map entry; an absent value is the empty value of its type."""
    parts: dict[int, bytes] = {}
    at = 0
    while at < len(entry):
        tag, at = read_varint(entry, at)
        parts[tag >> 3], at = _read_delimited(entry, at)
    value = parts.get(2, b"")
    return str(parts.get(1, b""), "utf-8"), (
        _text(known, value) if known.message is None else _nested(known.message, value, depth)
    )


def _put(out: dict[str, Any], known: _Field, value: Any) -> None:
    if known.flags & _REPEATED:
        out.setdefault(known.name, []).append(value)
    elif value is not None and (known.flags & _KEEP or value):
        out[known.name] = value


def _text(known: _Field, raw: bytes) -> Any:
    if known.kind == "string":
        return str(raw, "utf-8")
    # "raw" and "Raw" contain JSON; every other bytes field is base64 in JSON.
    return raw if known.name in ("raw", "Raw") else b64encode(raw).decode()


def _scalar(kind: str, value: int | float) -> Any:
    if kind == "bool":
        return bool(value)
    if kind == "int" and value >= 1 << 63:
        return int(value) - (1 << 64)
    return value


def _read_delimited(buffer: bytes, at: int) -> tuple[bytes, int]:
    size = buffer[at]
    at += 1
    if size > 127:
        size, at = read_varint(buffer, at - 1)
    end = at + size
    if end > len(buffer):
        raise IndexError("it ends in the middle of a field")
    return buffer[at:end], end


def _read_number(buffer: bytes, at: int, wire: int) -> tuple[int | float, int]:
    if wire == VARINT:
        return read_varint(buffer, at)
    if wire == FIXED64:
        return struct.unpack_from("<d", buffer, at)[0], at + 8
    if wire == FIXED32:
        return struct.unpack_from("<f", buffer, at)[0], at + 4
    raise IndexError(f"it uses the wire type {wire}, which Kubernetes does not")
