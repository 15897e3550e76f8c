"""resource.k8s.io in three versions: one stored object, read and written in each of them."""

import json

import pytest
import yaml
from hypothesis import given

from apiserver.random_devices import claim_specs, slice_specs
from holdfast.server.kinds.resource import KINDS
from holdfast.server.schema import field_validation
from holdfast.server.verbs.conversion import object_to_requested_version, to_storage_version
from soak_size import law

GROUP = "/apis/resource.k8s.io"
CLAIMS = "namespaces/default/resourceclaims"
TEMPLATES = "namespaces/default/resourceclaimtemplates"
VERSIONS = ("v1", "v1beta2", "v1beta1")
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

EXACTLY = {
    "deviceClassName": "gpu.example.com",
    "allocationMode": "ExactCount",
    "count": 2,
    "tolerations": [{"key": "a", "operator": "Exists"}],
}
REQUESTS = {
    "v1": [{"name": "gpu", "exactly": EXACTLY}],
    "v1beta2": [{"name": "gpu", "exactly": EXACTLY}],
    "v1beta1": [{"name": "gpu", **EXACTLY}],
}
FIELDS = {
    "attributes": {"model": {"string": "a"}},
    "taints": [
        {"key": "example.com/t", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    ],
}
DEVICES = {
    "v1": [{"name": "gpu-0", **FIELDS}, {"name": "gpu-1"}],
    "v1beta2": [{"name": "gpu-0", **FIELDS}, {"name": "gpu-1"}],
    "v1beta1": [{"name": "gpu-0", "basic": FIELDS}, {"name": "gpu-1", "basic": {}}],
}
KEP_5004 = """
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata:
  name: gpu.example.com
spec:
  selectors:
  - cel:
      expression: device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].type
        == 'gpu'
  extendedResourceName: example.com/gpu
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata:
  name: gke-drabeta-n1-standard-4-2xt4-346fe653-zrw2-gpu.coqj92d
spec:
  devices:
  - basic:
    name: gpu-0
  - basic:
    name: gpu-1
  driver: gpu.example.com
  nodeName: gke-drabeta-n1-standard-4-2xt4-346fe653-zrw2
  pool: {name: gke-drabeta-n1-standard-4-2xt4-346fe653-zrw2, generation: 1, resourceSliceCount: 1}
"""


def claim(version, **meta):
    head = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim"}
    spec = {"devices": {"requests": REQUESTS[version]}}
    return {**head, "metadata": {"name": "c", **meta}, "spec": spec}


def template(version):
    spec = {"metadata": {}, "spec": {"devices": {"requests": REQUESTS[version]}}}
    return {"metadata": {"name": "t"}, "spec": spec}


def slice_of(version):
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool}
    return {"metadata": {"name": "s"}, "spec": {**spec, "devices": DEVICES[version]}}


@pytest.mark.parametrize("read", VERSIONS)
@pytest.mark.parametrize("written", VERSIONS)
async def test_an_object_of_one_version_is_read_in_another(api, written, read):
    await api.create(f"{GROUP}/{written}/{CLAIMS}", claim(written))
    await api.create(f"{GROUP}/{written}/{TEMPLATES}", template(written))
    await api.create(f"{GROUP}/{written}/resourceslices", slice_of(written))
    await api.create(f"{GROUP}/{written}/deviceclasses", {"metadata": {"name": "k"}, "spec": {}})
    shown = [
        (await api.call("GET", f"{GROUP}/{read}/{path}")).json
        for path in (f"{CLAIMS}/c", f"{TEMPLATES}/t", "resourceslices/s", "deviceclasses/k")
    ]
    assert {obj["apiVersion"] for obj in shown} == {f"resource.k8s.io/{read}"}
    made_claim, made_template, made_slice, _ = shown
    assert made_claim["spec"] == claim(read)["spec"]
    assert made_template["spec"] == template(read)["spec"]
    assert made_slice["spec"] == slice_of(read)["spec"]


async def test_one_object_is_stored_as_v1(api):
    await api.create(f"{GROUP}/v1beta1/{CLAIMS}", claim("v1beta1"))
    [stored] = api.store.list("resource.k8s.io", "resourceclaims")
    assert json.loads(stored.value)["apiVersion"] == "resource.k8s.io/v1"
    assert json.loads(stored.value)["spec"] == claim("v1")["spec"]


