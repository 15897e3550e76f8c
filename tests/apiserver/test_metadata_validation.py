"""Owner references and finalizers are validated as in Kubernetes; nulls are dropped."""

import pytest

from apiserver.sample_objects import CONFIGMAPS, PODS, configmap
from holdfast.api.deletion_cost import DELETION_COST
from holdfast.testing import a_pod

OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}


def owned(*owners):
    return {**configmap("c"), "metadata": {"name": "c", "ownerReferences": list(owners)}}


@pytest.mark.parametrize("part", ["kind", "name", "uid"])
@pytest.mark.parametrize("value", [None, ""])
async def test_an_owner_reference_needs_all_its_fields(api, part, value):
    refused = await api.call("POST", CONFIGMAPS, owned(OWNER | {part: value}))
    assert refused.status == 422, refused.body
    words = f'metadata.ownerReferences.{part}: Invalid value: "": must not be empty'
    assert words in refused.json["message"]


@pytest.mark.parametrize("api_version", [None, "", "apps/"])
async def test_an_owner_reference_needs_a_version(api, api_version):
    refused = await api.call("POST", CONFIGMAPS, owned(OWNER | {"apiVersion": api_version}))
    assert refused.status == 422, refused.body
    assert "version must not be empty" in refused.json["message"]


async def test_only_one_owner_may_be_the_controller(api):
    owners = [OWNER | {"controller": True, "name": name} for name in ("a", "b")]
    refused = await api.call("POST", CONFIGMAPS, owned(*owners))
    assert refused.status == 422
    assert "Only one reference can have Controller set to true" in refused.json["message"]


async def test_an_event_cannot_be_an_owner(api):
    refused = await api.call("POST", CONFIGMAPS, owned(OWNER | {"kind": "Event"}))
    assert refused.status == 422
    assert "/v1, Kind=Event is disallowed from being an owner" in refused.json["message"]


@pytest.mark.parametrize("finalizers", [["bad finalizer"], [""], ["orphan", "foregroundDeletion"]])
async def test_a_finalizer_is_a_qualified_name(api, finalizers):
    body = {**configmap("c"), "metadata": {"name": "c", "finalizers": finalizers}}
    assert (await api.call("POST", CONFIGMAPS, body)).status == 422


async def test_a_null_in_a_known_field_is_not_stored(api):
    owner = OWNER | {"controller": None}
    made = await api.create(CONFIGMAPS, {**owned(owner), "immutable": None})
    assert made["metadata"]["ownerReferences"] == [OWNER]
    assert "immutable" not in made


async def test_a_null_in_a_list_or_map_of_scalars_is_the_zero_value(api):
    made = await api.create(PODS, {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"a": None}},
        "spec": {"nodeSelector": {"b": None}, "containers": [{
            "name": "c", "image": "i", "args": ["x", None],
            "resources": {"requests": {"cpu": None}}}]},
    })  # fmt: skip
    (container,) = made["spec"]["containers"]
    assert (made["metadata"]["annotations"], made["spec"]["nodeSelector"]) == ({"a": ""}, {"b": ""})
    assert (container["args"], container["resources"]) == (["x", ""], {"requests": {"cpu": "0"}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": None}}
    assert (await api.create("/api/v1/namespaces/default/secrets", secret))["data"] == {"k": ""}


@pytest.mark.parametrize("part", ["finalize", "status"])
async def test_a_cluster_scoped_object_gets_no_namespace(api, part):
    space = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "x"}}
    await api.call("POST", "/api/v1/namespaces", space)
    space["metadata"]["namespace"] = "other"
    answer = await api.call("PUT", f"/api/v1/namespaces/x/{part}", space)
    assert "namespace" not in answer.json.get("metadata", {}), answer.body
    stored = await api.call("GET", "/api/v1/namespaces/x")
    assert "namespace" not in stored.json["metadata"]


@pytest.mark.parametrize("cost", ["cheap", "", "+1", "007", "2147483648"])
async def test_a_deletion_cost_is_a_32_bit_integer(api, cost):
    body = a_pod("p", annotations={DELETION_COST: cost})
    refused = await api.call("POST", PODS, body)
    assert refused.status == 422, refused.body
    message = f'metadata.annotations[{DELETION_COST}]: Invalid value: "{cost}": '
    assert f"{message}must be a 32bit integer" in refused.json["message"]

    body["metadata"]["annotations"][DELETION_COST] = "-2147483648"
    assert (await api.call("POST", PODS, body)).status == 201
    patch = {"metadata": {"annotations": {DELETION_COST: cost}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    assert (await api.call("PATCH", f"{PODS}/p", patch, headers=merge)).status == 422
    patch = {"metadata": {"annotations": {DELETION_COST: 5}}}
    assert (await api.call("PATCH", f"{PODS}/p", patch, headers=merge)).status in (400, 422)
