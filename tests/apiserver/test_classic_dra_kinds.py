"""ResourceClass, ResourceClaim and PodScheduling of core.k8s.io: fields, invariants, versions."""

import pytest
import pytest_asyncio

from apiserver.classic_objects import (
    CLAIMS,
    CLASSES,
    GROUP,
    SCHEDULINGS,
    STATUS_CHANGES,
    claim,
    scheduling,
    selector,
    status,
    user,
)
from apiserver.server_fixture import start_server

pytestmark = pytest.mark.asyncio(loop_scope="module")
MODERN = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory):
    async with start_server(tmp_path_factory.mktemp("classic")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def stored(api):
    """Return a new claim; it is deleted after the test."""
    yield await api.create(CLAIMS, claim())
    await api.call("DELETE", f"{CLAIMS}/c")
    current = await api.call("GET", f"{CLAIMS}/c")
    if current.status == 200:
        await put(api, {**current.json, "status": {}}, "/status")
        await api.call("PATCH", f"{CLAIMS}/c", {"metadata": {"finalizers": None}}, headers=MERGE)


MERGE = {"content-type": "application/merge-patch+json"}


async def put(api, obj, part=""):
    return await api.call("PUT", f"{CLAIMS}/{obj['metadata']['name']}{part}", obj)


async def write(api, obj, new_status):
    """Write the status of a claim and return it as stored."""
    answer = await put(api, {**obj, "status": new_status}, "/status")
    assert answer.status == 200, answer.json
    return answer.json


async def refused(api, obj, new_status):
    """Write a status that must be refused; return the paths of the errors.

    Without the remark that other rules were not evaluated.
    """
    answer = await put(api, {**obj, "status": new_status}, "/status")
    assert answer.status == 422, answer.json
    return {cause["field"] for cause in answer.json["details"]["causes"]} - {"<nil>"}


async def test_C001_a_claim_without_allocation_mode_waits_for_its_first_consumer(api, stored):
    assert stored["spec"]["allocationMode"] == "WaitForFirstConsumer"
    assert stored["apiVersion"] == "core.k8s.io/v1alpha1"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        pytest.param({"allocationMode": "Later"}, "spec.allocationMode", id="C002"),
        ({"resourceClassName": ""}, "spec.resourceClassName"),
        ({"resourceClassName": "A_b"}, "spec.resourceClassName"),
        ({"resourceClassName": None}, "spec.resourceClassName"),
        ({"parametersRef": {"kind": "K"}}, "spec.parametersRef.name"),
        ({"parametersRef": {"name": "n"}}, "spec.parametersRef.kind"),
        ({"parametersRef": {"kind": "", "name": "n"}}, "spec.parametersRef.kind"),
        ({"allocationMode": 7}, "spec.allocationMode"),
    ],
)
async def test_C002_a_claim_with_an_unknown_mode_or_other_wrong_fields_is_refused(
    api, wrong, field
):
    answer = await api.call("POST", CLAIMS, claim("wrong", **wrong))
    assert answer.status == 422
    assert field in {cause["field"] for cause in answer.json["details"]["causes"]}


async def test_C003_the_spec_of_a_claim_cannot_change_but_its_labels_can(api, stored):
    changed = {**stored, "spec": {**stored["spec"], "resourceClassName": "other"}}
    answer = await put(api, changed)
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, "spec")
    stored["metadata"]["labels"] = {"a": "b"}
    assert (await put(api, stored)).status == 200


def changes(number):
    """Return the changes of a status that show a scenario."""
    return [case for case in STATUS_CHANGES if case.startswith(number)]


async def check_change(api, stored, case):
    before, after, fields = STATUS_CHANGES[case]
    current = await write(api, stored, before)
    if fields:
        assert await refused(api, current, after) == fields
    else:
        assert (await write(api, current, after))["status"] == after


@pytest.mark.parametrize("case", [case for case in STATUS_CHANGES if not case.startswith("C0")])
async def test_other_invariants_of_a_status(api, stored, case):
    await check_change(api, stored, case)


@pytest.mark.parametrize("case", changes("C004"))
async def test_C004_at_most_32_pods_use_a_claim(api, stored, case):
    await check_change(api, stored, case)


@pytest.mark.parametrize("case", changes("C005"))
async def test_C005_a_claim_that_is_not_shared_has_one_user(api, stored, case):
    await check_change(api, stored, case)


@pytest.mark.parametrize("case", changes("C006"))
async def test_C006_only_an_allocated_claim_has_users(api, stored, case):
    await check_change(api, stored, case)


