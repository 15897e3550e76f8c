"""What owners get of the room held for them, and what is left for everybody else."""

import asyncio

import pytest

from holdfast.api.scheme import PODS
from reservations.rooms import (
    PREFIX,
    drawn_from,
    filler,
    given,
    held,
    node,
    owner,
    requested,
    status,
    stranger,
    waits,
)

CPU, MEMORY = 0, 1
GI = 2**30


async def test_R001_an_owner_takes_the_whole_reservation(cluster):
    await given(cluster, node(), held(cpu="4", memory="4Gi"))
    reservation = await cluster.reservation("r")
    assert (reservation.status.phase, reservation.status.node_name) == ("Available", "n1")
    assert reservation.status.allocatable == {"cpu": "4", "memory": "4Gi"}
    assert {(c.type, c.status, c.reason) for c in reservation.status.conditions} == {
        ("Scheduled", "True", "Scheduled"), ("Ready", "True", "Available"),
    }  # fmt: skip
    await cluster.create(owner(cpu="4", memory="4Gi"))
    assert await cluster.node_of("owner") == "n1"
    assert await drawn_from(cluster, "owner") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "4", "memory": "4Gi"}, ["owner"])
    assert requested(cluster) == 4000


async def test_R002_an_owner_may_ask_for_part_of_what_is_reserved(cluster):
    await given(cluster, node(), held(cpu="4", memory="4Gi"), owner(cpu="4"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])
    assert (requested(cluster), requested(cluster, MEMORY)) == (4000, 0)


async def test_R003_what_an_owner_does_not_use_is_free_once_it_has_succeeded(cluster):
    await given(cluster, node(), held(cpu="4", memory="4Gi"), owner(cpu="4", memory="1Gi"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4", "memory": "1Gi"}, ["owner"])
    assert (requested(cluster), requested(cluster, MEMORY)) == (4000, GI)


async def test_R004_what_is_not_reserved_comes_from_the_node(cluster):
    await given(cluster, node(), held(cpu="4"), owner(cpu="4", memory="1Gi"))
    assert await drawn_from(cluster, "owner") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])
    assert requested(cluster, MEMORY) == GI


async def test_R005_an_owner_may_be_larger_than_its_reservation(cluster):
    await given(cluster, node(), held(cpu="4"), owner(cpu="6"))
    assert await drawn_from(cluster, "owner") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "6"}, ["owner"])


async def test_R006_a_reusable_reservation_serves_several_owners(cluster):
    await given(cluster, node(), held(cpu="8", allocate_once=False))
    await cluster.create(owner("a", cpu="4"), owner("b", cpu="4"))
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["a", "b"])


@pytest.mark.parametrize(("cpu", "fits"), [("9", False), ("8", True)])
async def test_R007_what_owners_take_beyond_a_reservation_counts_too(cluster, cpu, fits):
    await given(cluster, node(), held(cpu="6", allocate_once=False))
    await cluster.create(owner("a", cpu="4"), owner("b", cpu="4"))
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["a", "b"])
    await cluster.create(stranger(cpu=cpu))
    assert await waits(cluster, "stranger") is not fits


async def test_R008_a_non_owner_is_kept_out(cluster):
    await given(cluster, node(), held(cpu="4"), filler("12"))
    await cluster.create(stranger(cpu="4"))
    assert "1 Insufficient cpu" in await cluster.why("stranger")
    await cluster.create(owner(cpu="4"))
    assert await cluster.node_of("owner") == "n1"


async def test_R009_the_rest_of_an_allocate_once_reservation_is_free_again(cluster):
    await given(cluster, node(), held(cpu="4"), filler("12"), stranger(cpu="2"))
    assert await waits(cluster, "stranger")
    await cluster.create(owner(cpu="2"))
    assert (await status(cluster))[0] == "Succeeded"
    await cluster.advance(12)
    assert await cluster.node_of("stranger") == "n1"


async def test_R010_the_rest_of_a_reusable_reservation_stays_reserved(cluster):
    await given(cluster, node(), held(cpu="4", allocate_once=False), filler("12"))
    await cluster.create(owner(cpu="2"), stranger(cpu="2"))
    assert (await status(cluster))[0] == "Available"
    await cluster.advance(12)
    assert await waits(cluster, "stranger")


async def test_R011_a_node_may_be_reserved_altogether(cluster):
    await given(cluster, node(), held(cpu="16"), stranger(cpu="100m"))
    assert await waits(cluster, "stranger")
    await cluster.create(owner(cpu="16"))
    assert await drawn_from(cluster, "owner") == "r"
    assert await waits(cluster, "stranger")


