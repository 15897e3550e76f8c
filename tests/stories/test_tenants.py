"""What a user with ``edit`` in one namespace tries against another one, through the API."""

import json
from pathlib import Path

import pytest
import yaml

from holdfast.api.scheme import PODS
from holdfast.runtime.errors import Forbidden
from holdfast.state.columns.interner import MOST_FROM_PODS, OTHER_RESOURCES
from holdfast.testing import (
    a_claim,
    a_deployment,
    a_device_class,
    a_node,
    a_pod,
    a_reservation,
    a_slice,
)
from stories.tenants import ROLE_BINDINGS, Tenant, two_tenants

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/late"
EXAMPLES = Path(__file__).parents[2] / "examples" / "74-tenants"
LIMIT = "scheduling.holdfast.dev/owner-namespaces"


@pytest.fixture
async def tenants(tmp_path):
    async with two_tenants(tmp_path / "store") as found:
        yield found


async def test_a_claim_of_another_namespace_is_none_of_a_pods_extended_resources(tenants):
    """The claim names the victim's pod as its owner; the pod would wait for its deletion."""
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


@pytest.fixture
async def recipe(tmp_path):
    """The cluster of the recipe: jane is in the group team-a of the example."""
    async with two_tenants(tmp_path / "store") as (cluster, _, _):
        await cluster.create(a_node("n", cpu="6"), a_device_class("gpu.example.com"))
        for raw in yaml.safe_load_all((EXAMPLES / "tenant.yaml").read_text()):
            if raw["kind"] == "RoleBinding":
                await cluster.client.create(ROLE_BINDINGS, raw, "team-a")
            else:
                await cluster.create(raw)
        await cluster.create(yaml.safe_load((EXAMPLES / "reservation.yaml").read_text()))
        await cluster.advance(2)  # the quotas are counted
        yield cluster, Tenant(cluster, "team-a", user="jane", group="team-a")


FOREIGN = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}
ANTI_AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [FOREIGN]}}
SMALL = {"cpu": "1m", "memory": "1Mi"}


def gpus(**amounts):
    named = {f"{'nvidia.com' if n == 'gpu' else 'koordinator.sh'}/{n.replace('_', '-')}": str(a)
             for n, a in amounts.items()}  # fmt: skip
    return {"requests": SMALL | named, "limits": named}


@pytest.mark.parametrize(
    "spec",
    [
        {"requests": {"cpu": "17", "memory": "1Mi"}},
        {"requests": SMALL, "priority_class_name": "system-node-critical"},
        {"requests": SMALL, "affinity": ANTI_AFFINITY},
        gpus(gpu=3),
        gpus(gpu_core=201, gpu_memory_ratio=100),
        gpus(gpu_core=1, gpu_memory="1"),
        {
            "requests": SMALL | {"koordinator.sh/gpu": "300"},
            "limits": {"koordinator.sh/gpu": "300"},
        },
    ],
)
async def test_the_quotas_of_the_recipe_hold(recipe, spec):
    _, jane = recipe
    with pytest.raises(Forbidden, match="exceeded quota"):
        await jane.create(a_pod("p", **spec))


async def test_the_recipe_leaves_a_tenant_its_own_room(recipe):
    cluster, jane = recipe
    await jane.create(a_claim("two", device_class="gpu.example.com", count=2))
    with pytest.raises(Forbidden, match="exceeded quota"):
        await jane.create(a_claim("third", device_class="gpu.example.com"))
    for namespace in ("a", "team-a"):
        raw = a_pod("p", namespace=namespace, labels={"app": "web"}, cpu="4", memory="1Mi")
        await cluster.create(raw)
    assert (await cluster.node_of("p", "a"), await cluster.node_of("p", "team-a")) == ("", "n")
