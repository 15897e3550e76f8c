"""The rules of DeviceClasses, ResourceSlices, ResourceClaims and pods with claims, over HTTP."""

import pytest

from apiserver.device_requests import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    created_claim,
    refused,
    write_status,
)
from validation.device_builders import (
    CLAIMS,
    CLASSES,
    SLICES,
    TEMPLATES,
    alternative,
    attribute,
    claim,
    exactly,
    first_available,
    template,
)
from validation.device_objects import BAD, BAD_CLAIMS, BAD_CLASSES, GOOD, GOOD_CLASSES, UNREADABLE
from validation.device_statuses import (
    BAD_POD_STATUSES,
    BAD_PODS,
    BAD_STATUSES,
    GOOD_POD_STATUSES,
    GOOD_PODS,
    GOOD_STATUSES,
    POD,
    consumer,
    device_status,
    result,
    status,
)
from validation.slice_objects import BAD_SLICES

PODS = "/api/v1/namespaces/default/pods"


async def refused_status(api, body, status):
    path = f"{CLAIMS}/{body['metadata']['name']}/status"
    return await refused(api, path, {**body, "status": status}, "PUT")


def request(number=0):
    return f"spec.devices.requests[{number}]"


@pytest.mark.parametrize("path", GOOD)
async def test_good_objects_are_stored(api, path):
    for i, (name, body) in enumerate(GOOD[path].items()):
        stored = {**body, "metadata": {"name": f"{body['metadata']['name'][:200]}-{i}"}}
        answer = await api.call("POST", path, stored)
        assert answer.status == 201, (name, answer.body)


@pytest.mark.parametrize("path", BAD)
async def test_bad_objects_are_refused(api, path):
    for name, body in BAD[path].items():
        assert await refused(api, path, body), name


async def test_unreadable_objects_are_refused(api):
    for name, (path, body) in UNREADABLE.items():
        assert (await api.call("POST", path, body)).status == 400, name


async def test_D001_count_is_1_by_default_and_never_negative(api):
    for count in ({}, {"count": 0}, {"count": None}):
        body = claim(exactly(**count), first_available(alternative(**count), name="s"))
        spec = (await api.create(CLAIMS, body, dryRun="All"))["spec"]
        exact, either = spec["devices"]["requests"]
        for wanted in (exact["exactly"], either["firstAvailable"][0]):
            assert (wanted["allocationMode"], wanted["count"]) == ("ExactCount", 1)
    found = await refused(api, CLAIMS, BAD_CLAIMS["count -1"])
    assert found == [(f"{request()}.exactly.count", INVALID)]


async def test_D002_all_devices_are_not_counted(api):
    found = await refused(api, CLAIMS, BAD_CLAIMS["all with count"])
    assert found == [(f"{request()}.exactly.count", INVALID)]


async def test_D003_a_request_is_exactly_one_of_exactly_and_first_available(api):
    assert await refused(api, CLAIMS, BAD_CLAIMS["both"]) == [(request(), INVALID)]
    assert await refused(api, CLAIMS, BAD_CLAIMS["neither"]) == [(request(), REQUIRED)]


async def test_D004_lists_that_are_too_long_are_reported_once(api):
    for name, field in (
        ("33 requests", "spec.devices.requests"),
        ("9 alternatives", f"{request()}.firstAvailable"),
        ("33 selectors", f"{request()}.exactly.selectors"),
        ("33 selectors of alternative", f"{request()}.firstAvailable[0].selectors"),
    ):
        assert await refused(api, CLAIMS, BAD_CLAIMS[name]) == [(field, TOO_MANY)]


async def test_D005_constraints_refer_to_requests_of_the_claim(api):
    field = "spec.devices.constraints[0].requests[0]"
    for name in ("unknown request", "unknown alternative", "three parts"):
        assert await refused(api, CLAIMS, BAD_CLAIMS[name]) == [(field, INVALID)]