async def test_R012_a_second_reservation_finds_only_what_is_free(cluster):
    await given(cluster, node(), held(cpu="16", allocate_once=False), owner(cpu="4"))
    await cluster.create(held("more", cpu="1"), held("other", cpu=None, memory="1Gi"))
    scheduled = (await cluster.reservation("more")).status.conditions[0]
    assert (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    assert "1 Insufficient cpu" in scheduled.message
    assert (await cluster.reservation("other")).status.phase == "Available"


@pytest.mark.parametrize(("cpu", "phase"), [("6", "Available"), ("7", "Pending")])
async def test_R013_an_owner_inside_a_reservation_counts_once(cluster, cpu, phase):
    await given(cluster, node(), held(cpu="10", allocate_once=False), owner(cpu="4"))
    await cluster.create(held("new", cpu=cpu))
    assert (await cluster.reservation("new")).phase == phase


async def test_R014_what_a_gone_owner_used_stays_reserved(cluster):
    await given(cluster, node(), held(cpu="8", allocate_once=False), owner(cpu="4"))
    await cluster.delete(PODS, "owner", "default")
    assert await status(cluster) == ("Available", {}, [])
    assert requested(cluster) == 8000
    await cluster.create(stranger(cpu="9"))
    assert await waits(cluster, "stranger")


async def test_R015_a_used_up_reservation_holds_nothing(cluster):
    await given(cluster, node(), held(cpu="8"), owner(cpu="4"))
    await cluster.delete(PODS, "owner", "default")
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, [])
    assert requested(cluster) == 0
    await cluster.create(stranger(cpu="16"))
    assert await cluster.node_of("stranger") == "n1"


async def test_a_used_up_reservation_names_its_owner_while_there_is_one(cluster):
    await given(cluster, node(), held(cpu="8"), owner(cpu="4"))
    succeeded = await cluster.reservation("r")
    await cluster.restart()
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])
    await cluster.delete(PODS, "owner", "default")
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, [])
    ended = await cluster.reservation("r")
    assert ended.status.conditions == succeeded.status.conditions
    await cluster.advance(1300)
    assert (await cluster.reservation("r")).metadata == ended.metadata


async def test_owners_deleted_while_nobody_looks_leave_a_used_up_reservation(cluster):
    await given(cluster, node(), held("a", cpu="4"), held("b", cpu="4"), owner(cpu="8"))
    assert [(await status(cluster, name))[2] for name in "ab"] == [["owner"], ["owner"]]
    await cluster.components.stop()
    await cluster.client.delete(PODS, "owner", "default", grace_seconds=0)
    await cluster.restart_components()
    assert [(await status(cluster, name))[2] for name in "ab"] == [[], []]


@pytest.mark.parametrize("cpu", ["2", "4"])
async def test_R016_two_owners_race_for_one_allocate_once_reservation(cluster, cpu):
    await given(cluster, node(), held(cpu="4"), filler("12"))
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


async def test_R017_a_reservation_keeps_a_pod_slot_for_its_owner(cluster):
    await given(cluster, node(pods="2"), held(cpu="1"), filler("1"), stranger(cpu="1"))
    assert "1 Too many pods" in await cluster.why("stranger")
    await cluster.create(owner(cpu="1"))
    assert await drawn_from(cluster, "owner") == "r"


@pytest.mark.parametrize(("wish", "allocated"), [(None, None), ("{}", "r")])
async def test_R018_who_asks_for_nothing_reserved_is_not_allocated_unless_it_must_be(
    cluster, wish, allocated
):
    await given(cluster, node(), held(cpu="4"), owner(cpu=None, memory="1Gi", wish=wish))
    assert await cluster.node_of("owner") == "n1"
    assert await drawn_from(cluster, "owner") == allocated
    assert (await status(cluster))[0] == ("Succeeded" if allocated else "Available")


async def test_a_reservation_may_hold_other_amounts_than_its_template_says(cluster):
    resized = {f"{PREFIX}/reservation-resize-allocatable": '{"resources":{"cpu":"8"}}'}
    await given(cluster, node(), held(cpu="4", memory="1Gi", annotations=resized))
    reservation = await cluster.reservation("r")
    assert reservation.status.allocatable == {"cpu": "8", "memory": "1Gi"}
    assert requested(cluster) == 8000
    await given(cluster, owner(cpu="8"))
    assert await drawn_from(cluster, "owner") == "r"
