"""Bodies that try to exhaust a parser are rejected, and the server goes on."""

import base64
import io

import aiohttp
import msgspec
import pytest

from apiserver.sample_objects import CONFIGMAPS, PODS, configmap
from apiserver.server_subprocess import server_process
from holdfast.runtime.clock import SystemClock
from holdfast.server.access.credentials import ensure_credentials
from tls_client import client_context

JSON = "application/json"
YAML = "application/yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SELECTORS = "/api/v1/pods?labelSelector="


def crd(schema):
    return msgspec.json.encode({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": schema}}],
        },
    })  # fmt: skip


def with_rule(rule):
    return crd({"type": "object", "x-kubernetes-validations": [{"rule": rule}]})


def nested_schema(depth):
    schema = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


DEEP = {
    "YAML brackets": (CONFIGMAPS, YAML, b"[" * 30_000),
    "YAML brackets, 3 MB": (CONFIGMAPS, YAML, b"[" * 3_000_000),
    "YAML braces": (CONFIGMAPS, YAML, b"{a: " * 700_000),
    "YAML dashes": (CONFIGMAPS, YAML, b"- " * 1_000_000),
    "YAML question marks": (CONFIGMAPS, YAML, b"? " * 1_000_000),
    "YAML indentation": (CONFIGMAPS, YAML, b"".join(b" " * i + b"a:\n" for i in range(2000))),
    "YAML directives": (CONFIGMAPS, YAML, b"".join(b"%%TAG !%d! x\n" % i for i in range(99_999))),
    "YAML of base 60": (CONFIGMAPS, YAML, b"a: " + b"1:" * 700_000 + b"1"),
    "YAML number": (CONFIGMAPS, YAML, b"metadata: {name: 0x" + b"f" * 100_000 + b"}"),
    "YAML values": (CONFIGMAPS, YAML, b"[" + b"a," * 1_400_000 + b"]"),
    "YAML aliases": (CONFIGMAPS, YAML, b"a: &a [x]\nb: [*a, *a]"),
    "JSON brackets": (CONFIGMAPS, JSON, b"[" * 3_000_000),
    "JSON braces": (CONFIGMAPS, JSON, b'{"a":' * 600_000),
    "JSON 201 levels": (CONFIGMAPS, JSON, b'{"a":' * 202 + b"1" + b"}" * 202),
    "JSON long names": (CONFIGMAPS, JSON, b'{"%s":{"a":1}}' % (b"k" * 1_000_000)),
    "JSON digits": (CONFIGMAPS, JSON, b'{"a":' + b"9" * 3_000_000 + b"}"),
    "selector": (SELECTORS + "a+in+" + "(" * 20_000, JSON, None),
    "CEL parentheses": (CRDS, JSON, with_rule("(" * 20_000 + "true" + ")" * 20_000)),
    "CEL lists": (CRDS, JSON, with_rule("[" * 20_000 + "1" + "]" * 20_000)),
    "CEL selections": (CRDS, JSON, with_rule("self" + ".a" * 20_000)),
    "CEL sum": (CRDS, JSON, with_rule("1" + "+1" * 20_000)),
    "CEL size": (CRDS, JSON, with_rule("true ||" * 200_000 + "true")),
    "CRD schema": (CRDS, JSON, crd(nested_schema(150))),
}  # fmt: skip