@pytest.mark.parametrize("path, body", [(CLAIMS, claim()), (TEMPLATES, template())])
async def test_D006_the_spec_of_a_claim_cannot_change(api, path, body):
    stored = await api.create(path, body)
    stored["metadata"].pop("resourceVersion")
    for label in ("a", "b"):
        stored["metadata"]["labels"] = {"label": label}
        answer = await api.call("PUT", f"{path}/one", stored)
        assert answer.json["metadata"]["labels"] == {"label": label}
    spec = stored["spec"].get("spec") or stored["spec"]
    spec["devices"]["requests"][0]["exactly"]["count"] = 2
    assert await refused(api, f"{path}/one", stored, "PUT") == [("spec", INVALID)]


async def test_D007_an_allocation_cannot_change_but_can_be_cleared_and_set_again(api):
    body = await created_claim(api, status())
    body.pop("status")
    body["metadata"].pop("resourceVersion")
    other = status(result(device="e"))
    assert await refused_status(api, body, other) == [("status.allocation", INVALID)]
    for written in (status(), {}, other):
        answer = await write_status(api, body, written)
        assert answer.status == 200, answer.body
    assert answer.json["status"]["allocation"]["devices"]["results"][0]["device"] == "e"


async def test_D008_a_claim_is_reserved_at_most_256_times_and_only_if_it_is_allocated(api):
    body = await created_claim(api)
    for name, reason in (
        ("257 consumers", TOO_MANY),
        ("reserved without allocation", FORBIDDEN),
    ):
        found = await refused_status(api, body, BAD_STATUSES[name])
        assert found == [("status.reservedFor", reason)]
    assert (await write_status(api, body, GOOD_STATUSES["256 consumers"])).status == 200


async def test_D009_a_claim_under_deletion_gets_no_new_consumers(api):
    await created_claim(api, status(reserved=[consumer("1"), consumer("2")]))
    finalizer = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    merge = {"content-type": "application/merge-patch+json"}
    await api.call("PATCH", f"{CLAIMS}/one", finalizer, headers=merge)
    await api.call("DELETE", f"{CLAIMS}/one")
    body = (await api.call("GET", f"{CLAIMS}/one")).json
    body["metadata"].pop("resourceVersion")
    more = status(reserved=[consumer("1"), consumer("3")])
    assert await refused_status(api, body, more) == [("status.reservedFor", FORBIDDEN)]
    fewer = await write_status(api, body, status(reserved=[consumer("2")]))
    assert fewer.status == 200, fewer.body
    assert [one["uid"] for one in fewer.json["status"]["reservedFor"]] == ["2"]


async def test_D010_admin_access_needs_the_label_of_the_namespace(api):
    label = {"resource.kubernetes.io/admin-access": "true"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "admin", "labels": label}}
    await api.create("/api/v1/namespaces", body)
    wanted = exactly(adminAccess=True)
    for path, body in ((CLAIMS, claim(wanted)), (TEMPLATES, template(wanted))):
        found = await refused(api, path, body)
        assert found == [(f"{request()}.adminAccess", FORBIDDEN)]
        await api.create(path.replace("default", "admin"), body)
    body = await created_claim(api)
    found = await refused_status(api, body, BAD_STATUSES["admin access"])
    assert found == [("status.allocation.devices.results[0].adminAccess", FORBIDDEN)]


async def test_D011_a_slice_has_at_most_128_devices_or_64_with_taints(api):
    for name in ("129 devices", "65 devices with a taint", "65 devices with counters"):
        assert await refused(api, SLICES, BAD_SLICES[name]) == [("spec.devices", TOO_MANY)]


async def test_D012_the_nodes_of_a_slice_are_selected_in_one_way(api):
    assert await refused(api, SLICES, BAD_SLICES["two selections"]) == [("spec", INVALID)]
    found = await refused(api, SLICES, BAD_SLICES["all nodes false and node"])
    assert found == [("spec.allNodes", INVALID)]


async def test_D013_devices_and_shared_counters_are_in_different_slices(api):
    assert await refused(api, SLICES, BAD_SLICES["devices and counters"]) == [("spec", INVALID)]


async def test_D014_versions_are_semantic_versions(api):
    found = await refused(api, SLICES, attribute(version="v1.0"))
    assert found == [("spec.devices[0].attributes[a].version", INVALID)]
    await api.create(SLICES, attribute(version="1.0.0-rc.1"))


