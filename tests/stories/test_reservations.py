"""Room held for owners: one thread through the promise."""

import asyncio

import msgspec
import pytest

from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.testing import a_node, a_pod, a_reservation

WEB = {"app": "web"}
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"


def node(name="n1", **more):
    return a_node(name, cpu="16", memory="32Gi", **more)


def owner(name="owner", **more):
    return a_pod(name, labels=WEB, **more)


def held(name="r", **more):
    return a_reservation(name, owner_labels=WEB, **more)


async def drawn_from(cluster, pod):
    notes = (await cluster.pod(pod)).metadata.annotations
    return msgspec.json.decode(notes[ALLOCATED])["name"] if ALLOCATED in notes else None


async def test_R001_an_owner_takes_the_whole_reservation(cluster):
    await cluster.create(node(), held(cpu="4", memory="4Gi"))
    reservation = await cluster.reservation("r")
    assert (reservation.status.phase, reservation.status.node_name) == ("Available", "n1")
    assert reservation.status.allocatable == {"cpu": "4", "memory": "4Gi"}
    assert {(c.type, c.status, c.reason) for c in reservation.status.conditions} == {
        ("Scheduled", "True", "Scheduled"), ("Ready", "True", "Available"),
    }  # fmt: skip
    await cluster.create(owner(cpu="4", memory="4Gi"))
    assert await cluster.node_of("owner") == "n1"
    assert await drawn_from(cluster, "owner") == "r"
    reservation = await cluster.reservation("r")
    assert reservation.status.phase == "Succeeded"
    assert reservation.status.allocated == {"cpu": "4", "memory": "4Gi"}
    assert [o.name for o in reservation.status.current_owners] == ["owner"]
    assert cluster.world.nodes.requested[0, cluster.world.nodes.row_of["n1"]] == 4000


async def test_R008_a_non_owner_is_kept_out(cluster):
    await cluster.create(node(), held(cpu="4"), a_pod("used", cpu="12", node="n1"))
    await cluster.create(a_pod("stranger", cpu="4"))
    assert await cluster.node_of("stranger") == ""
    assert "1 Insufficient cpu" in await cluster.why("stranger")
    await cluster.create(owner(cpu="4"))
    assert await cluster.node_of("owner") == "n1"


@pytest.mark.parametrize("cpu", ["2", "4"])
async def test_R016_two_owners_race_for_one_allocate_once_reservation(cluster, cpu):
    await cluster.create(node(), held(cpu="4"), a_pod("used", cpu="12", node="n1"))
    await asyncio.gather(
        cluster.create(owner("a", cpu=cpu), settle=False),
        cluster.create(owner("b", cpu=cpu), settle=False),
    )
    await cluster.settle()
    drawn = [await drawn_from(cluster, name) for name in ("a", "b")]
    assert sorted(drawn, key=str) == [None, "r"]
    loser = ("a", "b")[drawn.index(None)]
    assert (await cluster.reservation("r")).status.phase == "Succeeded"
    # What the winner did not use came back with Succeeded: 2 CPUs, or nothing.
    await cluster.advance(12)
    assert await cluster.node_of(loser) == ("n1" if cpu == "2" else "")


async def test_R067_a_restart_knows_what_is_left(cluster):
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
    assert await drawn_from(cluster, "pod-demo-0") == "reservation-demo"


async def test_an_owner_prefers_the_reserved_node(cluster):
    await cluster.create(node("n1"), node("n2"), node("n3"), held(cpu="2", memory="2Gi"))
    where = (await cluster.reservation("r")).status.node_name
    await cluster.create(owner(cpu="2", memory="2Gi"))
    assert await cluster.node_of("owner") == where


async def test_room_comes_back_when_a_reservation_expires(cluster):
    await cluster.create(node(), held(cpu="16", ttl="60s"), a_pod("waits", cpu="4"))
    assert await cluster.node_of("waits") == ""
    await cluster.advance(80)
    reservation = await cluster.reservation("r")
    assert reservation.status.phase == "Failed"
    assert ("Ready", "False", "Expired") in {
        (c.type, c.status, c.reason) for c in reservation.status.conditions
    }
    assert await cluster.node_of("waits") == "n1"


async def test_room_comes_back_when_a_reservation_is_deleted(cluster):
    await cluster.create(node(), held(cpu="16"), a_pod("waits", cpu="4"))
    await cluster.delete(RESERVATIONS, "r")
    await cluster.advance(12)
    assert await cluster.node_of("waits") == "n1"


async def test_a_reusable_reservation_serves_several_owners_and_gets_its_room_back(cluster):
    await cluster.create(node(), held(cpu="8", allocate_once=False))
    await cluster.create(owner("a", cpu="4"), owner("b", cpu="4"))
    status = (await cluster.reservation("r")).status
    assert (status.phase, status.allocated, len(status.current_owners)) == (
        "Available",
        {"cpu": "8"},
        2,
    )
    await cluster.delete(PODS, "a", "default")
    assert (await cluster.reservation("r")).status.allocated == {"cpu": "4"}


async def test_a_reservation_that_fits_nowhere_says_why(cluster):
    await cluster.create(node(), held(cpu="17"))
    condition = (await cluster.reservation("r")).status.conditions[0]
    assert (condition.type, condition.status, condition.reason) == (
        "Scheduled", "False", "Unschedulable",
    )  # fmt: skip
    assert "0/1 nodes are available: 1 Insufficient cpu" in condition.message


async def test_a_pinned_reservation_goes_nowhere_else(cluster):
    await cluster.create(node("n1"), node("n2"), a_pod("used", cpu="16", node="n2"))
    await cluster.create(a_reservation("r", cpu="4", owner_labels=WEB, template={"node": "n2"}))
    assert (await cluster.reservation("r")).status.phase in ("", "Pending")


@pytest.mark.parametrize("policy", ["Aligned", "Restricted"])
async def test_policies_limit_what_an_owner_may_add_from_the_node(cluster, policy):
    await cluster.create(node(), held(cpu="6", allocate_policy=policy))
    await cluster.create(owner(cpu="8"))
    placed = await cluster.node_of("owner") == "n1"
    assert placed == (policy == "Aligned")
