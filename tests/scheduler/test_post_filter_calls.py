"""API calls of PostFilter plugins: sent before the pod is requeued; a failure is an error."""

import pytest

from holdfast.api.scheme import NODES, PODS, RESOURCE_CLAIMS
from holdfast.testing import Fault, a_claim, a_device_class, a_node, a_pod, a_slice

STATUS_OF_CLAIM = "/resourceclaims/a/status"
DEALLOCATED = "deallocation of ResourceClaim completed"


def user(name, **options):
    return a_pod(name, claims=[{"name": "dev", "resourceClaimName": "a"}], **options)


@pytest.fixture
async def stuck(cluster):
    """A claim that is allocated on a node that no longer takes pods; another one has a device."""
    node = a_node("n1")
    await cluster.create(
        node,
        a_device_class("gpu"),
        a_slice("n1-gpus", node="n1", devices=1),
        a_claim("a"),
        user("first"),
    )
    assert await cluster.node_of("first") == "n1"
    # The controller deallocates the claim of a deleted pod; this one is left allocated.
    claim = await cluster.client.get(RESOURCE_CLAIMS, "a", "default")
    cluster.allocation = claim.status.allocation
    await cluster.delete(PODS, "first", "default")
    await cluster.create(a_node("n2"), a_slice("n2-gpus", node="n2", devices=1))
    await cluster.client.patch(
        RESOURCE_CLAIMS,
        "a",
        {"status": {"allocation": cluster.allocation}},
        "default",
        subresource="status",
    )
    await cluster.delete(NODES, "n1")
    return cluster


async def test_D049_a_claim_on_a_node_that_is_gone_is_deallocated_and_the_pod_runs(stuck):
    await stuck.create(user("p"))
    await stuck.advance(2)
    assert await stuck.node_of("p") == "n2"
    assert (await stuck.events("p"))[0] == (
        "FailedScheduling",
        f"0/1 nodes are available: 1 resourceclaim not available on the node. {DEALLOCATED}, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )


@pytest.mark.parametrize("trouble", ["unavailable", "conflict", "unavailable_after", "lost"])
async def test_D049_a_failed_deallocation_is_an_error_and_is_retried_after_backoff(
    stuck, network, trouble
):
    network.add(Fault(trouble, method="PATCH", path=STATUS_OF_CLAIM))
    await stuck.create(user("p"))
    found = (await stuck.pod("p")).status.conditions
    assert [c.reason for c in found if c.type == "PodScheduled"] == ["SchedulerError"]
    assert (await stuck.why("p")).startswith("running PostFilter plugins: ")
    assert stuck.metric("schedule_attempts_total", profile="default-scheduler", result="error")
    await stuck.advance(1)
    await stuck.advance(2)
    assert await stuck.node_of("p") == "n2"


async def test_a_pod_deleted_while_the_calls_are_sent_is_forgotten(stuck, network):
    network.add(Fault("delay", method="PATCH", path=STATUS_OF_CLAIM, seconds=5))
    await stuck.create(user("p"))
    assert not await stuck.why("p")
    await stuck.delete(PODS, "p", "default")
    await stuck.advance(6)
    scheduler = stuck.components.scheduler
    assert not len(scheduler.queue)
    assert not any(scheduler.queue.in_flight_events().values())


async def test_an_event_while_the_calls_are_sent_is_not_lost(stuck, network):
    network.add(Fault("delay", method="PATCH", path=STATUS_OF_CLAIM, seconds=5))
    await stuck.create(user("p"))
    claim = await stuck.client.get(RESOURCE_CLAIMS, "a", "default")
    body = {"metadata": {"resourceVersion": claim.metadata.resource_version}}
    body["status"] = {"allocation": None}
    await stuck.client.patch(RESOURCE_CLAIMS, "a", body, "default", subresource="status")
    await stuck.advance(7)
    await stuck.advance(2)
    assert await stuck.node_of("p") == "n2"