async def test_D015_an_extended_resource_has_a_domain_of_its_own(api):
    for name in ("resource cpu", "resource of kubernetes.io", "resource of requests"):
        found = await refused(api, CLASSES, BAD_CLASSES[name])
        assert found == [("spec.extendedResourceName", INVALID)]
    await api.create(CLASSES, GOOD_CLASSES["extended resource"])


async def test_D016_request_policies_are_for_shared_devices_and_accept_their_default(api):
    at = "spec.devices[0].capacity"
    found = await refused(api, SLICES, BAD_SLICES["policy of one allocation"])
    assert found == [(f"{at}[m].requestPolicy", FORBIDDEN)]
    found = await refused(api, SLICES, BAD_SLICES["default outside values"])
    assert found == [(f"{at}[memory].requestPolicy.validValues", INVALID)]


async def test_D017_only_allocated_devices_have_a_status(api):
    body = await created_claim(api)
    found = await refused_status(api, body, BAD_STATUSES["unallocated device"])
    assert found == [("status.devices[0]", INVALID)]
    with_device = device_status()
    body["metadata"].pop("resourceVersion")
    assert (await write_status(api, body, with_device)).json["status"]["devices"]
    freed = {key: value for key, value in with_device.items() if key != "allocation"}
    assert (await write_status(api, body, freed)).json["status"] == {}


async def test_D018_mappings_name_a_container_and_a_resource_that_it_requests(api):
    await api.create(PODS, POD)
    at = "status.extendedResourceClaimStatus.requestMappings"
    for name, fields in (
        ("unknown container", [(f"{at}[0].containerName", INVALID)]),
        ("unrequested resource", [(f"{at}[0].resourceName", INVALID)]),
        (
            "same mappings",
            [
                (f"{at}[1].{key}", DUPLICATE)
                for key in ("containerName", "resourceName", "requestName")
            ],
        ),
    ):
        body = {**POD, "status": BAD_POD_STATUSES[name]}
        assert await refused(api, f"{PODS}/status/status", body, "PUT") == fields
    for good in GOOD_POD_STATUSES.values():
        answer = await api.call("PUT", f"{PODS}/status/status", {**POD, "status": good})
        assert answer.status == 200, answer.body


async def test_D020_expressions_are_compiled_when_they_are_written(api):
    field = "spec.selectors[0].cel.expression"
    for name, reason in (
        ("no bool", INVALID),
        ("unknown field", INVALID),
        ("10,241 bytes", TOO_LONG),
        ("nested loops", FORBIDDEN),
    ):
        assert await refused(api, CLASSES, BAD_CLASSES[name]) == [(field, reason)]


async def test_pods_use_claims_that_they_have_and_resources_that_exist(api):
    for name, body in BAD_PODS.items():
        assert await refused(api, PODS, body), name
    for name, body in GOOD_PODS.items():
        answer = await api.call("POST", PODS, body, dryRun="All")
        assert answer.status == 201, (name, answer.body)


async def test_D090_the_name_of_a_class_fits_into_a_resource_name_or_not(api):
    await api.create(PODS, GOOD_PODS["implicit name of 63 characters"], dryRun="All")
    for body in (BAD_PODS[f"implicit name of {length} characters"] for length in (64, 253)):
        resources = body["spec"]["containers"][0]["resources"]
        [name] = resources["requests"]
        at = "spec.containers[0].resources"
        assert await refused(api, PODS, body) == [
            (f"{at}.limits[{name}]", INVALID),
            (f"{at}.requests[{name}]", INVALID),
        ]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": body["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": spec,
    }
    found = await refused(api, "/apis/apps/v1/namespaces/default/deployments", deployment)
    at = f"spec.template.{at}"
    assert found == [(f"{at}.limits[{name}]", INVALID), (f"{at}.requests[{name}]", INVALID)]


async def test_pods_of_the_kubelet_use_no_claims(api):
    mirrored = {**GOOD_PODS["claim"]}
    mirrored["metadata"] = {
        "name": "static",
        "annotations": {"kubernetes.io/config.mirror": "x"},
    }
    answer = await api.call("POST", PODS, mirrored)
    assert answer.status == 422
    assert "static pods do not support resource claims" in answer.json["message"]