@pytest.mark.parametrize("case", changes("C007"))
async def test_C007_a_handle_has_at_most_16384_bytes(api, stored, case):
    await check_change(api, stored, case)


@pytest.mark.parametrize("case", changes("C015"))
async def test_C015_a_claim_that_is_released_gets_no_users(api, stored, case):
    await check_change(api, stored, case)


@pytest.mark.parametrize("case", changes("C016"))
async def test_C016_a_claim_stays_released_while_it_is_allocated(api, stored, case):
    await check_change(api, stored, case)


@pytest.mark.parametrize("case", changes("C083"))
async def test_C083_what_may_change_while_a_claim_is_in_use(api, stored, case):
    await check_change(api, stored, case)


async def test_a_user_needs_a_name_and_a_uid(api, stored):
    for missing in ("resource", "name", "uid"):
        entry = {key: value for key, value in user().items() if key != missing}
        found = await refused(api, stored, status(reservedFor=[entry]))
        assert found == {f"status.reservedFor[0].{missing}"}


async def test_C008_a_pod_scheduling_has_at_most_256_nodes(api):
    nodes = [f"n{i}" for i in range(257)]
    answer = await api.call("POST", SCHEDULINGS, scheduling(potentialNodes=nodes))
    assert answer.status == 422
    made = await api.create(SCHEDULINGS, scheduling(potentialNodes=nodes[:256], selectedNode="n0"))
    for listed, code in ((nodes, 422), (["a", "a"], 422), (["A"], 422), (nodes[:256], 200)):
        answers = {"claims": [{"podResourceClaimName": "gpu", "unsuitableNodes": listed}]}
        answer = await api.call("PUT", f"{SCHEDULINGS}/p/status", {**made, "status": answers})
        assert answer.status == code, listed
    twice = {"claims": [{"podResourceClaimName": "gpu"}, {"podResourceClaimName": "gpu"}]}
    answer = await api.call("PUT", f"{SCHEDULINGS}/p/status", {**answer.json, "status": twice})
    assert answer.status == 422
    assert (await api.call("DELETE", f"{SCHEDULINGS}/p")).status == 200


async def test_a_pod_scheduling_belongs_to_a_pod(api):
    for owner in ({"kind": "Node"}, {"controller": False}, {"apiVersion": "v2"}):
        body = scheduling()
        body["metadata"]["ownerReferences"][0].update(owner)
        answer = await api.call("POST", SCHEDULINGS, body)
        assert answer.status == 422
        assert answer.json["details"]["causes"][0]["field"] == "metadata.ownerReferences"


async def test_C015_a_claim_that_is_deleted_loses_users_but_gets_none(api, stored):
    stored["metadata"]["finalizers"] = ["gpu.example.com/deletion-protection"]
    kept = (await put(api, stored)).json
    reserved = await write(api, kept, status("p", shared=True))
    assert (await api.call("DELETE", f"{CLAIMS}/c")).status == 200
    deleting = (await api.call("GET", f"{CLAIMS}/c")).json
    assert deleting["metadata"]["deletionTimestamp"]
    assert await refused(api, deleting, status("p", "q", shared=True)) == {"status.reservedFor"}
    assert await refused(api, deleting, status("q", shared=True)) == {"status.reservedFor"}
    free = await write(api, deleting, status(shared=True))
    assert "reservedFor" not in free["status"]
    assert reserved["metadata"]["uid"] == free["metadata"]["uid"]


async def test_C017_status_and_spec_are_written_by_their_own_paths(api):
    made = await api.create(CLAIMS, {**claim("own"), "status": status()})
    assert "status" not in made
    answer = await put(api, {**made, "status": status()})
    assert (answer.status, answer.json.get("status")) == (200, None)
    other = {**answer.json, "spec": {"resourceClassName": "other"}}
    written = await write(api, other, status())
    assert written["spec"] == made["spec"]
    assert written["status"] == status()
    await api.call("DELETE", f"{CLAIMS}/own")


def requirement(kind, **parts):
    """Return a selector with one requirement."""
    return {"nodeSelectorTerms": [{kind: [{"key": "a", **parts}]}]}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "nodeSelectorTerms"),
        ({"nodeSelectorTerms": []}, "nodeSelectorTerms"),
        (selector("A B"), "values[0]"),
        (requirement("matchExpressions", operator="In"), "values"),
        (requirement("matchExpressions", operator="Is"), "operator"),
        (requirement("matchFields", operator="In", values=["a"]), "key"),
        ({"nodeSelectorTerms": {}}, "nodeSelectorTerms"),
        ("n1", ""),
    ],
)
async def test_node_selectors_are_validated_as_in_pods(api, stored, wrong, field):
    body = {"metadata": {"name": "x"}, "driverName": "d", "suitableNodes": wrong}
    answer = await api.call("POST", CLASSES, body)
    assert answer.status == 422
    fields = [cause["field"] for cause in answer.json["details"]["causes"]]
    assert any(path.startswith("suitableNodes") and path.endswith(field) for path in fields)
    found = await refused(api, stored, status(allocation={"availableOnNodes": wrong}))
    assert any(path.startswith("status.allocation.availableOnNodes") for path in found)


