"""Invalid reservations that a real API server stores: their status says what is wrong."""

import pytest

from holdfast.api.scheme import RESERVATIONS
from holdfast.client.response_decoding import UnreadableObject
from holdfast.server.kinds import scheduling_koordinator_sh
from holdfast.testing import a_node, a_reservation
from holdfast.testing.harness import Harness

NEGATIVE = (
    'spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1": '
    "must be greater than or equal to 0"
)


@pytest.fixture
async def cluster(tmp_path, monkeypatch):
    """A cluster whose API server validates reservations by their schema only."""
    monkeypatch.setattr(scheduling_koordinator_sh, "check_content", lambda reservation: ())
    async with Harness(tmp_path / "store") as harness:
        yield harness


async def rejection(cluster, name="r"):
    (condition,) = (await cluster.reservation(name)).status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "Scheduled", "False", "Unschedulable",
    )  # fmt: skip
    return condition.message


async def test_the_status_names_the_wrong_field(cluster):
    await cluster.create(a_node("n"), a_reservation(cpu="-1"))
    assert await rejection(cluster) == NEGATIVE
    assert await cluster.events("r") == [("FailedScheduling", NEGATIVE)]


async def test_the_error_is_reported_once(cluster):
    await cluster.create(a_node("n"), a_reservation(cpu="-1"))
    version = (await cluster.reservation("r")).metadata.resource_version
    await cluster.advance(30)
    await cluster.restart_components()
    assert (await cluster.reservation("r")).metadata.resource_version == version
    assert len(await cluster.events("r")) == 1


async def test_a_corrected_reservation_is_scheduled(cluster):
    await cluster.create(a_node("n"), a_reservation(cpu="-1"))
    await cluster.client.patch(
        RESERVATIONS, "r", {"spec": {"template": a_reservation(cpu="2")["spec"]["template"]}}
    )
    await cluster.settle()
    reservation = await cluster.reservation("r")
    assert (reservation.status.phase, reservation.status.node_name) == ("Available", "n")
    assert {c.reason for c in reservation.status.conditions} == {"Scheduled", "Available"}


async def test_a_pending_reservation_that_becomes_invalid_leaves_the_queue(cluster):
    await cluster.create(a_node("n"), a_reservation(cpu="99"))
    reservation = await cluster.reservation("r")
    queue = cluster.components.scheduler.queue
    assert reservation.uid in queue
    bad = {"spec": {"template": a_reservation(cpu="-1")["spec"]["template"]}}
    await cluster.client.patch(RESERVATIONS, "r", bad)
    await cluster.settle()
    assert await rejection(cluster) == NEGATIVE
    assert reservation.uid not in queue


async def test_an_unreadable_reservation_reports_it_too(cluster):
    raw = a_reservation()
    raw["spec"]["template"]["spec"]["containers"] = "none"
    await cluster.create(a_node("n"))
    with pytest.raises(UnreadableObject):
        await cluster.create(raw)
    await cluster.settle()
    raw = await cluster.client.raw("/apis/scheduling.koordinator.sh/v1alpha1/reservations/r")
    assert b"spec.template.spec.containers: Expected `array`, got `str`" in raw
    assert b'"reason":"Unschedulable"' in raw
