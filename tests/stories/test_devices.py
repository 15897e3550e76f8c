"""Devices by claim and by extended resource name, in a running cluster."""

import asyncio

import pytest

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.runtime.errors import Invalid
from holdfast.testing import a_claim, a_device, a_device_class, a_node, a_pod, a_slice

FINALIZER = "resource.kubernetes.io/delete-protection"


def user(name, claim):
    return a_pod(name, cpu="100m", resource_claims=[{"name": "dev", "resourceClaimName": claim}])


@pytest.fixture
async def one_gpu(cluster):
    """Two nodes, an A100 on the second, and a device class that selects this model."""
    await cluster.create(
        a_node("n1"), a_node("n2"),
        a_device_class(
            "a100", selectors=['device.attributes["gpu.example.com"].model == "A100"'],
            extended_resource_name="example.com/gpu",
        ),
        a_slice("n2-gpus", node="n2", devices=[
            a_device("old", attributes={"model": "K80"}),
            a_device("gpu-0", attributes={"model": "A100"}),
        ]),
    )  # fmt: skip
    return cluster


async def test_a_claim_is_allocated_reserved_and_its_pod_runs(one_gpu):
    await one_gpu.create(a_claim("c", device_class="a100"), user("p", "c"))
    pod = await one_gpu.pod("p")
    assert (pod.spec.node_name, pod.status.phase) == ("n2", "Running")
    claim = await one_gpu.client.get(RESOURCE_CLAIMS, "c", "default")
    assert [(r.request, r.device) for r in claim.status.allocation.devices.results] == [
        (claim.spec.devices.requests[0].name, "gpu-0")
    ]
    assert [(c.resource, c.name, c.uid) for c in claim.status.reserved_for] == [
        ("pods", "p", pod.uid)
    ]
    assert FINALIZER in claim.metadata.finalizers


async def test_D048_two_pods_racing_for_the_last_device(one_gpu):
    await one_gpu.create(a_claim("c1", device_class="a100"), a_claim("c2", device_class="a100"))
    await asyncio.gather(
        one_gpu.create(user("p1", "c1"), settle=False),
        one_gpu.create(user("p2", "c2"), settle=False),
    )
    await one_gpu.settle()
    placed = {name: await one_gpu.node_of(name) for name in ("p1", "p2")}
    assert sorted(placed.values()) == ["", "n2"]
    loser = next(name for name, node in placed.items() if not node)
    assert "cannot allocate all claims" in await one_gpu.why(loser)
    winner = next(name for name, node in placed.items() if node)
    await one_gpu.delete(PODS, winner, "default")
    await one_gpu.advance(15)
    assert await one_gpu.node_of(loser) == "n2"


async def test_D052_an_extended_resource_is_served_by_a_special_claim(one_gpu):
    asked = {"example.com/gpu": "1"}
    await one_gpu.create(a_pod("p", cpu=None, requests=asked, limits=asked))
    pod = await one_gpu.pod("p")
    assert (pod.spec.node_name, pod.status.phase) == ("n2", "Running")
    served = pod.status.extended_resource_claim_status
    assert [
        (m.container_name, m.resource_name, m.request_name) for m in served.request_mappings
    ] == [(pod.spec.containers[0].name, "example.com/gpu", "container-0-request-0")]
    claim = await one_gpu.client.get(RESOURCE_CLAIMS, served.resource_claim_name, "default")
    notes = claim.metadata.annotations
    assert notes["resource.kubernetes.io/extended-resource-claim"] == "true"
    (maker,) = claim.metadata.owner_references
    assert (maker.kind, maker.name, maker.uid, maker.controller) == ("Pod", "p", pod.uid, True)
    assert FINALIZER in claim.metadata.finalizers
    assert [c.uid for c in claim.status.reserved_for] == [pod.uid]
    (result,) = claim.status.allocation.devices.results
    assert (result.request, result.device) == ("container-0-request-0", "gpu-0")
    await one_gpu.delete(PODS, "p", "default")
    assert not (await one_gpu.client.list(RESOURCE_CLAIMS)).items


async def test_a_device_plugin_serves_the_same_name_on_its_own_nodes(cluster):
    await cluster.create(
        a_node("plugin", allocatable={"example.com/gpu": "1"}),
        a_device_class("gpu", extended_resource_name="example.com/gpu"),
    )
    asked = {"example.com/gpu": "1"}
    await cluster.create(a_pod("p", requests=asked, limits=asked))
    pod = await cluster.pod("p")
    assert pod.spec.node_name == "plugin"
    assert pod.status.extended_resource_claim_status is None


async def test_D090_the_implicit_name_of_a_class_has_at_most_63_characters(cluster):
    prefix, fits, longest = "deviceclass.resource.kubernetes.io/", "c" * 63, "c." * 126 + "c"
    await cluster.create(
        a_node("n1"),
        a_device_class(fits),
        a_device_class(longest),
        a_slice("n1-gpus", node="n1", devices=2),
        a_pod("short", requests={prefix + fits: "1"}),
    )
    assert await cluster.node_of("short") == "n1"
    served = (await cluster.pod("short")).status.extended_resource_claim_status
    assert [one.resource_name for one in served.request_mappings] == [prefix + fits]
    at = r"containers\[0\]\.resources\.requests\[" + prefix + longest
    with pytest.raises(Invalid, match=f"{at}.*name part must be no more than 63 bytes"):
        await cluster.create(a_pod("long", requests={prefix + longest: "1"}))
    await cluster.create(a_claim("c", device_class=longest), user("claims", "c"))
    assert await cluster.node_of("claims") == "n1"
