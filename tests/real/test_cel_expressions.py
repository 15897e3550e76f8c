"""The same CEL expressions to a real kube-apiserver and to ours: accepted or refused alike.

Rules are compared by the fields of the errors, objects by the messages, too.

Known differences are listed with their reasons; every other one fails the test.
"""

import asyncio
import ssl

import aiohttp
import msgspec
import pytest

from apiserver.server_fixture import start_server
from cel import sample_rules, sample_selectors
from real.programs import until

pytestmark = pytest.mark.real
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SAMPLES = "/apis/cel.example.com/v1/samples"
DRY = {"dryRun": "All"}
KINDS = {"PATCH": "application/merge-patch+json"}


class Upstream:
    """A session with a real kube-apiserver."""

    def __init__(self, plane, session):
        self.url, self.session = plane.url, session

    async def call(self, method, path, body, **query):
        headers = {"content-type": KINDS.get(method, "application/json")}
        async with self.session.request(
            method, self.url + path, data=msgspec.json.encode(body), params=query, headers=headers
        ) as response:
            return response.status, msgspec.json.decode(await response.read())


class Ours:
    """A session with our server."""

    def __init__(self, running):
        self.running = running

    async def call(self, method, path, body, **query):
        headers = {"content-type": KINDS.get(method, "application/json")}
        answer = await self.running.call(method, path, body, headers=headers, **query)
        return answer.status, answer.json


@pytest.fixture
async def both(control_plane, tmp_path):
    """Both servers, as functions that send a request to each."""
    connector = aiohttp.TCPConnector(ssl=ssl._create_unverified_context())
    headers = {"authorization": f"Bearer {control_plane.token}"}
    async with (
        start_server(tmp_path) as running,
        aiohttp.ClientSession(connector=connector, headers=headers) as session,
    ):
        servers = (Upstream(control_plane, session), Ours(running))

        async def send(method, path, body, **query):
            return await asyncio.gather(*(s.call(method, path, body, **query) for s in servers))

        yield send


def is_established(plane):
    conditions = plane.get("crd", "samples.cel.example.com").get("status", {}).get("conditions")
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions or ())


def device_class(expression):
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }  # fmt: skip


ROOT_RULES = [
    {"rule": "self.metadata.name != 'forbidden' && self.kind == 'Sample'", "message": "no"},
    {"rule": "!has(self.metadata.generateName) && self.apiVersion == 'cel.example.com/v1'"},
    {"rule": "self.spec.?root.orValue('') == '' || self.spec.root == self.metadata.name"},
]


def definition(properties, rules=()):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        name: schema for name, schema in properties.items()}}}}  # fmt: skip
    schema["x-kubernetes-validations"] = list(rules)
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "samples.cel.example.com"},
        "spec": {
            "group": "cel.example.com", "scope": "Cluster",
            "names": {"plural": "samples", "kind": "Sample"},
            "versions": [{"name": "v1", "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": schema}}],
        },
    }  # fmt: skip


def with_rule(schema, rule):
    return {**schema, "x-kubernetes-validations": [rule]}


def sample(name, spec, version=""):
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    return {"apiVersion": "cel.example.com/v1", "kind": "Sample", "metadata": metadata,
            "spec": spec}  # fmt: skip


def causes(answer):
    """Return what an answer says of which field, without the texts of the engines."""
    status, body = answer
    found = (body.get("details") or {}).get("causes") or ()
    return status, sorted((_path(c.get("field", "")), c.get("reason")) for c in found)


def _path(field):
    # Upstream moves the schema of a CRD with one version before it is validated.
    return field.replace("spec.validation.", "spec.versions[0].schema.")


def report(unlike):
    shown = "\n".join(f"{what}\n  theirs: {t}\n  ours:   {o}" for what, t, o in unlike)
    return f"{len(unlike)} differ\n{shown}"


def said(answer):
    return answer[0], str(answer[1].get("message", ""))[:600]


async def test_selectors_are_accepted_or_refused_alike(both):
    unlike = []
    for expression in sample_selectors.DEVICES:
        theirs, ours = await both("POST", CLASSES, device_class(expression), **DRY)
        if theirs[0] != ours[0] and expression not in sample_selectors.DIFFERENT:
            unlike.append((expression, said(theirs), said(ours)))
    assert not unlike, report(unlike)


async def test_rules_are_accepted_or_refused_alike(both):
    unlike = []
    for schema, rule in sample_rules.WRITTEN:
        body = definition({"x": with_rule(schema, rule)})
        theirs, ours = await both("POST", CRDS, body, **DRY)
        if causes(theirs) != causes(ours):
            unlike.append((rule, said(theirs), said(ours)))
    assert not unlike, report(unlike)


async def test_objects_are_judged_alike(both, control_plane):
    cases = [(s, r, values) for s, r, values in sample_rules.JUDGED if values]
    changes = sample_rules.CHANGED
    named = {f"j{i}": with_rule(s, r) for i, (s, r, _) in enumerate(cases)}
    named |= {f"c{i}": with_rule(s, r) for i, (s, r, _) in enumerate(changes)}
    named["root"] = sample_rules.TEXT
    answers = await both("POST", CRDS, definition(named, ROOT_RULES))
    assert [status for status, _ in answers] == [201, 201], answers
    until(lambda: is_established(control_plane))
    unlike = []

    def compare(what, theirs, ours):
        if said(theirs) != said(ours) and what not in list(sample_rules.DIFFERENT_MESSAGES):
            unlike.append((what, said(theirs), said(ours)))

    try:
        for name, spec in (("forbidden", {}), ("a", {"root": "b"}), ("b", {"root": "b"})):
            body = sample(name, spec)
            theirs, ours = await both("POST", SAMPLES, body, **DRY)
            compare(("root", name), theirs, ours)
        for i, (_, rule, values) in enumerate(cases):
            for value in values:
                body = sample("judged", {f"j{i}": value})
                theirs, ours = await both("POST", SAMPLES, body, **DRY)
                compare((rule["rule"], value), theirs, ours)
        for i, (_, rule, pairs) in enumerate(changes):
            for j, (before, after) in enumerate(pairs):
                name = f"changed-{i}-{j}"
                old, new = (
                    {} if v is sample_rules.ABSENT else {f"c{i}": v} for v in (before, after)
                )
                created = await both("POST", SAMPLES, sample(name, old))
                if any(status != 201 for status, _ in created):
                    compare((rule["rule"], before), *created)
                    continue
                patch = {"spec": {f"c{i}": new.get(f"c{i}")}}
                changed = await both("PATCH", f"{SAMPLES}/{name}", patch)
                compare((rule["rule"], before, after), *changed)
    finally:
        await both("DELETE", f"{CRDS}/samples.cel.example.com", {})
    assert not unlike, report(unlike)
