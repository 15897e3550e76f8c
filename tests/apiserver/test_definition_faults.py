"""An invalid CustomResourceDefinition affects only itself, and loses no objects."""

from __future__ import annotations

import asyncio
import copy
import logging

import pytest

from apiserver.direct_store import store_directly
from apiserver.media_types import MERGE
from apiserver.server_fixture import start_server
from apiserver.widgets import CRDS, WIDGETS, definition, widget
from holdfast.server.kinds.validation.crds import check_definition
from holdfast.server.schema.field_validation import prune_mistyped, prune_type
from holdfast.server.store import ObjectKey

PATH = f"{CRDS}/widgets.example.com"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
HOLD = "example.com/hold"


def with_property(name):
    body = definition()
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"][name] = {"type": "string"}
    return body


async def replace(api, body):
    now = (await api.call("GET", PATH)).json["metadata"]["resourceVersion"]
    body = copy.deepcopy(body)
    body["metadata"]["resourceVersion"] = now
    return await api.call("PUT", PATH, body)


async def test_a_property_called_deletion_timestamp_deletes_nothing(tmp_path):
    async with start_server(tmp_path) as api:
        await api.create(CRDS, with_property("deletionTimestamp"))
        await api.create(WIDGETS, widget(size=1, deletionTimestamp="now"))
        assert (await replace(api, definition())).status == 200
        assert (await replace(api, with_property("deletionTimestamp"))).status == 200
        assert (await api.call("GET", f"{WIDGETS}/w")).status == 200
    async with start_server(tmp_path) as api:
        assert (await api.call("GET", PATH)).status == 200
        assert (await api.call("GET", f"{WIDGETS}/w")).status == 200


INCOMPLETE = (
    ({"additionalPrinterColumns": [{"name": "A", "jsonPath": ".a"}]},
     "additionalPrinterColumns[0].type"),
    ({"additionalPrinterColumns": [{"type": "string", "jsonPath": ".a"}]},
     "additionalPrinterColumns[0].name"),
    ({"additionalPrinterColumns": [{"name": "A", "type": "string"}]},
     "additionalPrinterColumns[0].JSONPath"),
    ({"selectableFields": [{}]}, "selectableFields[0].jsonPath"),
    ({"selectableFields": [{"jsonPath": ".spec.nothing"}]}, "selectableFields[0].jsonPath"),
    ({"subresources": {"scale": {}}}, "subresources.scale.specReplicasPath"),
    ({"name": None}, "name"),
    ({"name": "V1"}, "name"),
    ({"schema": {}}, "schema.openAPIV3Schema"),
)  # fmt: skip


async def test_an_incomplete_version_is_rejected_with_its_field(api):
    for number, (part, field) in enumerate(INCOMPLETE):
        body = definition()
        body["spec"]["versions"][0] |= part
        if number == 0:
            assert (await api.call("POST", CRDS, body)).status == 422
            assert (await api.call("GET", PATH)).status == 404
            await api.create(CRDS, definition())
        for answer in (await api.call("POST", CRDS, body), await replace(api, body)):
            assert answer.status == 422, answer.body
            assert answer.json["details"]["causes"][0]["field"] == f"spec.versions[0].{field}"
        await api.create(WIDGETS, widget(f"w{number}", size=1))


async def test_the_messages_for_missing_fields_are_upstreams(api):
    body = definition()
    version = body["spec"]["versions"][0]
    version["additionalPrinterColumns"] = [{}]
    version["selectableFields"] = [{}]
    answer = await api.call("POST", CRDS, body)
    at = "spec.versions[0]"
    assert answer.json["message"] == (
        'CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is invalid: '
        f"[{at}.additionalPrinterColumns[0].name: Required value, "
        f"{at}.additionalPrinterColumns[0].type: Required value: must be one of "
        "boolean,date,integer,number,string, "
        f"{at}.additionalPrinterColumns[0].JSONPath: Required value, "
        f"{at}.selectableFields[0].jsonPath: Required value]"
    )


def test_an_invalid_schema_is_rejected_with_its_path():
    body = definition()
    body["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": []}
    cause = "spec.versions[0].schema.openAPIV3Schema: Invalid value: []: must be a schema"
    assert cause in map(str, check_definition(body))


async def test_a_version_without_served_is_not_served(api):
    body = definition()
    del body["spec"]["versions"][0]["served"]
    made = await api.create(CRDS, body)
    assert made["spec"]["versions"][0]["served"] is False
    assert (await api.call("GET", WIDGETS)).status == 404


async def test_a_former_storage_version_cannot_be_removed(api):
    body = definition()
    await api.create(CRDS, body)
    body["spec"]["versions"][0]["name"] = "v2"
    answer = await replace(api, body)
    assert answer.status == 422
    assert "was previously a storage version" in answer.json["message"]


@pytest.mark.parametrize("replaced", [True, False])
async def test_a_definition_without_its_finalizer_takes_its_objects_along(api, replaced):
    await api.create(CRDS, definition())
    await api.create(WIDGETS, widget(size=1))
    if replaced:
        assert (await replace(api, definition())).status == 200
    else:
        change = {"metadata": {"finalizers": None}}
        assert (await api.call("PATCH", PATH, change, headers=MERGE)).status == 200
    await api.call("DELETE", PATH)
    await api.create(CRDS, definition())
    assert (await api.call("GET", WIDGETS)).json["items"] == []


