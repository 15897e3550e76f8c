"""Claims and the devices of pods that end, and the metrics about claims."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.scheduling.scheduler.object_metrics import resources_page
from holdfast.testing import (
    a_claim,
    a_claim_template,
    a_deployment,
    a_device,
    a_device_class,
    a_node,
    a_pod,
    a_slice,
)

GPU = {"example.com/gpu": "1"}


@pytest.fixture
async def three_gpus(cluster):
    """A node with three devices, which a class also serves as an extended resource."""
    await cluster.create(
        a_node("n"),
        a_slice("n-gpus", devices=3),
        a_claim_template("t"),
        a_device_class("gpu", extended_resource_name="example.com/gpu"),
    )
    return cluster


def by_template(name):
    return a_pod(name, claims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])


def by_claim(name, claim="c"):
    return a_pod(name, claims=[{"name": "gpu", "resourceClaimName": claim}])


def by_resource(name):
    return a_pod(name, requests=GPU, limits=GPU)


async def end(cluster, name, phase):
    """Write the end of a pod into its status, as a kubelet does."""
    await cluster.client.patch(
        PODS, name, {"status": {"phase": phase}}, "default", subresource="status"
    )


async def claims(cluster):
    return (await cluster.client.list(RESOURCE_CLAIMS, "default")).items


async def phases(cluster):
    pods = (await cluster.client.list(PODS, "default")).items
    return {pod.name: pod.status.phase for pod in pods}


def samples(page, name):
    """Return the values of a metric by label values, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name == name
    }


async def test_D072_pods_that_have_ended_free_devices_and_lose_their_claims(three_gpus):
    users = [by_template("t1"), by_resource("e1"), by_template("t2")]
    await three_gpus.create(*users)
    await three_gpus.create(by_resource("e2"))
    assert await phases(three_gpus) == {
        "t1": "Running",
        "e1": "Running",
        "t2": "Running",
        "e2": "Pending",
    }
    for name, phase in (("t1", "Succeeded"), ("e1", "Failed"), ("t2", "Failed")):
        await end(three_gpus, name, phase)
    await three_gpus.advance(15)
    assert (await phases(three_gpus))["e2"] == "Running"
    (left,) = await claims(three_gpus)
    assert left.metadata.owner_references[0].name == "e2"
    await end(three_gpus, "e2", "Succeeded")
    await three_gpus.settle()
    assert await claims(three_gpus) == ()
    await three_gpus.create(by_template("t3"), by_template("t4"), by_template("t5"))
    assert {p for p, phase in (await phases(three_gpus)).items() if phase == "Running"} == {
        "t3",
        "t4",
        "t5",
    }


async def test_D074_a_new_pod_of_the_same_name_does_not_inherit_a_reservation(three_gpus):
    await three_gpus.create(a_claim("c"), by_claim("p"))
    old = await three_gpus.pod("p")
    async with three_gpus.components_stopped():
        await three_gpus.client.delete(PODS, "p", "default", grace_seconds=0)
        await three_gpus.create(by_claim("p"), settle=False)
        (claim,) = await claims(three_gpus)
        assert [c.uid for c in claim.status.reserved_for] == [old.uid]
    await three_gpus.advance(15)
    new = await three_gpus.pod("p")
    (claim,) = await claims(three_gpus)
    assert new.uid != old.uid and new.status.phase == "Running"
    assert [c.uid for c in claim.status.reserved_for] == [new.uid]


async def test_D077_the_gauge_of_claims_shows_the_claims_of_extended_resources(three_gpus):
    gauge = "resourceclaim_controller_resource_claims"
    allocated = ("false", "true", "extended_resource")  # admin_access, allocated, source
    await three_gpus.create(by_resource("e1"), by_resource("e2"))
    assert samples(three_gpus.components.scheduler.metrics_page(), gauge) == {allocated: 2}
    await end(three_gpus, "e1", "Succeeded")
    await three_gpus.settle()
    assert samples(three_gpus.components.scheduler.metrics_page(), gauge) == {allocated: 1}


async def test_D091_claims_and_requests_are_counted_once_and_listed(three_gpus):
    await three_gpus.create(
        a_claim("c"), a_claim("unused"), by_claim("p"), by_template("t1"), by_resource("e1")
    )
    page = three_gpus.components.scheduler.metrics_page()
    assert samples(page, "resourceclaim_controller_resource_claims") == {
        ("false", "true", ""): 1,
        ("false", "false", ""): 1,
        ("false", "true", "resource_claim_template"): 1,
        ("false", "true", "extended_resource"): 1,
    }
    assert samples(page, "resourceclaim_controller_creates_total") == {("false", "success"): 1}
    assert ("resource_claim",) in samples(page, "workqueue_adds_total")
    page = resources_page((await three_gpus.client.list(PODS)).items)
    for name in ("kube_pod_resource_request", "kube_pod_resource_limit"):
        found = {k: value for k, value in samples(page, name).items() if "example.com/gpu" in k}
        assert [("e1" in labels, value) for labels, value in found.items()] == [(True, 1.0)]
    generated = [c for c in await claims(three_gpus) if c.name not in ("c", "unused")]
    assert {c.metadata.owner_references[0].name for c in generated} == {"t1", "e1"}


async def test_a_deployment_leaves_a_device_that_gets_a_taint(cluster):
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    claims_of_pods = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    await cluster.create(
        *map(a_node, ("n1", "n2")),
        a_device_class("gpu"),
        a_claim_template("t"),
        *(a_slice(node, node=node, devices=2) for node in ("n1", "n2")),
        a_deployment("web", replicas=3, claims=claims_of_pods),
    )

    async def used():
        results = [c.status.allocation.devices.results for c in await claims(cluster)]
        return {(result.pool, result.device) for (result,) in results}

    before = await used()
    pool, device = min(before)
    devices = [a_device("gpu-0"), a_device("gpu-1")]
    next(each for each in devices if each["name"] == device)["taints"] = [taint]
    await cluster.client.patch(RESOURCE_SLICES, pool, {"spec": {"devices": devices}})
    await cluster.advance(15)
    after = await used()
    assert len(before) == len(after) == 3 and (pool, device) not in after
    assert set((await phases(cluster)).values()) == {"Running"}
