"""Devices with binding conditions: the pod is bound when the driver has prepared them."""

import pytest

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.client.client import PatchType
from holdfast.scheduling.plugins.dynamic_resources.binding_conditions import Progress, progress_of
from holdfast.testing import (
    a_claim,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_slice,
    typed,
)

GPU = "example.com/gpu"
CONDITIONS = {
    "bindsToNode": True,
    "bindingConditions": ["example.com/attached"],
    "bindingFailureConditions": ["example.com/failed"],
}
ALLOCATIONS = "dra_bindingconditions_allocations_total"
WAITS = "dra_bindingconditions_wait_duration_seconds_count"
EVENT = ("BindingConditionsPending", "waiting for binding conditions for device on node n1")


def labels(status):
    return {"profile": "default-scheduler", "driver": "gpu.example.com", "status": status}


@pytest.fixture
async def attached(cluster):
    """A node with one device that its driver has to attach first."""
    await cluster.create(
        a_node("n1"),
        a_device_class("gpu", extended_resource_name=GPU),
        a_slice("n1-gpus", node="n1", devices=[a_device("gpu-0", **CONDITIONS)]),
        a_claim("c"),
    )
    return cluster


async def use(cluster, name="p"):
    pod = a_pod(name, cpu="100m", resource_claims=[{"name": "dev", "resourceClaimName": "c"}])
    await cluster.create(pod)


async def report(cluster, type_, status="True", claim="c"):
    """Write a condition of the device, as its driver does."""
    condition = {
        "type": type_,
        "status": status,
        "reason": "Driver",
        "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }
    found = await cluster.client.get(RESOURCE_CLAIMS, claim, "default")
    (result,) = found.status.allocation.devices.results
    device = {"driver": result.driver, "pool": result.pool, "device": result.device}
    body = {"status": {"devices": [device | {"conditions": [condition]}]}}
    await cluster.client.patch(
        RESOURCE_CLAIMS, claim, body, "default", type=PatchType.MERGE, subresource="status"
    )


async def test_D051_the_pod_is_bound_when_the_driver_reports_the_condition(attached):
    await use(attached)
    claim = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    (result,) = claim.status.allocation.devices.results
    assert result.binding_conditions == ("example.com/attached",)
    assert result.binding_failure_conditions == ("example.com/failed",)
    assert claim.status.allocation.allocation_timestamp
    assert EVENT in await attached.events("p")
    assert not await attached.node_of("p")

    await report(attached, "example.com/attached", "False")
    await attached.advance(60)
    assert not await attached.node_of("p")
    await report(attached, "example.com/attached")
    await attached.advance(5)
    assert await attached.node_of("p") == "n1"
    assert (await attached.events("p")).count(EVENT) == 1
    assert attached.metric(ALLOCATIONS, **labels("success")) == 1
    assert attached.metric(WAITS, **labels("success")) == 1


async def test_D051_a_failure_deallocates_the_claim_and_the_pod_is_tried_again(attached):
    await use(attached)
    first = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    await report(attached, "example.com/failed")
    await attached.advance(5)
    assert await attached.why("p") == (
        'running PreBind plugin "DynamicResources": claim c binding failed'
    )
    assert attached.metric(ALLOCATIONS, **labels("failure")) == 1
    await attached.advance(10)
    again = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    assert not again.status.devices
    assert again.status.allocation.allocation_timestamp != (
        first.status.allocation.allocation_timestamp
    )
    await report(attached, "example.com/attached")
    await attached.advance(10)
    assert await attached.node_of("p") == "n1"


async def test_D051_after_the_time_limit_the_claim_is_deallocated_too(attached):
    await use(attached)
    first = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    await attached.advance(599)
    assert len(await attached.events("p")) == 1
    await attached.advance(20)
    messages = [message for _, message in await attached.events("p")]
    assert any("device binding timeout: " in message for message in messages)
    assert any("deallocation of ResourceClaim completed" in message for message in messages)
    assert attached.metric(ALLOCATIONS, **labels("timeout")) == 1
    again = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    assert again.status.allocation != first.status.allocation


async def test_a_restart_while_the_driver_works_waits_again_for_the_same_device(attached):
    await use(attached)
    before = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    await attached.restart_components()
    await report(attached, "example.com/attached")
    await attached.advance(10)
    assert await attached.node_of("p") == "n1"
    claim = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    assert claim.status.allocation == before.status.allocation


async def test_a_pod_deleted_while_its_device_is_prepared_frees_the_device(attached):
    await use(attached)
    await attached.delete(PODS, "p", "default")
    await attached.advance(10)
    claim = await attached.client.get(RESOURCE_CLAIMS, "c", "default")
    assert claim.status.allocation is None
    assert not attached.world.devices.allocated_devices.unshared
    await use(attached, "q")
    await report(attached, "example.com/attached")
    await attached.advance(10)
    assert await attached.node_of("q") == "n1"


async def test_a_special_claim_waits_for_its_device_as_well(attached):
    asked = {GPU: "1"}
    await attached.create(a_pod("x", requests=asked, limits=asked))
    assert not await attached.node_of("x")
    [name] = [
        claim.name for claim in (await attached.client.list(RESOURCE_CLAIMS)).items
        if claim.status.allocation
    ]  # fmt: skip
    await report(attached, "example.com/failed", claim=name)
    await attached.advance(5)
    assert any("binding failed" in message for _, message in await attached.events("x"))
    names = [claim.name for claim in (await attached.client.list(RESOURCE_CLAIMS)).items]
    assert names == ["c"]
    assert (await attached.pod("x")).status.extended_resource_claim_status is None


async def test_a_preemptor_ends_the_wait_within_seconds(cluster):
    await cluster.create(
        a_node("n1", cpu="1"),
        a_device_class("gpu"),
        a_slice("n1-gpus", node="n1", devices=[a_device("gpu-0", **CONDITIONS)]),
        a_claim("c"),
    )
    await use(cluster)
    await cluster.create(
        a_priority_class("high"), a_pod("urgent", cpu="1", priority_class_name="high")
    )
    await cluster.advance(20)
    assert await cluster.node_of("urgent") == "n1"


@pytest.mark.parametrize(
    "devices", [None, [{"driver": 5}], [{"driver": "gpu.example.com", "conditions": "x"}]]
)
def test_unreadable_device_statuses_are_not_conditions(devices):
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0",
              "bindingConditions": ["x"], "bindingFailureConditions": ["y"]}  # fmt: skip
    status = {"allocation": {"devices": {"results": [result]}}}
    if devices is not None:
        status["devices"] = devices
    assert progress_of(typed(a_claim("c", status=status))) is Progress.WAITING
