"""A built-in kind needs only a descriptor: all behaviour below follows from ``BOATS``."""

import asyncio

import pytest

from apiserver.sample_objects import NAMESPACES
from apiserver.server_fixture import start_server
from holdfast.api import field_errors
from holdfast.api.resource import Resource
from holdfast.runtime.errors import Forbidden
from holdfast.server.descriptor import (
    AdmissionPlugin,
    Conversion,
    DeletionStrategy,
    KindDescriptor,
    new_object_check,
    selectable_fields,
)
from holdfast.server.kinds import BUILT_IN
from holdfast.server.tables.printer import Printer, age, columns, name
from holdfast.server.unimplemented_features import UnimplementedFeatures, UnimplementedField


def fill_defaults(boat, now):
    boat.setdefault("spec", {}).setdefault("flag", "plain")


def check_crew(boat):
    if boat["spec"].get("crew", 1) < 1:
        yield field_errors.invalid("spec.crew", boat["spec"]["crew"], "must be at least 1")


def register(op, boat, old):
    if old is None:
        boat["metadata"].setdefault("labels", {})["registered-by"] = op.user.name


async def inspect(op, boat, old):
    await asyncio.sleep(0)
    if boat["spec"]["flag"] == "black":
        raise Forbidden(f'boats "{boat["metadata"]["name"]}" is forbidden: no pirates')
    if boat["spec"]["flag"] == "yellow":
        op.warnings.append("the boat is in quarantine")


def renamed(boat, before, after):
    spec = {after if key == before else key: value for key, value in boat["spec"].items()}
    return {**boat, "spec": spec}


BOATS = KindDescriptor(
    Resource(
        "harbour.example",
        "v1",
        "boats",
        "Boat",
        dict,
        short_names=("bt",),
        subresources=("status",),
    ),
    defaults=fill_defaults,
    checks=(new_object_check(check_crew),),
    immutable_fields=("spec.berth",),
    admission_plugins=(AdmissionPlugin(mutate=register), AdmissionPlugin(validate=inspect)),
    printer=Printer(
        columns("Name", "Flag", "Age"),
        lambda boat, now: [name(boat), boat["spec"]["flag"], age(boat, now)],
    ),
    selectable_fields=selectable_fields("spec.berth")
    | selectable_fields("status.moored", absent="false"),
    deletion=DeletionStrategy(returns_object=True, protected_names=frozenset({"flagship"})),
    has_generation=True,
    unimplemented=UnimplementedFeatures(
        fields=(UnimplementedField(("spec", "sails"), "Sails are not set"),)
    ),
)
OLD_BOATS = BOATS.in_version(
    Resource("harbour.example", "v1beta1", "boats", "Boat", dict, subresources=("status",)),
    Conversion(
        to_stored=lambda boat: renamed(boat, "dock", "berth"),
        from_stored=lambda boat: renamed(boat, "berth", "dock"),
        field_path=lambda path: "spec.berth" if path == "spec.dock" else path,
    ),
)
PATH = "/apis/harbour.example/v1/namespaces/default/boats"
OLD_PATH = "/apis/harbour.example/v1beta1/namespaces/default/boats"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
MERGE = {"content-type": "application/merge-patch+json"}


def boat(called="ada", **spec):
    return {"metadata": {"name": called}, "spec": spec}


@pytest.fixture
async def harbour(tmp_path):
    async with start_server(tmp_path, kinds=(*BUILT_IN, BOATS, OLD_BOATS)) as running:
        yield running


async def test_it_is_discovered_in_both_versions_the_stable_one_first(harbour):
    group = (await harbour.call("GET", "/apis/harbour.example")).json
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta1"]
    rows = (await harbour.call("GET", "/apis/harbour.example/v1")).json["resources"]
    assert [row["name"] for row in rows] == ["boats", "boats/status"]


async def test_a_new_object_is_defaulted_admitted_and_returned(harbour):
    made = await harbour.create(PATH, boat(berth="a1", crew=2))
    assert made["spec"] == {"berth": "a1", "crew": 2, "flag": "plain"}
    assert made["metadata"]["labels"] == {"registered-by": "kubernetes-admin"}
    assert made["metadata"]["generation"] == 1
    assert (await harbour.call("GET", f"{PATH}/ada")).json == made
    listed = (await harbour.call("GET", PATH)).json
    assert (listed["kind"], [b["metadata"]["name"] for b in listed["items"]]) == (
        "BoatList",
        ["ada"],
    )


async def test_an_invalid_object_is_rejected(harbour):
    wrong = await harbour.call("POST", PATH, boat(crew=0))
    assert wrong.json["message"] == (
        'Boat.harbour.example "ada" is invalid: spec.crew: Invalid value: 0: must be at least 1'
    )
    pirates = await harbour.call("POST", PATH, boat(flag="black"))
    assert (pirates.status, pirates.json["message"]) == (
        403,
        'boats "ada" is forbidden: no pirates',
    )
    assert (await harbour.call("GET", PATH)).json["items"] == []


