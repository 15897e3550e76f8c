"""Claims of pods on the real API: waiting for them, sharing them, writes that fail."""

import pytest

from holdfast.api.scheme import PODS, RESOURCE_CLAIMS
from holdfast.client.client import PatchType
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import Fault, a_claim, a_device, a_device_class, a_node, a_pod, a_slice
from holdfast.testing.harness import Harness


def user(name, *claims):
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return a_pod(name, cpu="100m", resource_claims=entries)


@pytest.fixture
async def gpus(cluster):
    """Two nodes; the second has two devices."""
    await cluster.create(
        a_node("n1"),
        a_node("n2"),
        a_device_class("gpu"),
        a_slice("n2-gpus", node="n2", devices=2),
    )
    return cluster


async def claim_of(cluster, name="c"):
    return await cluster.client.get(RESOURCE_CLAIMS, name, "default")


async def test_D025_a_selector_error_on_one_of_two_nodes_keeps_the_pod_pending(gpus):
    """The node without an error fits, and is not used."""
    selector = 'device.attributes["gpu.example.com"].?healthy.orValue(true)'
    strict = 'device.attributes["gpu.example.com"].healthy'
    healthy = a_device(attributes={"healthy": True})
    await gpus.create(a_slice("n1-gpus", node="n1", devices=[healthy]))
    await gpus.create(a_claim("strict", selectors=[strict]), user("p", "strict"))
    await gpus.create(a_claim("lenient", selectors=[selector]), user("q", "lenient"))
    await gpus.advance(30)
    assert not await gpus.node_of("p")
    assert "selector #0: CEL runtime error: no such key: healthy" in await gpus.why("p")
    assert await gpus.node_of("q")


async def test_D044_a_pod_waits_for_a_missing_claim_and_for_one_that_is_being_deleted(gpus):
    held = a_claim("c")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await gpus.create(held)
    await gpus.client.delete(RESOURCE_CLAIMS, "c", "default")
    await gpus.create(user("p", "c"), user("q", "d"))
    await gpus.advance(30)
    assert not await gpus.node_of("p")
    assert not await gpus.node_of("q")
    body = {"metadata": {"finalizers": None}}
    await gpus.client.patch(RESOURCE_CLAIMS, "c", body, "default", type=PatchType.MERGE)
    await gpus.settle()
    await gpus.create(a_claim("c"), a_claim("d"))
    await gpus.advance(15)
    assert await gpus.node_of("p") == "n2"
    assert await gpus.node_of("q") == "n2"


async def test_D045_a_pod_waits_for_the_class_of_its_claim(gpus):
    await gpus.create(a_claim("c", device_class="later"), user("p", "c"))
    assert "request req-0: device class later does not exist" in await gpus.why("p")
    await gpus.create(a_device_class("later"))
    await gpus.advance(2)
    assert await gpus.node_of("p") == "n2"


async def test_D046_two_pods_share_a_claim_on_one_node(gpus):
    await gpus.create(a_claim("c"), user("p", "c"), user("q", "c"))
    await gpus.advance(2)
    assert [await gpus.node_of(name) for name in "pq"] == ["n2", "n2"]
    assert {user.name for user in (await claim_of(gpus)).status.reserved_for} == {"p", "q"}


async def test_D047_a_pod_waits_while_its_claim_is_being_allocated(gpus, network):
    network.add(Fault("delay", method="PATCH", path="/resourceclaims/c", seconds=5))
    await gpus.create(a_claim("c"), user("p", "c"), user("q", "c"))
    reasons = [await gpus.why(name) for name in "pq"]
    words = "resource claim default/c is in the process of being allocated"
    assert any(words in reason for reason in reasons)
    await gpus.advance(10)
    assert [await gpus.node_of(name) for name in "pq"] == ["n2", "n2"]


async def test_D050_a_conflict_is_retried_at_once(gpus, network):
    network.add(Fault("conflict", method="PATCH", path="/resourceclaims/c/status"))
    await gpus.create(a_claim("c"), user("p", "c"))
    assert await gpus.node_of("p") == "n2"
    assert [reason for reason, _ in await gpus.events("p")].count("FailedScheduling") == 0


async def test_D050_a_claim_allocated_elsewhere_fails_the_attempt_and_leaves_nothing(gpus, network):
    network.add(Fault("delay", method="PATCH", path="/resourceclaims/c", seconds=5))
    await gpus.create(a_claim("c"), user("p", "c"))
    result = {"request": "req-0", "driver": "gpu.example.com", "pool": "n2", "device": "gpu-1"}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    await gpus.client.patch(
        RESOURCE_CLAIMS, "c", body, "default", type=PatchType.MERGE, subresource="status"
    )
    await gpus.advance(5)
    words = "claim default/c got allocated elsewhere in the meantime"
    assert any(words in message for _, message in await gpus.events("p"))
    claim = await claim_of(gpus)
    assert gpus.world.devices.claims.in_flight(claim.uid) is None
    assert list(gpus.world.devices.allocated_devices.unshared) == [
        ("gpu.example.com", "n2", "gpu-1")
    ]
    await gpus.advance(10)
    assert await gpus.node_of("p")
    assert (await claim_of(gpus)).status.allocation == claim.status.allocation


async def test_D050_a_pod_deleted_while_its_claim_is_written_leaves_the_device_free(gpus, network):
    network.add(Fault("delay", method="PATCH", path="/resourceclaims/c/status", seconds=5))
    await gpus.create(a_claim("c"), user("p", "c"))
    await gpus.delete(PODS, "p", "default")
    await gpus.advance(15)
    assert not (await claim_of(gpus)).status.reserved_for
    claim = await claim_of(gpus)
    assert gpus.world.devices.claims.in_flight(claim.uid) is None
    held = len(gpus.world.devices.allocated_devices.unshared)
    assert held == (0 if claim.status.allocation is None else 1)


async def test_a_pod_deleted_while_its_node_is_nominated_is_no_failure(gpus, network, caplog):
    network.add(Fault("delay", method="PATCH", path="/pods/p/status", seconds=5))
    await gpus.create(a_claim("c"), user("p", "c"))
    await gpus.delete(PODS, "p", "default")
    await gpus.advance(15)
    assert "nominatedNodeName" not in caplog.text
    assert (await claim_of(gpus)).status.allocation is None


async def test_D043_a_search_over_its_time_limit_is_an_error_without_post_filter(tmp_path):
    profiles = default_profiles({"DynamicResources": {"filterTimeout": "1ns"}})
    async with Harness(tmp_path, profiles=profiles) as cluster:
        await cluster.create(
            a_node("n1"),
            a_device_class("gpu"),
            a_slice("n1-gpus", node="n1", devices=2),
            a_claim("c", constraints=[{"matchAttribute": "a.com/x"}]),
            user("p", "c"),
        )
        message = await cluster.why("p")
        assert message.endswith("node n1: timed out trying to allocate devices")
        conditions = (await cluster.pod("p")).status.conditions
        assert [c.reason for c in conditions if c.type == "PodScheduled"] == ["SchedulerError"]
        assert not (await claim_of(cluster)).status.allocation