async def test_a_class_names_its_driver_and_can_change(api):
    for driver in ("", "a" * 64, "Upper", None, 3):
        answer = await api.call("POST", CLASSES, {"metadata": {"name": "x"}, "driverName": driver})
        assert answer.status == 422, driver
    reference = {"apiGroup": "gpu.example.com", "kind": "GPUInit", "name": "init", "namespace": "a"}
    body = {"metadata": {"name": "gpu"}, "driverName": "a.b", "parametersRef": reference}
    made = await api.create(CLASSES, {**body, "suitableNodes": selector("n1")})
    assert made["parametersRef"] == reference
    made["driverName"] = "other"
    answer = await api.call("PUT", f"{CLASSES}/gpu", made)
    assert answer.json["driverName"] == "other"


async def test_the_version_of_the_stories_is_accepted_and_answered_as_v1alpha1(api):
    path = CLAIMS.replace("v1alpha1", "v1")
    body = {"apiVersion": "core.k8s.io/v1", "kind": "ResourceClaim", **claim("story")}
    answer = await api.call("POST", path, body)
    assert (answer.status, answer.json["apiVersion"]) == (201, "core.k8s.io/v1alpha1")
    assert "core.k8s.io/v1alpha1" in answer.headers["warning"]
    again = await api.call("GET", f"{CLAIMS}/story")
    assert (again.json, "warning" in again.headers) == (answer.json, False)
    assert (await api.call("GET", f"{path}/story")).json["apiVersion"] == "core.k8s.io/v1"
    changed = await api.call("PUT", f"{path}/story", {**again.json, "apiVersion": "core.k8s.io/v1"})
    assert (changed.status, changed.json["apiVersion"]) == (200, "core.k8s.io/v1alpha1")


async def test_discovery_lists_the_structured_kind_first(api):
    groups = [group["name"] for group in (await api.call("GET", "/apis")).json["groups"]]
    assert groups.index("resource.k8s.io") < groups.index("core.k8s.io")
    found = (await api.call("GET", "/apis/core.k8s.io")).json
    assert [one["version"] for one in found["versions"]] == ["v1alpha1", "v1"]
    resources = {one["name"]: one for one in (await api.call("GET", GROUP)).json["resources"]}
    shorts = {name: one.get("shortNames") for name, one in resources.items() if "/" not in name}
    assert shorts == {
        "resourceclasses": ["cclass"], "resourceclaims": ["cclaim"], "podschedulings": ["psched"],
    }  # fmt: skip
    assert resources["resourceclaims"]["categories"] == ["classic-dra"]
    assert {name for name in resources if "/" in name} == {
        "resourceclaims/status", "podschedulings/status",
    }  # fmt: skip


async def test_both_groups_have_their_own_claims(api):
    await api.create(CLAIMS, claim("both"))
    assert (await api.call("GET", f"{MODERN}/both")).status == 404


async def test_the_table_of_claims_shows_their_state(api):
    table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    await api.create(CLAIMS, claim("a"))

    async def state():
        shown = (await api.call("GET", f"{CLAIMS}/a", headers=table)).json
        names = [column["name"] for column in shown["columnDefinitions"]]
        [row] = shown["rows"]
        return dict(zip(names, row["cells"], strict=True))["State"]

    async def patch(body, part=""):
        done = await api.call("PATCH", f"{CLAIMS}/a{part}", body, headers=MERGE)
        assert done.status == 200, done.json

    assert await state() == "Pending"
    await patch({"metadata": {"finalizers": ["gpu.example.com/deletion-protection"]}})
    assert await state() == "InProgress"
    allocated = {"driverName": "gpu.example.com", "allocation": {"resourceHandle": "h"}}
    await patch({"status": allocated}, "/status")
    assert await state() == "Allocated"
    user = {"resource": "pods", "name": "p", "uid": "u"}
    await patch({"status": {"reservedFor": [user]}}, "/status")
    assert await state() == "Reserved"
    await patch({"status": {"reservedFor": None, "deallocationRequested": True}}, "/status")
    assert await state() == "Releasing"
    await api.call("DELETE", f"{CLAIMS}/a")
    assert await state() == "Deleting"