async def test_admission_plugins_and_unimplemented_fields_warn(harbour):
    answer = await harbour.call("POST", PATH, boat(flag="yellow", sails=2))
    warned = answer.headers.getall("warning")
    assert [text in warned[0] for text in ("quarantine", "Sails are not set")] == [True, True]


async def test_a_patch_changes_it_but_not_its_immutable_field(harbour):
    await harbour.create(PATH, boat(berth="a1"))
    changed = await harbour.call("PATCH", f"{PATH}/ada", {"spec": {"flag": "blue"}}, headers=MERGE)
    assert changed.json["spec"] == {"berth": "a1", "flag": "blue"}
    assert changed.json["metadata"]["generation"] == 2
    moved = await harbour.call("PATCH", f"{PATH}/ada", {"spec": {"berth": "b2"}}, headers=MERGE)
    assert moved.status == 422
    assert moved.json["message"].endswith('spec.berth: Invalid value: "b2": field is immutable')


async def test_its_table_has_its_columns(harbour):
    await harbour.create(PATH, boat(berth="a1"))
    table = (await harbour.call("GET", PATH, headers=TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Flag", "Age"]
    assert table["rows"][0]["cells"][:2] == ["ada", "plain"]


async def test_its_selectable_fields_work(harbour):
    await harbour.create(PATH, boat("ada", berth="a1"))
    await harbour.create(PATH, boat("bea", berth="b2"))

    async def names(path, selector):
        found = (await harbour.call("GET", path, fieldSelector=selector)).json
        return [item["metadata"]["name"] for item in found["items"]]

    assert await names(PATH, "spec.berth=b2") == ["bea"]
    assert await names(OLD_PATH, "spec.dock=b2") == ["bea"]
    assert await names(PATH, "status.moored=false") == ["ada", "bea"]
    refused = await harbour.call("GET", PATH, fieldSelector="spec.flag=plain")
    assert refused.json["message"] == "field label not supported: spec.flag"


async def test_each_version_reads_and_writes_the_same_objects(harbour):
    async with harbour.watch(PATH) as new, harbour.watch(OLD_PATH) as old:
        made = await harbour.create(OLD_PATH, boat(dock="a1"))
        assert (made["apiVersion"], made["spec"]) == (
            "harbour.example/v1beta1",
            {"dock": "a1", "flag": "plain"},
        )
        seen = (await harbour.call("GET", f"{PATH}/ada")).json
        assert (seen["apiVersion"], seen["spec"]) == (
            "harbour.example/v1",
            {"berth": "a1", "flag": "plain"},
        )
        patch = {"spec": {"dock": "b2"}}
        moved = await harbour.call("PATCH", f"{OLD_PATH}/ada", patch, headers=MERGE)
        assert moved.status == 422
        events = [await new.next(), await old.next()]
    assert [event["object"]["spec"] for event in events] == [
        {"berth": "a1", "flag": "plain"},
        {"dock": "a1", "flag": "plain"},
    ]
    (stored,) = harbour.store.list("harbour.example", "boats")
    assert b'"apiVersion":"harbour.example/v1"' in stored.value
    assert b'"berth":"a1"' in stored.value


async def test_deletion_returns_the_object_and_rejects_protected_names(harbour):
    for called in ("ada", "flagship"):
        await harbour.create(PATH, boat(called))
    gone = await harbour.call("DELETE", f"{PATH}/ada")
    assert (gone.status, gone.json["kind"]) == (200, "Boat")
    spared = await harbour.call("DELETE", f"{PATH}/flagship")
    assert spared.json["message"] == (
        'boats.harbour.example "flagship" is forbidden: this boat may not be deleted'
    )
    assert (await harbour.call("DELETE", f"{OLD_PATH}/flagship")).status == 403


async def test_it_is_read_again_after_a_restart(tmp_path):
    kinds = (*BUILT_IN, BOATS, OLD_BOATS)
    async with start_server(tmp_path, kinds=kinds) as running:
        made = await running.create(PATH, boat(berth="a1"))
    async with start_server(tmp_path, kinds=kinds) as running:
        assert (await running.call("GET", f"{PATH}/ada")).json == made
        change = {"spec": {"crew": 3}}
        changed = await running.call("PATCH", f"{PATH}/ada", change, headers=MERGE)
        assert changed.json["spec"] == {"berth": "a1", "flag": "plain", "crew": 3}


async def test_deleting_a_namespace_deletes_its_objects_of_the_kind(harbour):
    await harbour.create(NAMESPACES, {"metadata": {"name": "dry"}})
    assert (await harbour.call("DELETE", f"{NAMESPACES}/dry")).status == 200
    late = await harbour.call("POST", PATH.replace("default", "dry"), boat())
    assert late.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
