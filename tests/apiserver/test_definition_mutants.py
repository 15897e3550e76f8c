"""A mutant of a CustomResourceDefinition is rejected, or it works."""

from __future__ import annotations

import pytest

from apiserver.media_types import MERGE, TABLE
from apiserver.mutants import mutants
from apiserver.server_fixture import start_server
from apiserver.widgets import CRDS, definition
from soak_size import some_of

SPEC = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "too small"}],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "format": "int32"},
        "colour": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "name": {"type": "string", "pattern": "^a+$", "minLength": 1, "maxLength": 9},
        "both": {"x-kubernetes-int-or-string": True,
                 "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "maxItems": 5,
                 "x-kubernetes-list-map-keys": ["k"],
                 "items": {"type": "object", "required": ["k"],
                           "properties": {"k": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "not": {"type": "integer", "not": {"enum": [7]}, "nullable": True},
    },
}  # fmt: skip


def full():
    body = definition(
        names={"plural": "widgets", "singular": "widget", "kind": "Widget",
               "listKind": "WidgetList", "shortNames": ["wd"], "categories": ["all"]},
        conversion={"strategy": "None"}, preserveUnknownFields=False,
    )  # fmt: skip
    body["metadata"] |= {"labels": {"a": "b"}, "annotations": {"a": "b"}}
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] |= SPEC
    version["subresources"]["scale"]["labelSelectorPath"] = ".status.selector"
    version["additionalPrinterColumns"][0] |= {"format": "int32", "priority": 1, "description": "d"}
    version |= {"deprecated": True, "deprecationWarning": "old"}
    return body


def named(body, number):
    """Give a mutant a unique name if it has the original one, so that many can be stored."""
    meta, spec = body.get("metadata"), body.get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    if isinstance(meta, dict) and meta.get("name") == "widgets.example.com":
        meta["name"] = f"w{number}s.example.com"
    if isinstance(names, dict) and names.get("plural") == "widgets":
        names["plural"] = f"w{number}s"
    return body


async def everything_works(api):
    group = await api.call("GET", "/apis/example.com/v1")
    assert group.status in (200, 404), group.body
    for row in group.json["resources"] if group.status == 200 else ():
        if "/" not in row["name"]:
            path = f"/apis/example.com/v1/{row['name']}"
            listed = await api.call("GET", path, headers={"accept": TABLE})
            assert listed.status == 200, listed.body
    for path in ("/openapi/v3/apis/example.com/v1", "/openapi/v3", "/apis"):
        assert (await api.call("GET", path)).status in (200, 404)
    for item in (await api.call("GET", CRDS)).json["items"]:
        assert item["status"]["conditions"][1]["status"] == "True"


async def another_definition_works(api):
    body = definition(names={"plural": "others", "kind": "Other"}, group="other.example.com")
    body["metadata"]["name"] = "others.other.example.com"
    await api.create(CRDS, body)
    path = "/apis/other.example.com/v1/namespaces/default/others"
    item = {"metadata": {"name": "o"}, "spec": {"size": 1}}
    await api.create(path, item)
    assert (await api.call("DELETE", f"{CRDS}/others.other.example.com")).status == 200
    assert (await api.call("GET", path)).status == 404


@pytest.mark.long
async def test_a_mutant_is_refused_or_served_and_never_breaks_the_server(tmp_path):
    async with start_server(tmp_path) as api:
        accepted = 0
        for number, (what, body) in some_of(enumerate(mutants(full())), 3):
            answer = await api.call("POST", CRDS, named(body, number))
            assert answer.status in (201, 400, 422, 409), (what, answer.body)
            accepted += answer.status == 201
        assert accepted > 20
        await another_definition_works(api)
        await everything_works(api)
    async with start_server(tmp_path) as api:
        await another_definition_works(api)
        await everything_works(api)


@pytest.mark.long
async def test_a_definition_replaced_by_a_mutant_keeps_serving(tmp_path):
    async with start_server(tmp_path) as api:
        made = await api.create(CRDS, full())
        path = f"{CRDS}/widgets.example.com"
        sound = {"metadata": {"name": "widgets.example.com"}, "spec": made["spec"]}
        version = made["metadata"]["resourceVersion"]
        for what, body in some_of(mutants(full(), (None, "x", 7, [], {})), 3):
            if isinstance(body.get("metadata"), dict):
                body["metadata"]["resourceVersion"] = version
            answer = await api.call("PUT", path, body)
            assert answer.status in (200, 400, 422), (what, answer.body)
            patched = await api.call("PATCH", path, body, headers=MERGE)
            assert patched.status in (200, 400, 409, 422), (what, patched.body)
            if 200 in (answer.status, patched.status):
                now = (await api.call("GET", path)).json["metadata"]["resourceVersion"]
                sound["metadata"]["resourceVersion"] = now
                again = await api.call("PUT", path, sound)
                assert again.status == 200, (what, again.body)
                version = again.json["metadata"]["resourceVersion"]
        await another_definition_works(api)
        await everything_works(api)
    async with start_server(tmp_path) as api:
        await everything_works(api)
