"""Pods and reservations whose schedulerName no profile has get an event after a minute."""

import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.harness import Harness

REASON = "UnknownSchedulerName"


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path) as harness:
        await harness.create(a_node("n", cpu=8))
        yield harness


async def messages(cluster, name, namespace="default"):
    return [text for reason, text in await cluster.events(name, namespace) if reason == REASON]


async def test_a_pod_of_an_unknown_scheduler_gets_one_event_after_a_minute(cluster):
    await cluster.create(a_pod("p", cpu=1, schedulerName="volcano"))
    await cluster.advance(50)
    assert await messages(cluster, "p") == []
    await cluster.advance(15)
    [message] = await messages(cluster, "p")
    assert "spec.schedulerName is volcano, and Holdfast has the profiles " in message
    assert "default-scheduler" in message
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
    await cluster.advance(200)
    assert len(await messages(cluster, "p")) == 1


async def test_a_reservation_of_an_unknown_scheduler_gets_one(cluster):
    raw = a_reservation("r")
    raw["spec"]["template"]["spec"]["schedulerName"] = "volcano"
    await cluster.create(raw)
    await cluster.advance(65)
    [message] = await messages(cluster, "r")
    assert "spec.template.spec.schedulerName is volcano" in message


async def test_what_another_scheduler_has_judged_or_that_is_gone_gets_none(cluster):
    names = ("judged", "placed", "deleted")
    await cluster.create(*(a_pod(name, cpu=1, schedulerName="volcano") for name in names))
    reservation = a_reservation("taken")
    reservation["spec"]["template"]["spec"]["schedulerName"] = "volcano"
    await cluster.create(reservation)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await cluster.client.patch(
        PODS, "judged", {"status": {"conditions": [condition]}}, "default", subresource="status"
    )
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    binding = {"metadata": {"name": "placed"}, "target": target}
    await cluster.client.bind("default", "placed", binding)
    await cluster.client.delete(PODS, "deleted", "default")
    scheduled = {"type": "Scheduled", "status": "False", "reason": "Unschedulable"}
    await cluster.client.patch(
        RESERVATIONS, "taken", {"status": {"conditions": [scheduled]}}, subresource="status"
    )
    await cluster.advance(130)
    for name in (*names, "taken"):
        assert await messages(cluster, name) == [], name


async def test_a_pod_of_a_known_scheduler_gets_none(cluster):
    await cluster.create(a_pod("big", cpu=99))
    await cluster.advance(130)
    assert await messages(cluster, "big") == []
