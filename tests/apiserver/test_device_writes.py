"""Reads and writes of devices and claims over HTTP: defaults, gates, status, selectors, restart."""

import pytest

from apiserver.device_requests import INVALID, created_claim, refused, write_status
from apiserver.server_fixture import start_server
from holdfast.runtime.feature_gates import FeatureGates
from validation.device_builders import CLAIMS, CLASSES, DRIVER, SLICES, claim, exactly, slice_of
from validation.device_objects import GATED_CLAIMS, GATED_CLASSES, GOOD
from validation.device_statuses import GOOD_STATUSES, consumer, status
from validation.slice_objects import BAD_LISTS, GOOD_LISTS, GOOD_SLICES


async def test_a_restart_reads_every_good_object_again(tmp_path):
    async with start_server(tmp_path) as api:
        for path, objects in GOOD.items():
            for i, body in enumerate(objects.values()):
                await api.create(path, {**body, "metadata": {"name": f"o{i}"}})
        await write_status(api, await created_claim(api), GOOD_STATUSES["device"])
        before = [(await api.call("GET", path)).json["items"] for path in GOOD]
    async with start_server(tmp_path) as api:
        assert [(await api.call("GET", path)).json["items"] for path in GOOD] == before


async def test_lists_of_values_and_shared_devices_follow_their_gates(tmp_path):
    gates = FeatureGates.parse("DRAListTypeAttributes=true,DRAConsumableCapacity=false")
    async with start_server(tmp_path, feature_gates=gates) as api:
        for name, body in GOOD_LISTS.items():
            answer = await api.call("POST", SLICES, body, dryRun="All")
            assert (answer.status, answer.json["spec"]) == (201, body["spec"]), name
        for name, body in BAD_LISTS.items():
            assert await refused(api, SLICES, body), name
        for path, objects in ((CLASSES, GATED_CLASSES), (CLAIMS, GATED_CLAIMS)):
            for expression, body in objects.items():
                answer = await api.call("POST", path, body, dryRun="All")
                assert answer.status == (422 if "allowMultiple" in expression else 201), expression


async def test_slices_are_selected_by_driver_and_node(api):
    other = slice_of(without=("nodeName",), name="other", allNodes=True, driver="b.example.com")
    for body in (slice_of(), slice_of(name="far", nodeName="far"), other):
        await api.create(SLICES, body)
    for selector, names in (
        ("spec.nodeName=far", ["far"]),
        (f"spec.driver={DRIVER},spec.nodeName!=far", ["one"]),
        ("spec.nodeName=", ["other"]),
    ):
        listed = (await api.call("GET", SLICES, fieldSelector=selector)).json["items"]
        assert [one["metadata"]["name"] for one in listed] == names
    assert (await api.call("GET", SLICES, fieldSelector="spec.pool.name=a")).status == 400


async def test_the_status_of_a_claim_is_written_by_its_subresource_only(api):
    body = await api.create(CLAIMS, {**claim(), "status": status()})
    assert body["status"] == {}
    answer = await api.call("PUT", f"{CLAIMS}/one", {**body, "status": status()})
    assert answer.json["status"] == {}
    other = {"metadata": {"name": "one", "labels": {"a": "b"}}, "spec": claim(exactly("x"))["spec"]}
    written = await write_status(api, {**body, **other}, status())
    assert (written.json["status"], written.json["spec"]) == (status(), body["spec"])
    assert "labels" not in written.json["metadata"]
    reserved = {"reservedFor": [consumer()]}
    for patch, kind in (
        ({**other, "status": reserved}, "merge"),
        ({**other, "status": reserved}, "strategic-merge"),
        (
            [
                {"op": "replace", "path": "/spec/devices/requests/0/name", "value": "x"},
                {"op": "add", "path": "/status/reservedFor", "value": [consumer()]},
            ],
            "json",
        ),
    ):
        headers = {"content-type": f"application/{kind}-patch+json"}
        query = {"dryRun": "All"} if kind != "json" else {}
        answer = await api.call("PATCH", f"{CLAIMS}/one/status", patch, headers=headers, **query)
        assert (answer.json["spec"], answer.json["status"]) == (
            body["spec"],
            {**status(), **reserved},
        )
        stored = (await api.call("GET", f"{CLAIMS}/one")).json["status"]
        assert ("reservedFor" in stored) == (kind == "json")


async def test_taints_get_a_time_and_tolerations_an_operator(api):
    stored = await api.create(SLICES, GOOD_SLICES["64 devices with taints"])
    assert stored["spec"]["devices"][0]["taints"][0]["timeAdded"].endswith("Z")
    stored = await api.create(CLAIMS, claim(exactly(tolerations=[{"key": "k"}])))
    wanted = stored["spec"]["devices"]["requests"][0]["exactly"]
    assert wanted["tolerations"] == [{"key": "k", "operator": "Equal"}]


async def test_quantities_are_stored_in_canonical_form(api):
    stored = await api.create(SLICES, GOOD_SLICES["attributes"])
    capacity = stored["spec"]["devices"][0]["capacity"]
    assert capacity == {"memory": {"value": "1Gi"}, "a.com/cores": {"value": "5"}}


async def test_a_driver_in_upper_case_gets_a_warning(api):
    answer = await api.call("POST", SLICES, GOOD_SLICES["driver in upper case"])
    assert "driver names should be lowercase" in answer.headers["warning"]


@pytest.mark.parametrize(
    "change, field",
    [
        ({"driver": "other.example.com"}, "spec.driver"),
        ({"nodeName": "other"}, "spec.nodeName"),
        (
            {"pool": {"name": "other", "generation": 1, "resourceSliceCount": 1}},
            "spec.pool.name",
        ),
    ],
)
async def test_driver_pool_and_node_of_a_slice_cannot_change(api, change, field):
    stored = await api.create(SLICES, slice_of())
    stored["spec"] |= change
    assert await refused(api, f"{SLICES}/one", stored, "PUT") == [(field, INVALID)]
