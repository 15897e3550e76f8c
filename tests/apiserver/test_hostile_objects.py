"""Small objects that are expensive for the server, and invalid frames."""

import gzip
import logging
import random

import pytest
import yaml

from apiserver.raw_http import connect
from apiserver.sample_crd import CRDS, THINGS, definition
from apiserver.sample_objects import CONFIGMAPS, configmap
from holdfast.cli.app import LogFormatter
from holdfast.runtime.errors import CAUSE_LIMIT

PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}


def thing(**fields):
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **fields}


async def test_defaults_cannot_outgrow_an_object(api):
    defaulted = {f"field{i}": {"type": "string", "default": "x" * 100} for i in range(100)}
    items = {"type": "array", "items": {"type": "object", "properties": defaulted}}
    await api.create(CRDS, definition({"items": items}))
    refused = await api.call("POST", THINGS, thing(items=[{}] * 500_000))
    assert refused.status == 413
    assert (await api.call("POST", THINGS, thing(items=[{}] * 10))).status == 201


async def test_defaults_cannot_nest_without_end(api):
    schema = {"type": "object"}
    for _ in range(20):
        properties = {"a": {"type": "array", "items": schema, "default": [{}] * 10}}
        schema = {"type": "object", "properties": properties}
    refused = await api.call("POST", CRDS, definition({"a": {**schema, "default": {}}}))
    assert refused.status == 422
    assert "default: Too long: the defaults of the object are more than" in refused.json["message"]


async def test_a_large_enumeration_takes_constant_time(api):
    values = [f"v{i}" for i in range(5000)]
    listed = {"type": "array", "items": {"type": "string", "enum": values}}
    await api.create(CRDS, definition({"listed": listed}))
    assert (await api.call("POST", THINGS, thing(listed=values[-1:] * 100_000))).status == 201
    refused = await api.call("POST", f"{THINGS}", thing(listed=["v"]))
    assert refused.json["message"].count("Unsupported value") == 1


async def test_an_enumeration_distinguishes_true_from_1(api):
    anything = {"x-kubernetes-preserve-unknown-fields": True, "enum": [1, "a", {"b": [1]}, None]}
    await api.create(CRDS, definition({"one": anything}))
    for value, status in ((1, 201), (True, 422), ({"b": [1]}, 201), ({"b": []}, 422)):
        answer = await api.call("POST", THINGS, thing(one=value), dryRun="All")
        assert answer.status == status, value


@pytest.mark.parametrize("wrong", [
    configmap("a") | {"metadata": {"name": "a", "labels": {f"!{i}": "" for i in range(4000)}}},
    configmap("a") | {"metadata": {"name": "a", "annotations": {f"!{i}": "" for i in range(9999)}}},
], ids=["labels", "annotations"])  # fmt: skip
async def test_an_error_names_a_hundred_fields_at_most(api, wrong):
    refused = await api.call("POST", CONFIGMAPS, wrong)
    assert refused.status == 422
    assert len(refused.json["details"]["causes"]) == CAUSE_LIMIT
    assert refused.json["message"].endswith("further errors are not shown]")
    assert len(refused.body) < 200_000


async def test_a_large_answer_in_yaml_is_json(api):
    await api.create(CONFIGMAPS, configmap("a", k="v" * 300_000))
    answer = await api.call("GET", CONFIGMAPS, headers={"accept": "application/yaml"})
    assert answer.headers["content-type"] == "application/yaml"
    assert answer.body[:1] == b"{"
    assert yaml.safe_load(answer.body)["items"][0]["data"]["k"] == "v" * 300_000


@pytest.mark.parametrize(("coding", "body"), [
    ("gzip", b"garbage"), ("deflate", b"garbage"), ("br", b"garbage"),
    ("gzip", gzip.compress(b"{}" * 100, mtime=0)[:-9] + b"123456789"),
], ids=["gzip", "deflate", "br", "checksum"])  # fmt: skip
async def test_a_body_that_cannot_be_unpacked_is_refused(api, coding, body):
    refused = await api.call("POST", CONFIGMAPS, body, headers={"content-encoding": coding})
    assert refused.status == 400, refused.body


async def test_a_bomb_is_not_unpacked(api):
    bomb = gzip.compress(b" " * 100_000_000, mtime=0)
    assert len(bomb) < 100_000
    refused = await api.call("POST", CONFIGMAPS, bomb, headers={"content-encoding": "gzip"})
    assert refused.status == 413


@pytest.mark.parametrize(("query", "status", "stored"), [
    ("dryRun=All&dryRun=All", 201, 0), ("dryRun=&dryRun=All", 422, 0),
    ("dryRun=All&dryRun=zzz", 422, 0), ("dryRun=", 201, 1),
])  # fmt: skip
async def test_a_repeated_dry_run_is_never_a_write(api, query, status, stored):
    made = await api.call("POST", f"{CONFIGMAPS}?{query}", configmap("a"))
    assert made.status == status
    assert len((await api.call("GET", CONFIGMAPS)).json["items"]) == stored


async def test_a_header_that_is_not_utf8_is_rejected(api):
    async with connect(api, admin=True) as client:
        head = f"GET /version HTTP/1.1\r\nHost: {client.host}\r\n".encode()
        await client.send(head + b"Impersonate-User: \xff\r\n\r\n")
        assert await client.status() == 400


def field(number, payload):
    return bytes([number << 3 | 2]) + bytes([len(payload)]) + payload


def framed(kind, raw):
    return b"k8s\0" + field(1, field(1, b"v1") + field(2, kind)) + field(2, raw)


VALID = framed(b"ConfigMap", field(1, field(1, b"a") + field(11, field(1, b"k") + field(2, b"v"))))
BROKEN = {
    "no object": framed(b"Time", b""),
    "time": framed(b"ConfigMap", field(1, field(8, b"\x08" + b"\xff" * 8 + b"\x7f"))),
    "number for a name": framed(b"ConfigMap", field(1, b"\x08\x05")),
    "number for metadata": framed(b"ConfigMap", b"\x08\x05"),
    "no UTF-8": framed(b"ConfigMap", field(1, field(1, b"\xff"))),
    "no such kind": framed(b"Zzz", b""),
    "cut": VALID[:-1],
    "no frame": b"k8s\0",
    "no magic": b"garbage",
}  # fmt: skip


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
async def test_an_invalid_protobuf_frame_is_rejected(api, body):
    assert (await api.call("POST", CONFIGMAPS, body, headers=PROTOBUF)).status == 400


async def test_mutated_protobuf_frames_are_never_an_internal_error(api):
    assert (await api.call("POST", CONFIGMAPS, VALID, headers=PROTOBUF)).status == 201
    dice = random.Random(1)
    for _ in range(500):
        body = bytearray(VALID)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(4, len(body))
            body[at : at + dice.randint(0, 2)] = dice.randbytes(dice.randint(0, 2))
        answer = await api.call("POST", CONFIGMAPS, bytes(body), headers=PROTOBUF, dryRun="All")
        assert answer.status in (201, 400, 404, 409, 422), bytes(body)


def test_a_client_cannot_forge_a_log_line(caplog):
    try:
        raise ValueError("first\nE holdfast: second")
    except ValueError:
        logging.getLogger("holdfast").exception("GET %s failed", "/x\r\nE holdfast: forged")
    for record in caplog.records:
        record.exc_text = None  # records of pytest
        first, *others = LogFormatter().format(record).split("\n")
        assert first.startswith("E holdfast: GET /x\\r\\nE holdfast: forged failed")
        assert others
        assert all(line.startswith("    ") for line in others)
