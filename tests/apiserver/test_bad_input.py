"""Invalid input is rejected and never causes an internal error."""

import pytest

from apiserver.sample_objects import APPS, BUDGETS, PODS, RESERVATIONS, configmap, pod, reservation

YAML = {"content-type": "application/yaml"}


def with_metadata(**metadata):
    return pod("odd") | {"metadata": {"name": "odd", **metadata}}


def with_container(**container):
    return pod("odd", containers=[{"name": "c", "image": "x", **container}])


MISSHAPEN = {
    "finalizers": with_metadata(finalizers="abc"),
    "owners": with_metadata(ownerReferences=["a"]),
    "owners map": with_metadata(ownerReferences={"a": 1}),
    "annotation": with_metadata(annotations={"a": 1}),
    "nodeSelector": pod("odd", nodeSelector={"a": 1}),
    "port": with_container(ports=[{"containerPort": "many"}]),
    "image": with_container(image=5),
    "fraction": pod("odd", terminationGracePeriodSeconds=1.5),
    "too large": pod("odd", activeDeadlineSeconds=1 << 63),
    "true is no number": pod("odd", activeDeadlineSeconds=True),
    "toleration": pod("odd", tolerations=["all"]),
    "values": pod("odd", affinity={"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": 5}]}]}}}),
    "command": with_container(command="sh"),
}  # fmt: skip


@pytest.mark.parametrize("odd", MISSHAPEN.values(), ids=MISSHAPEN)
async def test_a_pod_with_wrong_types_is_rejected_and_lists_still_work(api, odd):
    refused = await api.call("POST", PODS, odd)
    assert refused.status == 400, refused.body
    assert refused.json["message"].startswith('Pod in version "v1" cannot be handled as a Pod: ')
    await api.create(PODS, pod("good"))
    table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert b'"good"' in (await api.call("GET", PODS, headers=table)).body


async def test_the_messages_are_those_of_kubernetes(api):
    refused = await api.call("POST", PODS, MISSHAPEN["port"])
    assert refused.json["message"].endswith(
        "json: cannot unmarshal string into Go struct field "
        "ContainerPort.spec.containers.ports.containerPort of type int32"
    )


@pytest.mark.parametrize("media", ["merge-patch", "strategic-merge-patch"])
async def test_a_patch_to_wrong_types_is_rejected(api, media):
    await api.create(PODS, pod("a"))
    patch = {"metadata": {"finalizers": "abc"}}
    headers = {"content-type": f"application/{media}+json"}
    assert (await api.call("PATCH", f"{PODS}/a", patch, headers=headers)).status == 400


async def test_nulls_count_as_absent(api):
    odd = with_metadata(creationTimestamp=None, labels=None) | {"status": None}
    odd["spec"]["tolerations"] = None
    assert (await api.create(PODS, odd))["metadata"]["name"] == "odd"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{PODS}/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": 5}),
        (f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": 5}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews",
         {"spec": {"user": "x", "groups": 5, "resourceAttributes": {}}}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews",
         {"spec": {"user": ["x"], "resourceAttributes": {}}}),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": []}),
        ("/api/v1/namespaces/default/configmaps", configmap("c") | {"data": {"a": 5}}),
        ("/api/v1/namespaces/default/secrets",
         {"metadata": {"name": "s"}, "data": {"a": "no base64!"}}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles",
         {"metadata": {"name": "r"}, "rules": [5]}),
    ],
)  # fmt: skip
async def test_every_body_is_checked_against_its_kind(api, path, body):
    await api.create(PODS, pod("a"))
    answer = await api.call("POST", path, body)
    assert answer.status == 400, answer.body


