"""Feature gates in a running cluster."""

import pytest

from holdfast.api.scheme import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from holdfast.errors import NotFound
from holdfast.feature_gates import FeatureGates
from holdfast.testing import (
    a_claim,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
    a_taint_rule,
)
from holdfast.testing.builders import an_object

OFF = FeatureGates.parse("DynamicResourceAllocation=false")


def user(name, claim):
    return a_pod(name, cpu="100m", resource_claims=[{"name": "dev", "resourceClaimName": claim}])


@pytest.fixture
async def one_gpu(cluster):
    await cluster.create(
        a_node("n1"),
        a_device_class("gpu", extended_resource_name="example.com/gpu"),
        a_slice("s", node="n1", devices=[a_device("gpu-0")]),
    )
    return cluster


async def test_D089_gate_off_and_on_again_with_a_running_pod(one_gpu):
    await one_gpu.create(a_claim("c", device_class="gpu"), user("running", "c"))
    await one_gpu.create(a_claim("d", device_class="gpu"), user("waiting", "d"))
    before = await one_gpu.pod("running")
    assert (before.spec.node_name, before.status.phase) == ("n1", "Running")
    assert await one_gpu.node_of("waiting") == ""
    one_gpu.feature_gates = OFF
    await one_gpu.restart()
    assert await one_gpu.pod("running") == before
    # A pod without claims is scheduled; one that waits for devices does not wait any more.
    await one_gpu.create(user("new", "c"))
    new = await one_gpu.pod("new")
    assert (new.spec.resource_claims, new.status.phase) == ((), "Running")
    assert await one_gpu.node_of("waiting") == "n1"
    with pytest.raises(NotFound):
        await one_gpu.client.get(RESOURCE_CLAIMS, "c", "default")
    one_gpu.feature_gates = FeatureGates()
    await one_gpu.restart()
    assert await one_gpu.pod("running") == before
    claim = await one_gpu.client.get(RESOURCE_CLAIMS, "c", "default")
    assert [consumer.name for consumer in claim.status.reserved_for] == ["running"]
    await one_gpu.create(user("late", "c"))
    assert (await one_gpu.pod("late")).status.phase == "Running"
    await one_gpu.delete(PODS, "late", "default")


async def test_D089_without_extended_resources_a_name_without_allocatable_is_insufficient(one_gpu):
    one_gpu.feature_gates = FeatureGates.parse("DRAExtendedResource=false")
    await one_gpu.restart()
    wanted = {"example.com/gpu": "1"}
    await one_gpu.create(a_pod("p", cpu="100m", limits=wanted, requests=wanted))
    assert await one_gpu.node_of("p") == ""
    assert "Insufficient example.com/gpu" in await one_gpu.why("p")
    one_gpu.feature_gates = FeatureGates()
    await one_gpu.restart()
    assert await one_gpu.node_of("p") == "n1"


async def test_D089_a_running_pod_keeps_its_device_while_its_feature_is_off(one_gpu):
    wanted = {"example.com/gpu": "1"}
    await one_gpu.create(a_pod("p", cpu="100m", limits=wanted, requests=wanted))
    before = await one_gpu.pod("p")
    assert (before.spec.node_name, before.status.phase) == ("n1", "Running")
    for gates in ("DRAExtendedResource=false", "DynamicResourceAllocation=false", ""):
        one_gpu.feature_gates = FeatureGates.parse(gates)
        await one_gpu.restart()
        assert await one_gpu.pod("p") == before
    await one_gpu.create(a_claim("c", device_class="gpu"), user("q", "c"))
    assert await one_gpu.node_of("q") == ""


async def test_D089_quotas_without_extended_resources_and_without_devices(one_gpu):
    """Without extended resources claims charge only their class; without devices pods charge."""
    extended, by_class = "requests.example.com/gpu", "gpu.deviceclass.resource.k8s.io/devices"
    hard = {extended: "1", by_class: "2", "pods": "5"}
    await one_gpu.create(an_object(RESOURCE_QUOTAS, "q", {"hard": hard}, namespace="default"))
    await one_gpu.create(a_claim("c", device_class="gpu"))
    for gates, used in (
        ("", {extended: "1", by_class: "1", "pods": "0"}),
        ("DRAExtendedResource=false", {extended: "0", by_class: "2", "pods": "0"}),
        ("DynamicResourceAllocation=false", {extended: "0", by_class: "0", "pods": "1"}),
    ):
        one_gpu.feature_gates = FeatureGates.parse(gates)
        await one_gpu.restart()
        if "Extended" in gates:
            await one_gpu.create(a_claim("d", device_class="gpu"))
        elif "Dynamic" in gates:
            await one_gpu.create(a_pod("p"))
        await one_gpu.settle()
        quota = await one_gpu.client.get(RESOURCE_QUOTAS, "q", "default")
        assert (gates, quota.status.used) == (gates, used)


async def test_a_device_taint_rule_keeps_pods_away_until_it_is_deleted(one_gpu):
    one_gpu.feature_gates = FeatureGates.parse("DRADeviceTaintRules=true")
    await one_gpu.restart()
    await one_gpu.create(a_taint_rule("broken", driver="gpu.example.com"))
    await one_gpu.create(a_claim("c", device_class="gpu"), user("p", "c"))
    assert await one_gpu.node_of("p") == ""
    assert "cannot allocate all claims" in await one_gpu.why("p")
    # A rule that selects another device does not concern the pod.
    other = {"spec": {"deviceSelector": {"device": "gpu-9"}}}
    await one_gpu.client.patch(DEVICE_TAINT_RULES, "broken", other)
    await one_gpu.settle()
    assert await one_gpu.node_of("p") == "n1"
    await one_gpu.create(a_taint_rule("all", effect="None"))
    await one_gpu.delete(DEVICE_TAINT_RULES, "all")
    # Without the gate stored rules have no effect.
    await one_gpu.delete(PODS, "p", "default")
    await one_gpu.create(a_taint_rule("all"))
    await one_gpu.create(a_claim("d", device_class="gpu"), user("q", "d"))
    assert await one_gpu.node_of("q") == ""
    one_gpu.feature_gates = FeatureGates()
    await one_gpu.restart()
    assert await one_gpu.node_of("q") == "n1"
