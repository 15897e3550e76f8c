"""Feature gates in a running cluster."""

import pytest

from apiserver.direct_store import write_directly
from holdfast.api.scheme import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from holdfast.runtime.errors import NotFound
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.store import ObjectKey
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


RULES = FeatureGates.parse("DRADeviceTaintRules=true")


async def test_a_device_taint_rule_keeps_pods_away_until_it_is_changed_or_deleted(one_gpu):
    one_gpu.feature_gates = RULES
    await one_gpu.restart()
    await one_gpu.create(a_taint_rule("broken", driver="gpu.example.com"))
    await one_gpu.create(a_claim("c", device_class="gpu"), user("p", "c"))
    assert await one_gpu.node_of("p") == ""
    assert "cannot allocate all claims" in await one_gpu.why("p")
    await one_gpu.restart()
    # Rules that select the device in other ways keep the pod away as well; it is tried again.
    for selector in ({"driver": None, "pool": "n1"}, {"device": "gpu-0"}, {"pool": None}):
        await change(one_gpu, "broken", {"deviceSelector": selector})
        assert await one_gpu.node_of("p") == ""
    # A rule that selects another device does not concern the pod.
    await change(one_gpu, "broken", {"deviceSelector": {"device": "gpu-9"}})
    assert await one_gpu.node_of("p") == "n1"
    await one_gpu.delete(PODS, "p", "default")
    # A taint without effect, and one that the claim tolerates, keep no pod away.
    await change(one_gpu, "broken", {"deviceSelector": None, "taint": {"effect": "None"}})
    await one_gpu.create(a_claim("d", device_class="gpu"), user("q", "d"))
    assert await one_gpu.node_of("q") == "n1"
    await one_gpu.delete(PODS, "q", "default")
    await change(one_gpu, "broken", {"taint": {"effect": "NoSchedule"}})
    tolerant = a_claim("e", device_class="gpu")
    exactly = tolerant["spec"]["devices"]["requests"][0]["exactly"]
    exactly["tolerations"] = [{"key": "example.com/broken", "operator": "Exists"}]
    await one_gpu.create(tolerant, user("r", "e"))
    assert await one_gpu.node_of("r") == "n1"
    await one_gpu.delete(PODS, "r", "default")
    # The pod runs when the rule is deleted.
    await one_gpu.create(a_claim("f", device_class="gpu"), user("s", "f"))
    assert await one_gpu.node_of("s") == ""
    await one_gpu.delete(DEVICE_TAINT_RULES, "broken")
    assert await one_gpu.node_of("s") == "n1"


async def change(cluster, rule, spec):
    await cluster.client.patch(DEVICE_TAINT_RULES, rule, {"spec": spec})
    await cluster.settle()


async def test_D089_without_the_gate_stored_rules_have_no_effect(one_gpu):
    one_gpu.feature_gates = RULES
    await one_gpu.restart()
    await one_gpu.create(a_taint_rule("all"))
    await one_gpu.create(a_claim("d", device_class="gpu"), user("q", "d"))
    assert await one_gpu.node_of("q") == ""
    one_gpu.feature_gates = FeatureGates()
    await one_gpu.restart()
    assert await one_gpu.node_of("q") == "n1"


HOSTILE = (
    {},
    {"spec": None},
    {"spec": []},
    {"spec": {"taint": None}},
    {"spec": {"taint": ["NoSchedule"]}},
    {"spec": {"taint": {"key": "k"}}},
    {"spec": {"taint": {"key": "k", "effect": "Bogus"}}},
    {"spec": {"taint": {"key": 7, "effect": "NoSchedule"}}},
    {"spec": {"taint": {"key": "k", "effect": "NoExecute", "timeAdded": 7}}},
    {"spec": {"deviceSelector": "gpu", "taint": {"key": "k", "effect": "NoExecute"}}},
    {"spec": {"deviceSelector": {"driver": 5}, "taint": {"key": "k", "effect": "NoExecute"}}},
    {"spec": {"deviceSelector": {"driver": ""}, "taint": {"key": "k", "effect": "NoExecute"}}},
    {"spec": {"deviceSelector": {"device": "x" * 100_000}, "taint": {"effect": "NoExecute"}}},
    {"spec": {"taint": {"key": "k"}}, "status": {"conditions": [7, {"type": 5}]}},
    {"spec": {"taint": {"key": "k", "effect": "None", "timeAdded": "yesterday"}}},
)


async def test_rules_from_before_their_validation_stop_nothing(one_gpu):
    one_gpu.feature_gates = RULES
    await one_gpu.restart()
    for number, body in enumerate(HOSTILE):
        key = ObjectKey("resource.k8s.io", "devicetaintrules", "", f"bad-{number}")
        raw = {"kind": "DeviceTaintRule", **body, "metadata": {"name": key.name, "uid": key.name}}
        await write_directly(one_gpu.store, key, raw)
    await one_gpu.create(a_claim("c", device_class="gpu"), user("p", "c"))
    assert await one_gpu.node_of("p") == "n1"
    # Sound rules beside them are followed, also after a restart.
    await one_gpu.delete(PODS, "p", "default")
    await one_gpu.create(a_taint_rule("sound", driver="gpu.example.com"))
    await one_gpu.restart()
    await one_gpu.create(a_claim("d", device_class="gpu"), user("q", "d"))
    assert await one_gpu.node_of("q") == ""
    await one_gpu.delete(DEVICE_TAINT_RULES, "sound")
    assert await one_gpu.node_of("q") == "n1"