async def test_bodies_of_finalize_and_scale_are_checked_too(api):
    space = {"metadata": {"name": "default"}, "spec": 5}
    assert (await api.call("PUT", "/api/v1/namespaces/default/finalize", space)).status == 400
    await api.create(f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
                     "spec": {"containers": [{"name": "c", "image": "x"}]}}}})  # fmt: skip
    scale = f"{APPS}/deployments/d/scale"
    assert (await api.call("PUT", scale, {"spec": []})).status == 400
    other = {"metadata": {"name": "e"}, "spec": {"replicas": 1}}
    assert (await api.call("PUT", scale, other)).status == 400
    assert (await api.call("GET", scale)).json["spec"]["replicas"] == 2


async def test_huge_numbers_are_rejected_or_limited(api):
    digits = b"metadata: {name: a}\nspec: {priority: " + b"9" * 5000 + b"}"
    assert (await api.call("POST", PODS, digits, headers=YAML)).status == 400
    await api.create(PODS, pod("a"))
    options = {"gracePeriodSeconds": 99999999999999999999, "dryRun": ["All"]}
    assert (await api.call("DELETE", f"{PODS}/a", options)).status == 400
    options["gracePeriodSeconds"] = (1 << 63) - 1
    assert (await api.call("DELETE", f"{PODS}/a", options)).status == 200


async def test_a_long_selector_does_not_close_the_connection(api):
    keys = ",".join(f"key-{i}!=a" for i in range(2000))
    assert (await api.call("GET", PODS, labelSelector=keys)).status == 200


@pytest.mark.parametrize("group", ["apps", "resource.k8s.io", "events.k8s.io"])
async def test_a_custom_resource_cannot_replace_a_built_in_one(api, group):
    plural = {"apps": "deployments", "resource.k8s.io": "resourceclaims"}.get(group, "events")
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd = {
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {
            "group": group, "scope": "Cluster", "names": {"plural": plural, "kind": "Fake"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }  # fmt: skip
    made = await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert made.status == 422
    listed = await api.call("GET", f"/apis/{group}/v1/namespaces/default/{plural}")
    assert listed.status == 200
    assert listed.json["kind"] != "FakeList"


UNREADABLE = {
    "toleration": ("spec.tolerations[0].operator", PODS,
                   pod("p", tolerations=[{"key": "a", "operator": "Foo"}])),
    "affinity": ("matchExpressions[0].operator", PODS,
                 pod("p", affinity={"nodeAffinity": {
                     "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                         {"matchExpressions": [{"key": "a", "operator": "Foo"}]}]}}})),
    "negative": ("spec.containers[0].resources.requests[cpu]", PODS,
                 with_container(resources={"requests": {"cpu": "-1"}})),
    "beyond the limit": ("spec.containers[0].resources.requests", PODS,
                         with_container(resources={"requests": {"cpu": "2"},
                                                   "limits": {"cpu": "1"}})),
    "taint": ("spec.taints[0].effect", "/api/v1/nodes",
              {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Foo"}]}}),
    "budget selector": ("spec.selector", BUDGETS, {"metadata": {"name": "b"}, "spec": {
        "selector": {"matchExpressions": [{"key": "a", "operator": "Zip"}]}}}),
    "budget": ("spec.minAvailable", BUDGETS,
               {"metadata": {"name": "b"}, "spec": {"minAvailable": "abc", "selector": {}}}),
    "reserved amount": ("spec.template.spec.containers[0].resources.requests[cpu]", RESERVATIONS,
                        reservation(containers=[{"resources": {"requests": {"cpu": "zz"}}}])),
    "reserved shape": ("spec.template", RESERVATIONS, reservation(containers=5)),
    "reserved for": ("spec.owners[0].labelSelector", RESERVATIONS, reservation(
        {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}})),
}  # fmt: skip


@pytest.mark.parametrize(("field", "path", "body"), UNREADABLE.values(), ids=UNREADABLE)
async def test_invalid_scheduling_fields_are_rejected_with_their_path(api, field, path, body):
    refused = await api.call("POST", path, body)
    assert refused.status == 422, refused.body
    assert field in refused.json["message"]
    assert (await api.call("GET", path)).json["items"] == []
