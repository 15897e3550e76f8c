"""Objects with thousands of entries in a list are rejected with the field."""

import pytest

from apiserver.media_types import MERGE
from apiserver.sample_objects import APPS, BUDGETS, PODS, RESERVATIONS, configmap, pod, reservation
from holdfast.testing import a_deployment, a_node

NODES = "/api/v1/nodes"
SPREAD = [
    {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule"}
    for i in range(8000)
]
MANY = {f"example.com/r{i}": "1" for i in range(5000)}
FINALIZERS = [f"example.com/{i}" for i in range(4000)]
CONTAINERS = [{"name": f"c{i}", "image": "i"} for i in range(5000)]


def template(**spec):
    made = a_deployment("web", replicas=1)
    made["spec"]["template"]["spec"] |= spec
    return made


def budget():
    selector = {"matchLabels": {f"k{i}": "v" for i in range(3000)}}
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": selector},
    }  # fmt: skip


def sized(node, amounts):
    node["status"]["allocatable"] = amounts
    return node


LARGE = [
    (PODS, pod("odd", topologySpreadConstraints=SPREAD), "spec.topologySpreadConstraints", 8000),
    (PODS, pod("odd", containers=CONTAINERS), "spec.containers", 5000),
    (PODS, pod("odd", containers=[CONTAINERS[0] | {"resources": {"requests": MANY}}]),
     "spec.containers[0].resources.requests", 5000),
    (f"{APPS}/deployments", template(tolerations=[{"operator": "Exists"}] * 9000),
     "spec.template.spec.tolerations", 9000),
    (RESERVATIONS, reservation(topologySpreadConstraints=SPREAD),
     "spec.template.spec.topologySpreadConstraints", 8000),
    (RESERVATIONS, reservation() | {"spec": {
        "owners": [{"object": {"name": f"p{i}"}} for i in range(5000)], "template": {}}},
     "spec.owners", 5000),
    (BUDGETS, budget(), "spec.selector.matchLabels", 3000),
    (NODES, sized(a_node("n"), MANY), "status.allocatable", 5000),
    ("/api/v1/namespaces/default/configmaps",
     configmap("odd") | {"metadata": {"name": "odd", "finalizers": FINALIZERS}},
     "metadata.finalizers", 4000),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "field", "count"), LARGE, ids=[row[2] for row in LARGE])
async def test_a_list_that_is_too_long_is_refused(api, path, body, field, count):
    refused = await api.call("POST", path, body)
    assert refused.status == 422, refused.body[:300]
    [cause] = refused.json["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueTooMany", field)
    assert cause["message"].startswith(f"Too many: {count}: must have at most ")


async def test_neither_a_patch_nor_a_status_gets_around_it(api):
    await api.create(PODS, pod("p"))
    tolerations = {
        "spec": {"tolerations": [{"operator": "Exists", "key": f"k{i}"} for i in range(600)]}
    }
    refused = await api.call("PATCH", f"{PODS}/p", tolerations, headers=MERGE)
    assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (
        422, "spec.tolerations",
    )  # fmt: skip
    await api.create(NODES, a_node("n"))
    status = {"status": {"allocatable": MANY}}
    refused = await api.call("PATCH", f"{NODES}/n/status", status, headers=MERGE)
    assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (
        422, "status.allocatable",
    )  # fmt: skip


async def test_annotations_are_limited_in_bytes_not_in_characters(api):
    path = "/api/v1/namespaces/default/configmaps"

    def annotated(value):
        return configmap("c") | {"metadata": {"name": "c", "annotations": {"a": value}}}

    refused = await api.call("POST", path, annotated("\u20ac" * 100_000))
    [cause] = refused.json["details"]["causes"]
    assert (refused.status, cause["reason"]) == (422, "FieldValueTooLong")
    await api.create(path, annotated("\u20ac" * 87_000))