async def test_a_client_cannot_remove_the_finalizer_of_a_crd_under_deletion(api):
    await api.create(CRDS, definition())
    held = widget(size=1)
    held["metadata"]["finalizers"] = [HOLD]
    await api.create(WIDGETS, held)
    await api.call("DELETE", PATH)
    change = {"metadata": {"finalizers": None}}
    answer = await api.call("PATCH", PATH, change, headers=MERGE)
    assert answer.json["metadata"]["finalizers"] == [CLEANUP]
    refused = await api.call("POST", WIDGETS, widget("more", size=1))
    assert refused.status == 405
    words = "create not allowed while custom resource definition is terminating"
    assert refused.json["message"] == words
    await api.call("PATCH", f"{WIDGETS}/w", change, headers=MERGE)
    assert (await api.call("GET", PATH)).status == 404
    await api.create(CRDS, definition())
    assert (await api.call("GET", WIDGETS)).json["items"] == []


DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions", "")


def stored(body):
    head = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1"}
    established = [{"type": "Established", "status": "True"}]
    return head | body | {"status": {"conditions": established}}


def leftover_widget(name="w", **meta):
    body = widget(name, size=1)
    body["metadata"] |= {"namespace": "default", **meta}
    return ObjectKey("example.com", "widgets", "default", name), body


async def test_objects_of_a_deleted_crd_do_not_reappear(tmp_path):
    await store_directly(tmp_path / "store", leftover_widget(finalizers=[HOLD]))
    async with start_server(tmp_path) as api:
        await api.create(CRDS, definition())
        assert (await api.call("GET", WIDGETS)).json["items"] == []


@pytest.mark.parametrize(
    "broken",
    [
        {"additionalPrinterColumns": [{"name": "A"}]},
        {"selectableFields": [{}]},
        {"schema": {"openAPIV3Schema": {"type": 5, "items": 3, "properties": []}}},
        {"name": None},
        {"subresources": {"scale": {"specReplicasPath": 5}}},
    ],
)
async def test_a_stored_definition_that_cannot_be_served(tmp_path, caplog, broken):
    body = definition()
    body["spec"]["versions"][0] |= broken
    key = ObjectKey(*DEFINITIONS, "widgets.example.com")
    await store_directly(tmp_path / "store", (key, stored(body)), leftover_widget())
    for _ in range(2):
        caplog.clear()
        async with start_server(tmp_path) as api:
            lines = [r for r in caplog.records if r.name == "holdfast.server.crd_registration"]
            assert [r.levelno for r in lines] == [logging.ERROR]
            assert 'customresourcedefinitions.apiextensions.k8s.io "widgets.example.com"' in (
                lines[0].getMessage()
            )
            shown = (await api.call("GET", PATH)).json
            conditions = {c["type"]: c for c in shown["status"]["conditions"]}
            assert conditions["Established"]["status"] == "False"
            assert conditions["Established"]["message"]
            assert (await api.call("GET", WIDGETS)).status == 404
            other = definition(names={"plural": "others", "kind": "Other"})
            other["metadata"]["name"] = "others.example.com"
            await api.create(CRDS, other)
            assert (await api.call("DELETE", f"{CRDS}/others.example.com")).status == 200
    async with start_server(tmp_path) as api:
        fixed = await replace(api, definition())
        assert fixed.status == 200, fixed.body
        conditions = {c["type"]: c["status"] for c in fixed.json["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert (await api.call("GET", f"{WIDGETS}/w")).status == 200


async def test_a_stored_definition_that_cannot_be_served_can_be_deleted(tmp_path):
    body = definition(versions=None)
    body["metadata"]["finalizers"] = [HOLD]
    key = ObjectKey(*DEFINITIONS, "widgets.example.com")
    await store_directly(
        tmp_path / "store", (key, stored(body)), leftover_widget(finalizers=[HOLD])
    )
    async with start_server(tmp_path) as api:
        await api.call("DELETE", PATH)
        change = {"metadata": {"finalizers": None}}
        assert (await api.call("PATCH", PATH, change, headers=MERGE)).status == 200
        assert (await api.call("GET", PATH)).status == 404
        assert not api.store.list("example.com", "widgets")


def another_definition(number):
    body = definition()
    body["metadata"]["name"] = f"others{number}.example.com"
    body["spec"]["names"] = {"plural": f"others{number}", "kind": f"Other{number}"}
    return body


async def test_a_crd_is_deleted_and_created_again_during_other_writes(api):
    async def write_others(number):
        for _ in range(10):
            await api.create(CRDS, another_definition(number))
            path = f"{CRDS}/others{number}.example.com"
            assert (await api.call("DELETE", path)).status == 200

    async def make_again():
        for _ in range(10):
            await api.create(CRDS, definition())
            await asyncio.gather(*(api.create(WIDGETS, widget(f"w{n}")) for n in range(5)))
            assert (await api.call("DELETE", PATH)).status == 200

    await asyncio.gather(make_again(), *map(write_others, range(8)))
    assert (await api.call("GET", CRDS)).status == 200


async def test_a_null_in_an_enum_survives_a_restart(tmp_path, caplog):
    body = with_property("mode")
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    mode = {"type": "string", "nullable": True, "enum": ["a", None]}
    schema["properties"]["spec"]["properties"]["mode"] = mode
    async with start_server(tmp_path) as api:
        await api.create(CRDS, body)
        await api.create(WIDGETS, widget(size=1, mode=None))
    async with start_server(tmp_path) as api:
        labels = {"metadata": {"labels": {"a": "b"}}}
        kept = (await api.call("PATCH", PATH, labels, headers=MERGE)).json
        shown = kept["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert shown["properties"]["spec"]["properties"]["mode"] == mode
        await api.create(WIDGETS, widget("v", size=1, mode=None))
    assert "wrong types" not in caplog.text


def test_crds_written_by_kubernetes_are_read_completely():
    kind = "io.k8s.api.policy.v1.PodDisruptionBudget"
    disrupted = {"status": {"disruptedPods": {"pod": None}}}
    assert (
        prune_type(kind, disrupted, "", []) == prune_mistyped(kind, disrupted, "", []) == disrupted
    )
