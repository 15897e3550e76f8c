import asyncio

import msgspec
import pytest

from apiserver.media_types import MERGE, TABLE
from apiserver.sample_objects import NAMESPACES
from apiserver.server_fixture import start_server
from apiserver.widgets import CRDS, WIDGETS, definition, widget
from holdfast.server.api_server import ApiServer
from holdfast.server.store import ObjectKey, Store
from holdfast.testing.clock import VirtualClock


@pytest.fixture
async def widgets(api):
    await api.create(CRDS, definition())
    return api


async def test_a_definition_is_established_and_served_at_once(api):
    assert (await api.call("GET", WIDGETS)).status == 404
    made = await api.create(CRDS, definition())
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["status"]["acceptedNames"]["listKind"] == "WidgetList"
    listed = (await api.call("GET", WIDGETS)).json
    assert (listed["kind"], listed["items"]) == ("WidgetList", [])
    rows = (await api.call("GET", "/apis/example.com/v1")).json["resources"]
    assert [r["name"] for r in rows] == ["widgets", "widgets/status", "widgets/scale"]


async def test_unknown_fields_are_dropped_defaults_set_and_wrong_types_rejected(widgets):
    made = await widgets.create(WIDGETS, widget(size=2, nonsense=1))
    assert made["spec"] == {"size": 2, "colour": "red"}
    assert made["metadata"]["generation"] == 1
    strict = await widgets.call(
        "POST", WIDGETS, widget("x", size=2, nonsense=1), fieldValidation="Strict"
    )
    assert strict.status == 400
    assert 'unknown field "spec.nonsense"' in strict.json["message"]
    wrong = await widgets.call("POST", WIDGETS, widget("x", size="big"))
    assert wrong.status == 422
    assert wrong.json["details"]["causes"][0]["field"] == "spec.size"
    low = await widgets.call("POST", WIDGETS, widget("x", size=0))
    assert low.status == 422


async def test_a_write_of_the_status_changes_no_metadata(widgets):
    await widgets.create(WIDGETS, {**widget(size=1), "status": {"replicas": 9}})
    path = f"{WIDGETS}/w"
    assert "status" not in (await widgets.call("GET", path)).json
    change = {"status": {"replicas": 3}, "spec": {"size": 7}, "metadata": {"labels": {"a": "b"}}}
    answer = await widgets.call("PATCH", f"{path}/status", change, headers=MERGE)
    assert answer.status == 200, answer.body
    assert (answer.json["status"], answer.json["spec"]["size"]) == ({"replicas": 3}, 1)
    assert "labels" not in answer.json["metadata"]
    assert answer.json["metadata"]["generation"] == 1


async def test_scale_follows_the_declared_paths(widgets):
    await widgets.create(WIDGETS, widget(replicas=2))
    answer = await widgets.call(
        "PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 5}}, headers=MERGE
    )
    assert answer.json["spec"] == {"replicas": 5}
    assert (await widgets.call("GET", f"{WIDGETS}/w")).json["spec"]["replicas"] == 5


async def test_printer_columns_and_selectable_fields(widgets):
    await widgets.create(WIDGETS, widget("a", size=4))
    await widgets.create(WIDGETS, widget("b", size=5, colour="blue"))
    shown = (await widgets.call("GET", WIDGETS, headers={"accept": TABLE})).json
    assert [c["name"] for c in shown["columnDefinitions"]] == ["Name", "Size"]
    assert [row["cells"] for row in shown["rows"]] == [["a", 4], ["b", 5]]
    found = await widgets.call("GET", WIDGETS, fieldSelector="spec.colour=blue")
    assert [i["metadata"]["name"] for i in found.json["items"]] == ["b"]


async def test_strategic_merge_patches_of_custom_resources_are_rejected(widgets):
    await widgets.create(WIDGETS, widget(size=1))
    headers = {"content-type": "application/strategic-merge-patch+json"}
    answer = await widgets.call("PATCH", f"{WIDGETS}/w", {"spec": {"size": 2}}, headers=headers)
    assert answer.status == 415
    unversioned = await widgets.call("PUT", f"{WIDGETS}/w", widget(size=2))
    assert unversioned.status == 422


async def test_deleting_a_crd_deletes_its_objects(widgets):
    await widgets.create(WIDGETS, widget("plain"))
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await widgets.create(WIDGETS, held)
    path = f"{CRDS}/widgets.example.com"
    async with widgets.watch(WIDGETS, resourceVersion="0") as w:
        assert [e["type"] for e in await w.take(2)] == ["ADDED", "ADDED"]
        await widgets.call("DELETE", path)
        kinds = [(e["type"], e["object"]["metadata"]["name"]) for e in await w.take(2)]
        assert sorted(kinds) == [("DELETED", "plain"), ("MODIFIED", "held")]
    assert (await widgets.call("GET", path)).json["metadata"]["deletionTimestamp"]
    free = {"metadata": {"finalizers": None}}
    await widgets.call("PATCH", f"{WIDGETS}/held", free, headers=MERGE)
    assert (await widgets.call("GET", path)).status == 404
    assert (await widgets.call("GET", WIDGETS)).status == 404


