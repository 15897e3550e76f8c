import pytest

from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_deployment,
    a_device,
    a_device_class,
    a_namespace,
    a_node,
    a_pod,
    a_priority_class,
    a_replica_set,
    a_reservation,
    a_resource_policy,
    a_slice,
    a_unit,
    typed,
)
from holdfast.testing.builders import resource_of

ALL = [
    a_pod(), a_node(), a_namespace(), a_priority_class(), a_reservation(),
    a_resource_policy(units=[a_unit()]), a_device_class(), a_slice(), a_claim(),
    a_claim_template(), a_replica_set(), a_deployment(),
]  # fmt: skip


@pytest.mark.parametrize("raw", ALL, ids=lambda raw: raw["kind"])
def test_each_builder_makes_its_kind(raw):
    obj = typed(raw)
    assert type(obj).__name__ == raw["kind"] == resource_of(raw).kind
    assert obj.uid and obj.metadata.resource_version


def test_a_pod_has_the_given_fields():
    raw = a_pod(
        "p", cpu=None, requests={"nvidia.com/gpu": 1}, node="n", node_selector={"zone": "a"},
        claims=[{"name": "gpu", "resourceClaimName": "c"}], scheduler_name="koord-scheduler",
        priority=None,
    )  # fmt: skip
    pod = typed(raw, uid="u", deletion_timestamp="2023-11-14T22:13:20Z")
    assert pod.spec.containers[0].resources.requests == {"nvidia.com/gpu": 1}
    assert pod.spec.containers[0].resources.claims[0].name == "gpu"
    assert pod.spec.resource_claims[0].resource_claim_name == "c"
    assert (pod.spec.node_name, pod.spec.scheduler_name) == ("n", "koord-scheduler")
    assert pod.spec.node_selector == {"zone": "a"} and "priority" not in raw["spec"]
    assert pod.uid == "u" and pod.terminating


def test_objects_of_different_names_have_different_uids():
    assert typed(a_pod("a")).uid != typed(a_pod("b")).uid
    assert typed(a_pod("a")).uid == typed(a_pod("a")).uid


def test_devices_have_the_form_of_the_api():
    device = a_device(
        "d", attributes={"model": "A", "cores": 8, "ecc": True}, capacity={"m": "1Gi"}
    )
    (read,) = typed(a_slice(devices=[device])).spec.devices
    assert read.attributes["model"].string == "A" and read.attributes["cores"].int_ == 8
    assert read.attributes["ecc"].bool_ is True and read.capacity["m"].value == "1Gi"
    assert [d["name"] for d in a_slice(devices=3)["spec"]["devices"]] == ["gpu-0", "gpu-1", "gpu-2"]


def test_keywords_of_a_workload_are_those_of_its_pods():
    made = a_deployment("web", replicas=3, cpu="2", labels={"tier": "front"}, namespace="shop")
    assert made["metadata"] == {"name": "web", "namespace": "shop"}
    template = made["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
