"""What a user with ``edit`` in one namespace tries against another one, through the API."""

import json

import pytest

from holdfast.api.scheme import PODS
from holdfast.columns.interner import MOST_FROM_PODS, OTHER_RESOURCES
from holdfast.testing import (
    a_claim,
    a_deployment,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_slice,
)
from stories.tenants import two_tenants

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/late"
LIMIT = "scheduling.holdfast.dev/owner-namespaces"


@pytest.fixture
async def tenants(tmp_path):
    async with two_tenants(tmp_path / "store") as found:
        yield found


async def test_a_claim_of_another_namespace_is_none_of_a_pods_extended_resources(tenants):
    """The claim names the victim's pod as its owner, so that the pod would wait for its deletion."""
    cluster, victim, hostile = tenants
    await cluster.create(a_device_class("gpu", extended_resource_name=GPU), a_node("n"))
    await cluster.create(a_slice("n-gpu", node="n", devices=2))
    gated = a_pod("v", requests={GPU: "1"}, limits={GPU: "1"}, schedulingGates=[{"name": "g"}])
    await victim.create(gated)
    pod = await cluster.pod("v", "a")
    claim = a_claim("forged")
    claim["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "finalizers": ["example.com/forever"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "v", "uid": pod.uid, "controller": True}
        ],
    }
    await hostile.create(claim)
    await cluster.client.patch(PODS, "v", {"spec": {"schedulingGates": None}}, "a")
    await cluster.settle()
    assert await cluster.node_of("v", "a") == "n"


async def test_room_for_owners_of_one_namespace_is_not_entered_from_another(tenants):
    cluster, victim, hostile = tenants
    await cluster.create(a_node("n", cpu="8"))
    await cluster.create(
        a_reservation("r", cpu="6", owner_labels={"app": "web"}, annotations={LIMIT: "a"})
    )
    affinity = {"scheduling.koordinator.sh/reservation-affinity": json.dumps({"name": "r"})}
    for number, more in enumerate([{}, {"annotations": affinity}, {"labels": {"app": "web"}}]):
        name = f"thief-{number}"
        await hostile.create(a_pod(name, cpu="4", **{"labels": {"app": "web"}, **more}))
        assert await cluster.node_of(name, "b") == ""
    await victim.create(a_pod("owner", cpu="6", labels={"app": "web"}))
    assert await cluster.node_of("owner", "a") == "n"


async def test_a_deployment_does_not_write_allocations_for_a_tenant(tenants):
    cluster, _, hostile = tenants
    await cluster.create(a_node("n"))
    made = a_deployment("d", replicas=1)
    status = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"0-7"}'}
    made["spec"]["template"]["metadata"]["annotations"] = status
    made["spec"]["template"]["spec"]["nodeName"] = "n"
    await hostile.create(made)
    await cluster.advance(5)
    assert (await cluster.client.list(PODS, "b")).items == ()


def asking_for(name, resources, **more):
    amounts = dict.fromkeys(resources, "1")
    return a_pod(name, requests=amounts, limits=amounts, **more)


async def test_pods_of_any_number_of_resources_cost_the_scheduler_few_columns(tenants):
    """Each name was a column of every node: 12 pending pods took 800 MB of a scheduler."""
    cluster, victim, hostile = tenants
    await cluster.create(a_node("n"))
    for number in range(3 * MOST_FROM_PODS // 100):
        names = [f"r{number}-{i}.example.org/x" for i in range(100)]
        await hostile.create(asking_for(f"p{number}", names))
    assert cluster.world.nodes.amounts.width < 4 * MOST_FROM_PODS
    assert f"Insufficient {OTHER_RESOURCES}" in await cluster.why(f"p{number}", "b")
    # What nodes have, or a class serves, is found nevertheless.
    await cluster.create(a_node("m", allocatable={"example.com/fpga": "1"}))
    await cluster.create(a_device_class("late", extended_resource_name=GPU))
    await cluster.create(a_slice("n-gpu", node="n", devices=2))
    for name in ("example.com/fpga", GPU, IMPLICIT):
        pod = name.rpartition("/")[2]
        await victim.create(asking_for(pod, [name]))
        assert await cluster.node_of(pod, "a") == ("m" if pod == "fpga" else "n")
