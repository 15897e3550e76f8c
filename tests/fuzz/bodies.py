"""Encode objects as bodies: JSON, YAML, protobuf, sometimes damaged."""

from __future__ import annotations

import json
import struct
from typing import Any

import yaml

from fuzz.mutation import few_pods
from fuzz.odd_values import MEDIA, RAW_BODIES
from fuzz.values import Values
from holdfast.server import data

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_REPEATED, _MAP = 1, 2
_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "k8s.io.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "k8s.io.apimachinery.pkg.util.intstr.IntOrString"


def write_body(values: Values, obj: Any) -> tuple[str, bytes]:
    """Return (content type, body) of an object, sometimes damaged."""
    few_pods(obj)
    roll = values.rng.random()
    if roll < 0.82:
        media, body = JSON, as_json(obj)
    elif roll < 0.91:
        media, body = YAML, as_yaml(values, obj)
    elif roll < 0.97:
        media, body = PROTOBUF, as_protobuf(obj)
    elif roll < 0.985:
        media, body = values.pick((JSON, YAML, PROTOBUF)), values.pick(RAW_BODIES)
    else:
        media, body = values.pick(MEDIA), as_json(obj)
    if values.chance(0.015):
        body = damage(values, body)
    return media, body


def as_json(obj: Any) -> bytes:
    try:
        return json.dumps(obj).encode()
    except RecursionError:
        return b'{"a":' * 2_000 + b"1" + b"}" * 2_000


def as_yaml(values: Values, obj: Any) -> bytes:
    """Return YAML; values that block style cannot represent are written as JSON."""
    if values.chance(0.3):
        return as_json(obj)
    try:
        return yaml.dump(obj, Dumper=yaml.CSafeDumper).encode()
    except (yaml.YAMLError, UnicodeError, RecursionError):
        return as_json(obj)


def damage(values: Values, body: bytes) -> bytes:
    """Return bytes with some changed, dropped or repeated."""
    if not body:
        return body
    at = values.rng.randrange(len(body))
    how = values.rng.randrange(4)
    if how == 0:
        return body[:at]
    if how == 1:
        return body[:at] + bytes([values.rng.randrange(256)]) + body[at + 1 :]
    if how == 2:
        return body[:at] + body[at : at + 40] * values.pick((2, 50)) + body[at + 40 :]
    return body + body[at:]


def as_protobuf(obj: Any) -> bytes:
    """Encode an object as Go clients do; fields of wrong types are left out."""
    api_version = str(obj.get("apiVersion", "")) if isinstance(obj, dict) else ""
    kind = str(obj.get("kind", "")) if isinstance(obj, dict) else ""
    table = data.load("protobuf")
    name = next(
        (
            f"{package}.{kind}"
            for package in (table["groups"].get(api_version), _META)
            if package and f"{package}.{kind}" in table["messages"]
        ),
        "",
    )
    text = (api_version.encode("utf-8", "replace"), kind.encode("utf-8", "replace"))
    raw = _message(obj, name, 0) if name else as_json(obj)
    type_meta = _piece(1, text[0]) + _piece(2, text[1])
    frame = _piece(1, type_meta) + _piece(2, raw)
    return b"k8s\x00" + (frame if name else frame + _piece(4, b"application/json"))


def _message(value: Any, name: str, depth: int) -> bytes:
    if name == _QUANTITY:
        return _piece(1, str(value).encode("utf-8", "replace"))
    if name == _INT_OR_STRING:
        if isinstance(value, int):
            return _number(1, 0) + _number(2, value)
        return _number(1, 1) + _piece(3, str(value).encode("utf-8", "replace"))
    if not isinstance(value, dict) or depth > 120:
        return b""
    out = b""
    for number, json_name, kind, flags in data.load("protobuf")["messages"][name]:
        inner = value.get(json_name)
        if inner is None:
            continue
        if flags & _MAP and isinstance(inner, dict):
            for key, one in inner.items():
                entry = _piece(1, str(key).encode("utf-8", "replace"))
                out += _piece(number, entry + _field(2, one, kind, depth))
        elif flags & _REPEATED and isinstance(inner, list):
            for one in inner:
                out += _field(number, one, kind, depth)
        else:
            out += _field(number, inner, kind, depth)
    return out


def _field(number: int, value: Any, kind: str, depth: int) -> bytes:
    if kind in ("bool", "int"):
        return _number(number, int(value)) if isinstance(value, bool | int) else b""
    if kind == "double":
        is_number = isinstance(value, int | float) and abs(value) < 1e300
        return _varint(number << 3 | 1) + struct.pack("<d", value) if is_number else b""
    if kind in ("string", "bytes"):
        return _piece(number, str(value).encode("utf-8", "replace"))
    return _piece(number, _message(value, kind, depth + 1))


def _piece(number: int, raw: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
