"""One name of GPUs, served by Device objects on some nodes and by a DeviceClass on others."""

import pytest

from device_share.objects import a_device_object, a_gpu_node, a_gpu_pod, an_owner, devices_of
from holdfast.api.koordinator_names import RDMA
from holdfast.api.scheme import NODES
from holdfast.testing import a_claim, a_device_class, a_node, a_reservation, a_slice

NVIDIA = "nvidia.com/gpu"
ONE = {NVIDIA: "1"}
SHARES, DRA = {"gpus": "shares"}, {"gpus": "dra"}


@pytest.fixture
async def mixed(cluster):
    """Two nodes with a Device object and with a slice: the first also lists nvidia.com/gpu."""
    await cluster.create(
        a_gpu_node("shares", allocatable={NVIDIA: "2"}, labels=SHARES),
        a_gpu_node("dra", labels=DRA),
        a_device_object("shares"),
        a_device_object("dra"),
        a_device_class("gpu", extended_resource_name=NVIDIA),
        a_slice("shares-gpus", node="shares", devices=2),
        a_slice("dra-gpus", node="dra", devices=1),
    )
    return cluster


async def claim_status(cluster, name):
    return (await cluster.pod(name)).status.extended_resource_claim_status


async def test_what_the_node_lists_is_of_its_device(mixed):
    await mixed.create(a_gpu_pod("p", requests=ONE, node_selector=SHARES))
    assert await devices_of(mixed, "p") == [("gpu", 0, 100)]
    assert await claim_status(mixed, "p") is None


async def test_what_the_node_does_not_list_is_served_by_the_class(mixed):
    await mixed.create(a_gpu_pod("p", requests=ONE, node_selector=DRA))
    assert await mixed.node_of("p") == "dra"
    assert await claim_status(mixed, "p") is not None
    assert await devices_of(mixed, "p") is None
    await mixed.create(a_gpu_pod("share", 100, node_selector=DRA))
    assert await devices_of(mixed, "share") == [("gpu", 0, 100)]


async def test_pods_fill_both_nodes(mixed):
    for name in "abcd":
        await mixed.create(a_gpu_pod(name, requests=ONE))
    nodes = [await mixed.node_of(name) for name in "abcd"]
    assert sorted(nodes) == ["", "dra", "shares", "shares"]
    for name, node in zip("abcd", nodes, strict=True):
        assert (await devices_of(mixed, name) is not None) == (node == "shares")
        assert (await claim_status(mixed, name) is not None) == (node == "dra")


async def test_a_node_changes_sides_when_its_list_changes(mixed):
    await mixed.create(a_gpu_pod("a", requests=ONE, node_selector=DRA))
    await mixed.create(a_gpu_pod("b", requests=ONE, node_selector=DRA))
    assert await mixed.node_of("b") == ""
    patch = {"status": {"allocatable": {NVIDIA: "2"}, "capacity": {NVIDIA: "2"}}}
    await mixed.client.patch(NODES, "dra", patch, subresource="status")
    await mixed.settle()
    assert await devices_of(mixed, "b") == [("gpu", 0, 100)]
    assert await claim_status(mixed, "b") is None


async def test_other_devices_of_the_same_pod_are_still_shared(mixed):
    nic = {"type": "rdma", "minor": 0, "health": True, "resources": {RDMA: "100"}}
    await mixed.create(a_node("both", labels={"gpus": "both"}), a_device_object("both", nic))
    await mixed.create(a_slice("both-gpus", node="both", devices=1))
    pod = a_gpu_pod("p", requests={**ONE, RDMA: "1"}, node_selector={"gpus": "both"})
    await mixed.create(pod)
    assert await devices_of(mixed, "p") == [("rdma", 0, 1)]
    assert await claim_status(mixed, "p") is not None


async def test_a_reservation_holds_gpus_of_a_device_and_none_of_a_class(mixed):
    owners = {"app": "web"}
    await mixed.create(
        a_reservation("r", requests=ONE, owner_labels=owners, template={"node_selector": SHARES}),
        a_reservation("s", requests=ONE, template={"node_selector": DRA}),
    )
    assert (await mixed.reservation("r")).status.node_name == "shares"
    refused = (await mixed.reservation("s")).status
    assert refused.phase == "Pending"
    assert "devices of a DeviceClass, which cannot be reserved" in refused.conditions[0].message
    await mixed.create(a_gpu_pod("other", requests={NVIDIA: "2"}))
    assert await mixed.node_of("other") == ""
    await mixed.create(an_owner("p", requests=ONE))
    assert await devices_of(mixed, "p") == [("gpu", 0, 100)]


@pytest.mark.parametrize("claim", ["c", "missing"])
async def test_ND14_a_template_with_claims_is_refused(mixed, claim):
    claims = [{"name": "gpu", "resourceClaimName": claim}]
    await mixed.create(a_claim("c"), a_reservation("r", template={"claims": claims}))
    status = (await mixed.reservation("r")).status
    assert status.phase == "Pending"
    assert "reservations of ResourceClaims are not supported" in status.conditions[0].message
