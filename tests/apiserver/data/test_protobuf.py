"""Protobuf bodies as Go clients send them, compared with the same objects in JSON."""

import base64
import json
from pathlib import Path

import pytest

from apiserver.data.protobuf_fields import field, framed
from holdfast.runtime.errors import BadRequest
from holdfast.server.wire.protobuf import MAGIC, decode_body

RECORDED = json.loads(Path(__file__).with_name("protobuf_bodies.json").read_text())


def without_empty(value):
    """Drop nulls and empty maps, because Go encodes empty structs."""
    if isinstance(value, dict):
        kept = {k: without_empty(v) for k, v in value.items() if v is not None}
        return {k: v for k, v in kept.items() if v != {}}
    return [without_empty(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", RECORDED["kubectl"], ids=lambda case: case["command"])
def test_kubectl_bodies_decode_to_the_object(case):
    assert decode_body(base64.b64decode(case["body"])) == case["object"]


@pytest.mark.parametrize("case", RECORDED["objects"], ids=lambda case: case["path"])
def test_decoding_equals_the_json_of_a_real_api_server(case):
    decoded = decode_body(base64.b64decode(case["body"]))
    assert without_empty(decoded) == without_empty(case["object"])


def test_zeros_of_plain_fields_are_dropped_and_zeros_of_pointers_are_kept():
    # DeploymentSpec: replicas (pointer) = 0, minReadySeconds (plain) = 0, paused (plain) = false
    spec = bytes([1 << 3, 0, 5 << 3, 0, 7 << 3, 0])
    assert decode_body(framed("apps/v1", "Deployment", field(2, spec))) == {
        "kind": "Deployment", "apiVersion": "apps/v1", "spec": {"replicas": 0},
    }  # fmt: skip


def test_negative_numbers_are_ten_bytes_long():
    value = bytes([2 << 3, *([255] * 9), 1])  # PriorityClass.value = -1
    assert decode_body(framed("scheduling.k8s.io/v1", "PriorityClass", value))["value"] == -1


def test_delete_options_are_known_in_every_group_version():
    grace = bytes([1 << 3, 0])
    body = decode_body(framed("apps/v1", "DeleteOptions", grace))
    assert body == {"kind": "DeleteOptions", "apiVersion": "apps/v1", "gracePeriodSeconds": 0}


def test_raw_json_is_kept_even_if_it_is_an_empty_object():
    opaque = field(1, b"d.io") + field(2, field(1, b"{}"))
    spec = field(2, field(1, field(1, opaque)))  # DeviceClassSpec.config[0].opaque, inlined
    decoded = decode_body(framed("resource.k8s.io/v1", "DeviceClass", field(2, spec)))
    assert decoded["spec"]["config"] == [{"opaque": {"driver": "d.io", "parameters": {}}}]


def test_unknown_fields_are_skipped():
    body = framed("v1", "Namespace", field(1, field(1, b"n")) + field(99, b"future"))
    assert decode_body(body)["metadata"] == {"name": "n"}


def test_a_json_payload_inside_the_frame_is_read_as_json():
    body = framed("v1", "Namespace", b'{"metadata":{"name":"n"}}', field(4, b"application/json"))
    assert decode_body(body)["metadata"] == {"name": "n"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "does not start with"),
        (MAGIC + b"\x0a\xff", "cannot be read"),
        (MAGIC + field(1, field(1, b"v1"))[:-1], "cannot be read"),
        (framed("v1", "Sandwich", b""), 'no kind "Sandwich"'),
        (framed("example.com/v1", "Widget", b""), "send JSON instead"),
        (framed("v1", "Namespace", field(1, field(1, b"\xff"))), "cannot be read"),
        (framed("v1", "Namespace", b"\x0b"), "wire type 3"),
    ],
)
def test_invalid_bodies_are_rejected_with_a_reason(body, words):
    with pytest.raises(BadRequest, match=words):
        decode_body(body)


def test_too_deep_nesting_is_rejected():
    schema = b""
    for _ in range(150):
        schema = field(28, schema)  # JSONSchemaProps.not
    version = field(4, field(1, schema))
    raw = field(2, field(7, version))
    with pytest.raises(BadRequest, match="levels deep"):
        decode_body(framed("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw))
