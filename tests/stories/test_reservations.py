"""Reservations from creation to expiry, with a real scheduler and API server."""

from holdfast.api.scheme import RESERVATIONS
from holdfast.testing import a_pod, a_reservation
from reservations.objects import WEB, allocated_from, held, node, owner


async def test_R067_after_a_restart_it_is_known_what_remains(cluster):
    await cluster.create(node(), held(cpu="8", allocate_once=False))
    await cluster.create(owner("a", cpu="4"))
    await cluster.create(a_pod("used", cpu="8", node="n1"))
    await cluster.restart()
    reservation = await cluster.reservation("r")
    assert (reservation.status.phase, reservation.status.allocated) == ("Available", {"cpu": "4"})
    await cluster.create(owner("too-big", cpu="8"))
    assert await cluster.node_of("too-big") == ""
    await cluster.create(owner("fits", cpu="4"))
    assert await cluster.node_of("fits") == "n1"


async def test_R094_the_guides_scheduler_name_needs_no_configuration(cluster):
    owners = [{"object": {"name": "pod-demo-0", "namespace": "default"}}]
    koord = {"scheduler_name": "koord-scheduler"}
    demo = a_reservation(
        "reservation-demo", cpu="500m", memory="800Mi", template=koord, owners=owners
    )
    await cluster.create(node(), demo)
    assert (await cluster.reservation("reservation-demo")).status.phase == "Available"
    await cluster.create(
        a_pod("pod-demo-0", cpu="200m", memory="400Mi", scheduler_name="koord-scheduler")
    )
    assert await allocated_from(cluster, "pod-demo-0") == "reservation-demo"


async def test_resources_are_free_when_a_reservation_expires(cluster):
    await cluster.create(node(), held(cpu="16", ttl="60s"), a_pod("waits", cpu="4"))
    assert await cluster.node_of("waits") == ""
    await cluster.advance(80)
    reservation = await cluster.reservation("r")
    assert reservation.status.phase == "Failed"
    assert ("Ready", "False", "Expired") in {
        (c.type, c.status, c.reason) for c in reservation.status.conditions
    }
    assert await cluster.node_of("waits") == "n1"


async def test_resources_are_free_when_a_reservation_is_deleted(cluster):
    await cluster.create(node(), held(cpu="16"), a_pod("waits", cpu="4"))
    await cluster.delete(RESERVATIONS, "r")
    await cluster.advance(12)
    assert await cluster.node_of("waits") == "n1"


async def test_a_reservation_that_fits_nowhere_says_why(cluster):
    await cluster.create(node(), held(cpu="17"))
    condition = (await cluster.reservation("r")).status.conditions[0]
    assert (condition.type, condition.status, condition.reason) == (
        "Scheduled", "False", "Unschedulable",
    )  # fmt: skip
    assert "0/1 nodes are available: 1 Insufficient cpu" in condition.message


async def test_a_reservation_with_a_node_name_is_placed_on_that_node_only(cluster):
    await cluster.create(node("n1"), node("n2"), a_pod("used", cpu="16", node="n2"))
    await cluster.create(a_reservation("r", cpu="4", owner_labels=WEB, template={"node": "n2"}))
    assert (await cluster.reservation("r")).status.phase in ("", "Pending")