async def test_nesting_is_limited_before_a_recursive_parser_reads_it(tmp_path):
    credentials = ensure_credentials(tmp_path / "pki", SystemClock().now())
    connector = aiohttp.TCPConnector(ssl=client_context(credentials))
    statuses = {}
    async with (
        server_process(tmp_path) as (process, url),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        for name, (path, media, body) in DEEP.items():
            method, headers = "POST" if body else "GET", {"content-type": media}
            sent = io.BytesIO(body) if body else None
            async with session.request(method, url + path, data=sent, headers=headers) as got:
                statuses[name] = got.status
        async with session.get(url + CONFIGMAPS) as got:
            assert got.status == 200
        assert process.returncode is None
    assert {n: s for n, s in statuses.items() if s not in (400, 413, 422)} == {}


REFUSED = {
    "empty": b"", "null": b"null", "list": b"[]", "number": b"5", "text": b'"a"',
    "byte order mark": b"\xef\xbb\xbf{}", "UTF-16": "{}".encode("utf-16"),
    "no UTF-8": b'{"metadata":{"name":"\xff"}}', "lone surrogate": b'{"kind":"\\ud800"}',
    "NaN": b'{"a":NaN}', "Infinity": b'{"a":-Infinity}', "1e400": b'{"a":1e400}',
    "5,000 digits": b'{"a":%s}' % (b"9" * 5000), "cut": b'{"metadata":{',
    "two": b"{}{}", "comment": b"{}//", "control": b'{"a":"\x00"}',
    "kind": b'{"kind":"Pod","metadata":{"name":"a"}}', "kind number": b'{"kind":5}',
    "version": b'{"apiVersion":"v2","metadata":{"name":"a"}}',
    "metadata list": b'{"metadata":[]}', "metadata text": b'{"metadata":"a"}',
    "name number": b'{"metadata":{"name":5}}', "no name": b'{"metadata":{}}',
    "long name": b'{"metadata":{"name":"%s"}}' % (b"a" * 100_000),
    "name of a directory": b'{"metadata":{"name":".."}}',
    "name with NUL": b'{"metadata":{"name":"a\\u0000b"}}',
    "labels of numbers": b'{"metadata":{"name":"a","labels":{"a":1}}}',
    "labels list": b'{"metadata":{"name":"a","labels":["a"]}}',
    "data list": b'{"metadata":{"name":"a"},"data":[1]}',
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
async def test_a_body_that_is_not_an_object_of_the_kind_is_rejected(api, body):
    refused = await api.call("POST", CONFIGMAPS, body)
    assert refused.status in (400, 422), refused.body
    assert refused.json["kind"] == "Status"
    assert (await api.call("GET", CONFIGMAPS)).json["items"] == []


YAML_REFUSED = {
    "infinite": b"a: .inf", "binary": b"a: !!binary aGVsbG8=", "set": b"!!set {a, b}",
    "object": b"!!python/object/apply:os.system [ls]", "second document": b"a: 1\n---\nb: 2",
    "key": b"{[a]: b}", "repeated key": b"a: 1\na: 2", "UTF-16": "a: b".encode("utf-16"),
    "no number": b"a: !!int x", "no bool": b"a: !!bool x", "surrogate": b'a: "\\ud800"',
}  # fmt: skip


@pytest.mark.parametrize("body", YAML_REFUSED.values(), ids=YAML_REFUSED)
async def test_yaml_that_is_no_json_is_refused(api, body):
    refused = await api.call("POST", CONFIGMAPS, body, headers={"content-type": YAML})
    assert refused.status == 400, refused.body
    assert "error converting YAML to JSON: " in refused.json["message"]


async def test_yaml_scalars_are_decoded_as_in_kubernetes(api):
    text = b"metadata: {name: a, annotations: {t: 2001-01-01, m: 1:30, o: 'on'}}\ndata: {1: 'true'}"
    made = await api.call("POST", CONFIGMAPS, text, headers={"content-type": YAML})
    assert made.status == 201, made.body
    assert made.json["metadata"]["annotations"] == {"t": "2001-01-01", "m": "1:30", "o": "on"}
    assert made.json["data"] == {"1": "true"}


NUMBERS = {
    "timeoutSeconds": "9" * 400, "limit": "1_000", "gracePeriodSeconds": "9" * 4400,
    "resourceVersion": "9" * 4400,
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), NUMBERS.items(), ids=NUMBERS)
async def test_a_number_that_go_could_not_read_is_refused(api, name, value):
    watch = {"watch": "true"} if name == "timeoutSeconds" else {}
    method = "DELETE" if name == "gracePeriodSeconds" else "GET"
    refused = await api.call(method, PODS, **{name: value}, **watch)
    assert refused.status == 400, refused.body
    assert "strconv.Parse" in refused.json["message"]


async def test_a_continue_token_is_checked(api):
    for name in "abc":
        await api.create(CONFIGMAPS, configmap(name))
    token = (await api.call("GET", CONFIGMAPS, limit="1")).json["metadata"]["continue"]
    assert (await api.call("GET", CONFIGMAPS, **{"continue": token})).status == 200
    for forged, status in (
        ({"v": "meta.k8s.io/v1", "rv": 999_999, "start": "default/a"}, 504),
        ({"v": "meta.k8s.io/v1", "rv": 0, "start": "default/a"}, 400),
        ({"v": "meta.k8s.io/v1", "rv": 1 << 70, "start": "default/a"}, 400),
        ({"v": "meta.k8s.io/v1", "rv": 5, "start": ""}, 400),
        ({"v": "meta.k8s.io/v2", "rv": 5, "start": "default/a"}, 400),
        ([5], 400),
    ):
        text = msgspec.json.encode(forged)
        refused = await api.call("GET", CONFIGMAPS, **{"continue": _base64(text)})
        assert refused.status == status, (forged, refused.body)
    for garbage in ("", "%", "é", "a" * 10_000, _base64(b"[" * 5000)):
        answer = await api.call("GET", CONFIGMAPS, **{"continue": garbage})
        assert answer.status == (400 if garbage else 200), garbage


def _base64(text):
    return base64.urlsafe_b64encode(text).decode().rstrip("=")