async def test_a_crd_is_deleted_when_a_finalizer_is_removed_during_its_clean_up(widgets):
    held = widget("a-held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await widgets.create(WIDGETS, held)
    for number in range(20):
        await widgets.create(WIDGETS, widget(f"plain-{number}"))
    path = f"{CRDS}/widgets.example.com"
    async with widgets.watch(WIDGETS, fieldSelector="metadata.name=a-held") as w:
        await w.take(1)
        deleting = asyncio.create_task(widgets.call("DELETE", path))
        assert (await w.next())["type"] == "MODIFIED"
        free = {"metadata": {"finalizers": None}}
        await widgets.call("PATCH", f"{WIDGETS}/a-held", free, headers=MERGE)
        await deleting
    assert (await widgets.call("GET", path)).status == 404


async def test_definitions_and_objects_survive_a_restart(tmp_path):
    async with start_server(tmp_path) as api:
        await api.create(CRDS, definition())
        made = await api.create(WIDGETS, widget(size=1))
    async with start_server(tmp_path) as api:
        assert (await api.call("GET", f"{WIDGETS}/w")).json == made


async def test_an_invalid_crd_is_rejected(api):
    for wrong, field in (
        ({"scope": "Sideways"}, "spec.scope"),
        ({"names": {"plural": "others", "kind": "Widget"}}, "metadata.name"),
        ({"versions": []}, "spec.versions"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]},
         "spec.versions[0].schema.openAPIV3Schema"),
    ):  # fmt: skip
        answer = await api.call("POST", CRDS, definition(**wrong))
        assert answer.status == 422, answer.body
        assert answer.json["details"]["causes"][0]["field"] == field


async def test_the_crds_of_holdfast_exist_from_the_start(api):
    names = [i["metadata"]["name"] for i in (await api.call("GET", CRDS)).json["items"]]
    assert names == [
        "devices.scheduling.koordinator.sh", "nodeinventories.dra.holdfast.dev",
        "noderesourcetopologies.topology.node.k8s.io", "podmigrationjobs.scheduling.koordinator.sh",
        "reservations.scheduling.koordinator.sh", "resourcepolicies.scheduling.sigs.x-k8s.io",
    ]  # fmt: skip
    for path in (
        "/apis/scheduling.koordinator.sh/v1alpha1/reservations",
        "/apis/scheduling.sigs.x-k8s.io/v1alpha1/namespaces/default/resourcepolicies",
    ):
        assert (await api.call("GET", path)).status == 200


async def test_a_second_version_returns_the_same_object(api):
    body = definition()
    second = {**body["spec"]["versions"][0], "name": "v2", "storage": False}
    body["spec"]["versions"].append(second)
    await api.create(CRDS, body)
    await api.create(WIDGETS, widget(size=1))
    path = "/apis/example.com/v2/namespaces/default/widgets"
    shown = (await api.call("GET", f"{path}/w")).json
    assert shown["apiVersion"] == "example.com/v2"
    change = await api.call("PATCH", f"{path}/w", {"spec": {"size": 2}}, headers=MERGE)
    assert (change.json["apiVersion"], change.json["metadata"]["generation"]) == (
        "example.com/v2", 2,
    )  # fmt: skip
    assert (await api.call("GET", f"{WIDGETS}/w")).json["apiVersion"] == "example.com/v1"
    label = {"metadata": {"labels": {"a": "b"}}}
    again = await api.call("PATCH", f"{path}/w", label, headers=MERGE)
    assert again.json["metadata"]["generation"] == 2


async def test_crds_can_be_created_concurrently(api):
    async def make(i):
        body = definition(names={"plural": f"w{i}s", "kind": f"W{i}"})
        body["metadata"]["name"] = f"w{i}s.example.com"
        await api.create(CRDS, body)
        assert (await api.call("GET", f"/apis/example.com/v1/w{i}s")).status == 200

    await asyncio.gather(*(make(i) for i in range(8)))
    assert (await api.call("GET", NAMESPACES)).status == 200


async def test_the_preferred_version_is_the_newest_stable_one(api):
    body = definition()
    (version,) = body["spec"]["versions"]
    versions = [version | {"name": name, "storage": name == "v1"}
                for name in ("v1alpha1", "v1", "v1beta1", "v2beta1")]  # fmt: skip
    await api.create(CRDS, body | {"spec": body["spec"] | {"versions": versions}})
    group = (await api.call("GET", "/apis/example.com")).json
    assert group["preferredVersion"]["version"] == "v1"
    listed = [version["version"] for version in group["versions"]]
    assert listed == ["v1", "v2beta1", "v1beta1", "v1alpha1"]


@pytest.mark.parametrize("body", [{}, {"spec": None}, {"spec": "x"}, {"spec": {"group": 1}}])
async def test_a_server_starts_with_a_stored_definition_that_cannot_be_read(tmp_path, body):
    """Servers before the validation of definitions may have stored it."""
    clock, meta = VirtualClock(), {"name": "things.example.com", "uid": "u"}
    key = ObjectKey("apiextensions.k8s.io", "customresourcedefinitions", "", meta["name"])
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    store = Store.open(tmp_path, clock)
    await store.create(
        key,
        lambda revision: msgspec.json.encode(
            {**head, "metadata": {**meta, "resourceVersion": str(revision)}, **body}
        ),
    )
    await store.close()
    store = Store.open(tmp_path, clock)
    server = ApiServer.create(store, clock)
    await server.start()
    await server.stop()
    await store.close()
