"""Claims, classes and slices that change, and restarts, while an allocation is in flight."""

import pytest

from holdfast.api.scheme import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from holdfast.client.client import PatchType
from holdfast.testing import Fault, a_claim, a_device_class, a_node, a_pod, a_slice

GPU = "example.com/gpu"
MOST_USERS = 256
"""The API's limit of ``status.reservedFor``."""


def user(name, claim):
    return a_pod(name, cpu="100m", resource_claims=[{"name": "dev", "resourceClaimName": claim}])


@pytest.fixture
async def gpu(cluster):
    """Two nodes; the first has one device."""
    await cluster.create(
        a_node("n1"), a_node("n2"), a_device_class("gpu", extended_resource_name=GPU),
        a_slice("n1-gpus", node="n1", devices=1),
    )  # fmt: skip
    return cluster


async def claim_of(cluster, name="c"):
    return await cluster.client.get(RESOURCE_CLAIMS, name, "default")


def slow(path, method="PATCH"):
    return Fault("delay", method=method, path=path, seconds=5)


async def test_a_claim_edited_in_flight_is_allocated_in_its_new_version(gpu, network):
    network.add(slow("/resourceclaims/c"))
    await gpu.create(a_claim("c"), user("p", "c"))
    labels = {"metadata": {"labels": {"edited": "yes"}}}
    await gpu.client.patch(RESOURCE_CLAIMS, "c", labels, "default", type=PatchType.MERGE)
    await gpu.advance(10)
    assert await gpu.node_of("p") == "n1"
    claim = await claim_of(gpu)
    assert claim.metadata.labels == {"edited": "yes"}
    assert [entry.name for entry in claim.status.reserved_for] == ["p"]
    assert [reason for reason, _ in await gpu.events("p")].count("FailedScheduling") == 0


async def test_a_claim_replaced_in_flight_is_not_taken_for_the_old_one(gpu, network):
    network.add(slow("/resourceclaims/c"))
    await gpu.create(a_claim("c"), user("p", "c"))
    await gpu.client.delete(RESOURCE_CLAIMS, "c", "default")
    await gpu.client.create(RESOURCE_CLAIMS, a_claim("c", count=1), "default")
    await gpu.advance(6)
    assert "got deleted in the meantime" in str(await gpu.events("p"))
    await gpu.advance(30)
    assert await gpu.node_of("p") == "n1"
    assert not gpu.world.devices.claims.has_in_flight


async def test_the_class_and_the_slice_may_vanish_in_flight(gpu, network):
    network.add(slow("/resourceclaims/c"))
    await gpu.create(a_claim("c"), user("p", "c"))
    await gpu.client.delete(DEVICE_CLASSES, "gpu")
    await gpu.client.delete(RESOURCE_SLICES, "n1-gpus")
    await gpu.advance(10)
    # The decision stands, as upstream's: the kubelet finds out whether the device is there.
    assert await gpu.node_of("p") == "n1"
    await gpu.create(a_claim("d"), user("q", "d"))
    await gpu.create(a_device_class("gpu"), a_slice("n1-gpus", node="n1", devices=1))
    await gpu.advance(10)
    assert not await gpu.node_of("q")
    await gpu.delete(PODS, "p", "default")
    await gpu.advance(30)
    assert await gpu.node_of("q") == "n1"


async def test_a_device_that_another_scheduler_allocates_in_flight_is_not_allocated_twice(
    gpu, network, monkeypatch
):
    # The claim of the other scheduler and our own in flight have the same device for a moment.
    monkeypatch.setattr(gpu, "_check", lambda: None)
    network.add(Fault("delay", method="PATCH", path="/pods/p/status", seconds=5))
    await gpu.create(a_claim("other"), a_claim("c"), user("p", "c"))
    assert gpu.world.devices.claims.has_in_flight
    device = {"request": "req-0", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    theirs = {"status": {"allocation": {"devices": {"results": [device]}}}}
    await gpu.client.patch(
        RESOURCE_CLAIMS, "other", theirs, "default", subresource="status", type=PatchType.MERGE
    )
    await gpu.advance(20)
    assert not await gpu.node_of("p")
    assert "got allocated elsewhere in the meantime" in str(await gpu.events("p"))
    assert (await claim_of(gpu)).status.allocation is None
    await gpu.client.delete(RESOURCE_CLAIMS, "other", "default")
    await gpu.advance(30)
    assert await gpu.node_of("p") == "n1"


async def test_a_restart_between_the_claim_and_the_binding_binds_to_the_same_node(gpu, network):
    network.add(slow("/pods/p/binding", "POST"))
    await gpu.create(a_claim("c"), user("p", "c"))
    before = (await claim_of(gpu)).status
    assert before.allocation is not None
    assert not await gpu.node_of("p")
    await gpu.create(a_slice("n2-gpus", node="n2", devices=1))
    await gpu.restart_components()
    await gpu.advance(10)
    assert await gpu.node_of("p") == "n1"
    assert (await claim_of(gpu)).status == before


async def test_the_special_claim_of_a_pod_that_is_deleted_meanwhile_is_deleted(gpu, network):
    network.add(slow("/resourceclaims", "POST"))
    asked = {GPU: "1"}
    await gpu.create(a_pod("p", requests=asked, limits=asked))
    await gpu.delete(PODS, "p", "default")
    await gpu.create(a_pod("q", requests=asked, limits=asked))
    await gpu.advance(30)
    assert await gpu.node_of("q") == "n1"
    claims = (await gpu.client.list(RESOURCE_CLAIMS)).items
    assert [claim.metadata.owner_references[0].name for claim in claims] == ["q"]


async def test_a_claim_with_256_users_takes_no_more_and_keeps_them(gpu):
    await gpu.create(a_claim("c"), user("p", "c"))
    assert await gpu.node_of("p") == "n1"
    others = [
        {"apiGroup": "example.com", "resource": "jobs", "name": f"j{i}", "uid": f"uid-{i}"}
        for i in range(MOST_USERS - 1)
    ]
    own = [{"resource": "pods", "name": "p", "uid": (await gpu.pod("p")).uid}]
    status = {"status": {"reservedFor": own + others}}
    await gpu.client.patch(
        RESOURCE_CLAIMS, "c", status, "default", subresource="status", type=PatchType.MERGE
    )
    await gpu.create(user("q", "c"))
    await gpu.advance(60)
    assert not await gpu.node_of("q")
    assert "default/c is reserved for 256 pods, the most that" in await gpu.why("q")
    assert len((await claim_of(gpu)).status.reserved_for) == MOST_USERS
    # Tried again after growing backoff, not all the time.
    assert gpu.metric("schedule_attempts_total", result="error", profile="default-scheduler") < 12
    status = {"status": {"reservedFor": own + others[1:]}}
    await gpu.client.patch(
        RESOURCE_CLAIMS, "c", status, "default", subresource="status", type=PatchType.MERGE
    )
    await gpu.advance(30)
    assert await gpu.node_of("q") == "n1"