async def test_defaults_are_set_in_every_version(api):
    body = claim("v1beta1")
    body["spec"] = {
        "devices": {
            "requests": [
                {"name": "one", "deviceClassName": "g"},
                {"name": "any", "firstAvailable": [{"name": "s", "deviceClassName": "g"}]},
            ]
        }
    }
    made = await api.create(f"{GROUP}/v1beta1/{CLAIMS}", body)
    one, any_of = made["spec"]["devices"]["requests"]
    mode = {"allocationMode": "ExactCount", "count": 1}
    assert one == {"name": "one", "deviceClassName": "g", **mode}
    alternatives = [{"name": "s", "deviceClassName": "g", **mode}]
    # As upstream, the class name of a request with alternatives is shown as empty.
    assert any_of == {"name": "any", "deviceClassName": "", "firstAvailable": alternatives}


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_patch_and_update_applies_to_the_version_of_the_request(api, version):
    path = f"{GROUP}/{version}/resourceslices/s"
    await api.create(f"{GROUP}/v1/resourceslices", slice_of("v1"))
    taint = {"key": "example.com/u", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    at = "/spec/devices/1/basic/taints" if version == "v1beta1" else "/spec/devices/1/taints"
    answer = await api.call(
        "PATCH", path, [{"op": "add", "path": at, "value": [taint]}], headers=JSON_PATCH
    )
    assert answer.status == 200, answer.body
    stored = (await api.call("GET", f"{GROUP}/v1/resourceslices/s")).json
    assert stored["spec"]["devices"][1] == {"name": "gpu-1", "taints": [taint]}
    for headers, devices in ((MERGE, DEVICES[version]), (STRATEGIC, DEVICES[version][:1])):
        body = {"spec": {"devices": devices}}
        answer = await api.call("PATCH", path, body, headers=headers)
        assert answer.status == 200, answer.body
        assert answer.json["spec"]["devices"] == devices
    replaced = answer.json
    replaced["spec"]["devices"] = DEVICES[version]
    answer = await api.call("PUT", path, replaced)
    assert (answer.status, answer.json["spec"]) == (200, slice_of(version)["spec"])
    assert (await api.call("GET", f"{GROUP}/v1/resourceslices/s")).json["spec"] == (
        slice_of("v1")["spec"]
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_status_is_written_in_every_version(api, version):
    await api.create(f"{GROUP}/v1/{CLAIMS}", claim("v1"))
    path = f"{GROUP}/{version}/{CLAIMS}/c"
    result = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    answer = await api.call("PATCH", f"{path}/status", {"status": status}, headers=MERGE)
    assert answer.status == 200, answer.body
    assert answer.json["spec"] == claim(version)["spec"]
    for other in VERSIONS:
        shown = (await api.call("GET", f"{GROUP}/{other}/{CLAIMS}/c")).json
        assert shown["status"] == status
    # The spec is immutable in every version; writing it unchanged is no change.
    shown = (await api.call("GET", path)).json
    assert (await api.call("PUT", path, shown)).status == 200
    shown["spec"]["devices"]["requests"][0]["name"] = "other"
    assert (await api.call("PUT", path, shown)).status == 422


@pytest.mark.parametrize("version", VERSIONS)
async def test_lists_tables_and_watches_are_in_the_version_of_the_request(api, version):
    path = f"{GROUP}/{version}/resourceslices"
    await api.create(f"{GROUP}/v1/resourceslices", slice_of("v1"))
    listed = (await api.call("GET", path, fieldSelector="spec.nodeName=n1")).json
    head = {"kind": "ResourceSliceList", "apiVersion": f"resource.k8s.io/{version}"}
    assert {key: listed[key] for key in head} == head
    assert [item["spec"] for item in listed["items"]] == [slice_of(version)["spec"]]
    assert (await api.call("GET", path, fieldSelector="spec.nodeName=n2")).json["items"] == []
    rows = (await api.call("GET", path, headers=TABLE, includeObject="Object")).json["rows"]
    assert rows[0]["cells"][:4] == ["s", "n1", "gpu.example.com", "n1"]
    assert rows[0]["object"]["spec"] == slice_of(version)["spec"]
    async with api.watch(path) as watch:
        assert (await watch.next())["object"]["spec"] == slice_of(version)["spec"]
        label = {"metadata": {"labels": {"a": "b"}}}
        await api.call("PATCH", f"{GROUP}/v1/resourceslices/s", label, headers=MERGE)
        changed = await watch.next()
        assert changed["object"]["apiVersion"] == f"resource.k8s.io/{version}"
        assert changed["object"]["spec"] == slice_of(version)["spec"]
        gone = await api.call("DELETE", f"{path}/s")
        assert gone.json["spec"] == slice_of(version)["spec"]
        assert (await watch.next())["object"]["spec"] == slice_of(version)["spec"]


async def test_versions_share_revisions_and_pages(api):
    for number, version in enumerate((*VERSIONS, *VERSIONS)):
        body = slice_of(version) | {"metadata": {"name": f"s{number}"}}
        await api.create(f"{GROUP}/{version}/resourceslices", body)
    names, token = [], ""
    for version in (*VERSIONS, *VERSIONS)[:3]:
        query = {"limit": "2"} | ({"continue": token} if token else {})
        page = (await api.call("GET", f"{GROUP}/{version}/resourceslices", **query)).json
        assert {item["apiVersion"] for item in page["items"]} == {f"resource.k8s.io/{version}"}
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert (names, token) == ([f"s{number}" for number in range(6)], "")
    old = (await api.call("GET", f"{GROUP}/v1beta1/resourceslices/s0")).json
    # What was read is written unchanged: no new revision, in no version.
    for version in VERSIONS:
        same = (await api.call("GET", f"{GROUP}/{version}/resourceslices/s0")).json
        put = await api.call("PUT", f"{GROUP}/{version}/resourceslices/s0", same)
        assert put.json["metadata"] == old["metadata"]
    label = {"metadata": {"labels": {"a": "b"}}}
    await api.call("PATCH", f"{GROUP}/v1beta2/resourceslices/s0", label, headers=MERGE)
    assert (await api.call("PUT", f"{GROUP}/v1beta1/resourceslices/s0", old)).status == 409
    wanted = {"preconditions": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    assert (await api.call("DELETE", f"{GROUP}/v1/resourceslices/s0", wanted)).status == 409


async def test_a_watch_with_a_selector_shows_changes_of_other_versions(api):
    async with api.watch(f"{GROUP}/v1beta1/resourceslices", labelSelector="a=b") as watch:
        await api.create(f"{GROUP}/v1/resourceslices", slice_of("v1"))
        for value, version in (("b", "v1beta2"), (None, "v1")):
            label = {"metadata": {"labels": {"a": value}}}
            path = f"{GROUP}/{version}/resourceslices/s"
            changed = await api.call("PATCH", path, label, headers=MERGE)
        came, went = await watch.next(), await watch.next()
    assert (came["type"], went["type"]) == ("ADDED", "DELETED")
    # An object that leaves the selection is shown as it was, with the revision of the change.
    came["object"]["metadata"]["resourceVersion"] = changed.json["metadata"]["resourceVersion"]
    assert went["object"] == came["object"]
    assert went["object"]["spec"] == slice_of("v1beta1")["spec"]


async def test_an_object_of_another_version_is_refused(api):
    answer = await api.call("POST", f"{GROUP}/v1beta1/{CLAIMS}", claim("v1"))
    assert (answer.status, answer.json["message"]) == (
        400,
        "the API version in the data (resource.k8s.io/v1) does not match the expected API version "
        "(resource.k8s.io/v1beta1)",
    )


async def test_a_refused_write_warns_of_unknown_fields(api):
    await api.create(f"{GROUP}/v1/{CLAIMS}", claim("v1"))
    body = {"spec": claim("v1")["spec"]}
    answer = await api.call("PATCH", f"{GROUP}/v1beta1/{CLAIMS}/c", body, headers=MERGE)
    assert answer.status == 422
    assert (
        r'299 - "unknown field \"spec.devices.requests[0].exactly\""' in (answer.headers["warning"])
    )


async def test_fields_of_another_version_are_unknown(api):
    strict = {"fieldValidation": "Strict"}
    flat, nested = claim("v1beta1") | {"apiVersion": ""}, claim("v1") | {"apiVersion": ""}
    for version, body in (("v1", flat), ("v1beta2", flat), ("v1beta1", nested)):
        answer = await api.call("POST", f"{GROUP}/{version}/{CLAIMS}", body, **strict)
        assert (answer.status, "unknown field" in answer.json["message"]) == (400, True)
    wrong = slice_of("v1beta1")
    wrong["spec"]["devices"][0]["basic"] = [1]
    answer = await api.call("POST", f"{GROUP}/v1beta1/resourceslices", wrong)
    assert answer.status == 400


async def test_v1_is_preferred_and_the_others_warn_of_their_end(api):
    group = (await api.call("GET", GROUP)).json
    assert [one["version"] for one in group["versions"]] == list(VERSIONS)
    assert group["preferredVersion"]["version"] == "v1"
    listed = await api.call("GET", f"{GROUP}/v1beta1/resourceslices")
    assert listed.headers["warning"] == (
        '299 - "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in '
        'v1.38+"'
    )
    missing = await api.call("GET", f"{GROUP}/v1beta1/resourceslices/none")
    assert (missing.status, missing.headers["warning"]) == (404, listed.headers["warning"])
    async with api.watch(f"{GROUP}/v1beta1/resourceslices") as watch:
        assert watch.response.headers["warning"] == listed.headers["warning"]
    assert "warning" not in (await api.call("GET", f"{GROUP}/v1/resourceslices")).headers
    document = (await api.call("GET", "/openapi/v3/apis/resource.k8s.io/v1beta1")).json
    assert "io.k8s.api.resource.v1beta1.BasicDevice" in document["components"]["schemas"]


async def test_kubectl_applies_and_gets_the_yaml_of_kep_5004(api):
    for _ in range(2):
        applied = await api.kubectl("apply", "-f", "-", stdin=KEP_5004)
        assert applied.code == 0, applied.err
    assert applied.out.splitlines()[0] == "deviceclass.resource.k8s.io/gpu.example.com unchanged"
    for version in VERSIONS:
        got = await api.kubectl("get", f"resourceslices.{version}.resource.k8s.io", "-o", "yaml")
        [shown] = yaml.safe_load(got.out)["items"]
        extra = {"basic": {}} if version == "v1beta1" else {}
        assert shown["spec"]["devices"][0] == {"name": "gpu-0", **extra}
    changed = KEP_5004.replace(
        "- basic:\n    name: gpu-1", "- basic: {allowMultipleAllocations: true}\n    name: x"
    )
    applied = await api.kubectl("apply", "-f", "-", stdin=changed)
    assert applied.code == 0, applied.err
    got = await api.kubectl("get", "resourceslices", "-o", "json")
    devices = json.loads(got.out)["items"][0]["spec"]["devices"]
    assert devices == [{"name": "gpu-0"}, {"name": "x", "allowMultipleAllocations": True}]


async def test_kubectl_applies_one_claim_in_every_version(api):
    for version in (*VERSIONS, "v1"):
        applied = await api.kubectl("apply", "-f", "-", stdin=json.dumps(claim(version)))
        assert applied.code == 0, applied.err
        assert ("is deprecated in" in applied.err) == (version != "v1")
        got = await api.kubectl("get", f"resourceclaim.{version}.resource.k8s.io/c", "-o", "json")
        assert json.loads(got.out)["spec"] == claim(version)["spec"]
    shown = await api.kubectl("get", "resourceclaims.v1beta1.resource.k8s.io")
    assert shown.out.split()[:5] == ["NAME", "STATE", "AGE", "c", "pending"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@law(40)
@given(claim=claim_specs(), of_slice=slice_specs())
def test_conversion_loses_nothing(version, claim, of_slice):
    specs = {
        "resourceclaims": claim,
        "resourceclaimtemplates": {"spec": claim},
        "resourceslices": of_slice,
    }
    for descriptor in KINDS:
        r = descriptor.resource
        if r.version == version and r.plural in specs:
            stored = {
                "kind": r.kind,
                "apiVersion": "resource.k8s.io/v1",
                "metadata": {},
                "spec": specs[r.plural],
            }
            before = json.dumps(stored)
            shown = object_to_requested_version(descriptor, stored)
            assert field_validation.prune(r, shown) == (shown, [])  # no field of another version
            back = to_storage_version(descriptor, shown) | {"apiVersion": "resource.k8s.io/v1"}
            assert back == stored
            assert json.dumps(stored) == before


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        1,
        "x",
        [],
        [1],
        {"devices": 1},
        {"devices": {}},
        {"devices": [None, 1, {"basic": 1}]},
        {"devices": {"requests": [None, {"exactly": []}]}},
    ],
)
def test_a_stored_object_of_wrong_types_is_read(wrong):
    for descriptor in KINDS:
        if descriptor.conversion is not None:
            for spec in (wrong, {"spec": wrong}):
                object_to_requested_version(descriptor, {"spec": spec})
                to_storage_version(descriptor, {"spec": spec})
