"""The OpenAPI documents that kubectl uses for create, apply, edit and explain."""

import gzip
import json

from holdfast.api import scheme
from holdfast.api.resource import Resource
from holdfast.server import data
from holdfast.server.schema import openapi
from holdfast.server.schema.structural import shipped_crds

RESOURCES = [
    scheme.PODS, scheme.NODES, scheme.DEPLOYMENTS, scheme.RESERVATIONS, scheme.RESOURCE_POLICIES,
    Resource("resource.k8s.io", "v1beta1", "resourceslices", "ResourceSlice", dict),
]  # fmt: skip
CRDS = shipped_crds()
REF = "#/components/schemas/"


def document(group, version):
    return json.loads(gzip.decompress(openapi.document(group, version, RESOURCES, CRDS)))


def references(value):
    if isinstance(value, dict):
        for key, one in value.items():
            if key == "$ref":
                yield one
            else:
                yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def test_the_index_contains_every_group_version_with_a_hash():
    paths = json.loads(openapi.index(RESOURCES, CRDS))["paths"]
    assert set(paths) == {
        "api/v1", "apis/apps/v1", "apis/resource.k8s.io/v1beta1",
        "apis/scheduling.koordinator.sh/v1alpha1", "apis/scheduling.sigs.x-k8s.io/v1alpha1",
    }  # fmt: skip
    tag = openapi.fingerprint("apps", "v1", CRDS)
    url = paths["apis/apps/v1"]["serverRelativeURL"]
    assert url == f"/openapi/v3/apis/apps/v1?hash={tag}"


def test_every_reference_exists_and_has_no_siblings():
    for group, version in {(r.group, r.version) for r in RESOURCES}:
        made = document(group, version)
        schemas = made["components"]["schemas"]
        assert {r.removeprefix(REF) for r in references(made)} <= set(schemas)
        assert schemas


def test_kinds_are_found_by_their_group_version_kind():
    schemas = document("", "v1")["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    gvk = [{"group": "", "kind": "Pod", "version": "v1"}]
    assert pod["x-kubernetes-group-version-kind"] == gvk
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["description"].startswith("List of containers")
    assert "io.k8s.api.apps.v1.Deployment" not in schemas


def test_a_path_has_the_parameters_and_patch_types():
    path = document("apps", "v1")["paths"][
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    ]
    patch = path["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert {p["name"] for p in patch["parameters"]} == {"dryRun", "fieldManager", "fieldValidation"}
    assert len(patch["requestBody"]["content"]) == 4


def test_only_built_in_kinds_support_strategic_merge_patches():
    strategic = "application/strategic-merge-patch+json"
    for group, version in {(r.group, r.version) for r in RESOURCES}:
        is_custom = any(group == crd["spec"]["group"] for crd in CRDS)
        for path in document(group, version)["paths"].values():
            if "patch" in path:
                forms = set(path["patch"]["requestBody"]["content"])
                assert (strategic in forms) == (not is_custom)
                assert {"application/json-patch+json", "application/merge-patch+json"} < forms


def test_custom_resources_are_described_like_built_in_kinds():
    made = document("scheduling.koordinator.sh", "v1alpha1")
    kind = made["components"]["schemas"]["sh.koordinator.scheduling.v1alpha1.Reservation"]
    gvk = {"group": "scheduling.koordinator.sh", "kind": "Reservation", "version": "v1alpha1"}
    assert kind["x-kubernetes-group-version-kind"] == [gvk]
    assert list(kind["properties"])[:3] == ["apiVersion", "kind", "metadata"]
    assert "ownerReferences" in json.dumps(made["components"]["schemas"])
    assert kind["properties"]["spec"]["properties"]["ttl"]["default"] == "24h"
    assert "/apis/scheduling.koordinator.sh/v1alpha1/reservations/{name}" in made["paths"]


def test_a_changed_crd_changes_its_own_document_and_no_other():
    changed = json.loads(json.dumps(CRDS))
    version = changed[0]["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["description"] = "new words"
    group = changed[0]["spec"]["group"]
    before = openapi.document(group, "v1alpha1", RESOURCES, CRDS)
    after = openapi.document(group, "v1alpha1", RESOURCES, changed)
    assert b"new words" in gzip.decompress(after)
    assert b"new words" not in gzip.decompress(before)
    assert openapi.fingerprint("apps", "v1", changed) == openapi.fingerprint("apps", "v1", CRDS)


def test_documents_are_built_once():
    first = openapi.document("apps", "v1", RESOURCES, CRDS)
    assert openapi.document("apps", "v1", RESOURCES, CRDS) is first


def test_the_shipped_data_stays_small():
    assert sum(len(data.packed(name)) for name in ("protobuf", "fields", "openapi")) < 400_000


def test_the_v2_document_has_no_schemas_in_json_and_protobuf():
    written = json.loads(openapi.v2_response({"accept": "application/json"}).body)
    assert (written["swagger"], written["paths"]) == ("2.0", {})
    kubectls = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    packed = openapi.v2_response({"accept": kubectls})
    assert packed.headers["content-type"] == kubectls.replace("@", ".")
    assert packed.body == b"\n\x032.0\x12\x13\n\nKubernetes\x12\x05v1.36"
