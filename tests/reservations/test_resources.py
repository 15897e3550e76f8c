"""What owners may use of a reservation, and what remains for other pods."""

import asyncio

import pytest

from holdfast.api.scheme import PODS
from reservations.objects import (
    PREFIX,
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    requested,
    running,
    status,
)

CPU, MEMORY = 0, 1
GI = 2**30


async def test_R001_an_owner_allocates_the_whole_reservation(cluster):
    await create_each(cluster, node(), held(cpu="4", memory="4Gi"))
    reservation = await cluster.reservation("r")
    assert (reservation.status.phase, reservation.status.node_name) == ("Available", "n1")
    assert reservation.status.allocatable == {"cpu": "4", "memory": "4Gi"}
    assert {(c.type, c.status, c.reason) for c in reservation.status.conditions} == {
        ("Scheduled", "True", "Scheduled"), ("Ready", "True", "Available"),
    }  # fmt: skip
    await cluster.create(owner(cpu="4", memory="4Gi"))
    assert await cluster.node_of("owner") == "n1"
    assert await allocated_from(cluster, "owner") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "4", "memory": "4Gi"}, ["owner"])
    assert requested(cluster) == 4000


async def test_R002_an_owner_may_request_a_part_of_what_is_reserved(cluster):
    await create_each(cluster, node(), held(cpu="4", memory="4Gi"), owner(cpu="4"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])
    assert (requested(cluster), requested(cluster, MEMORY)) == (4000, 0)


async def test_R003_what_an_owner_does_not_use_is_free_once_it_has_succeeded(cluster):
    await create_each(cluster, node(), held(cpu="4", memory="4Gi"), owner(cpu="4", memory="1Gi"))
    assert await status(cluster) == ("Succeeded", {"cpu": "4", "memory": "1Gi"}, ["owner"])
    assert (requested(cluster), requested(cluster, MEMORY)) == (4000, GI)


async def test_R004_what_is_not_reserved_comes_from_the_node(cluster):
    await create_each(cluster, node(), held(cpu="4"), owner(cpu="4", memory="1Gi"))
    assert await allocated_from(cluster, "owner") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])
    assert requested(cluster, MEMORY) == GI


async def test_R005_an_owner_may_be_larger_than_its_reservation(cluster):
    await create_each(cluster, node(), held(cpu="4"), owner(cpu="6"))
    assert await allocated_from(cluster, "owner") == "r"
    assert await status(cluster) == ("Succeeded", {"cpu": "6"}, ["owner"])


async def test_R006_a_reusable_reservation_serves_several_owners(cluster):
    await create_each(cluster, node(), held(cpu="8", allocate_once=False))
    await cluster.create(owner("a", cpu="4"), owner("b", cpu="4"))
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["a", "b"])


@pytest.mark.parametrize(("cpu", "fits"), [("9", False), ("8", True)])
async def test_R007_what_owners_request_beyond_a_reservation_counts_too(cluster, cpu, fits):
    await create_each(cluster, node(), held(cpu="6", allocate_once=False))
    await cluster.create(owner("a", cpu="4"), owner("b", cpu="4"))
    assert await status(cluster) == ("Available", {"cpu": "8"}, ["a", "b"])
    await cluster.create(non_owner(cpu=cpu))
    assert await is_pending(cluster, "stranger") is not fits


async def test_R008_a_non_owner_cannot_use_reserved_resources(cluster):
    await create_each(cluster, node(), held(cpu="4"), running("12"))
    await cluster.create(non_owner(cpu="4"))
    assert "1 Insufficient cpu" in await cluster.why("stranger")
    await cluster.create(owner(cpu="4"))
    assert await cluster.node_of("owner") == "n1"


async def test_R009_the_rest_of_an_allocate_once_reservation_is_free_again(cluster):
    await create_each(cluster, node(), held(cpu="4"), running("12"), non_owner(cpu="2"))
    assert await is_pending(cluster, "stranger")
    await cluster.create(owner(cpu="2"))
    assert (await status(cluster))[0] == "Succeeded"
    await cluster.advance(12)
    assert await cluster.node_of("stranger") == "n1"


async def test_R010_the_rest_of_a_reusable_reservation_stays_reserved(cluster):
    await create_each(cluster, node(), held(cpu="4", allocate_once=False), running("12"))
    await cluster.create(owner(cpu="2"), non_owner(cpu="2"))
    assert (await status(cluster))[0] == "Available"
    await cluster.advance(12)
    assert await is_pending(cluster, "stranger")


async def test_R011_a_whole_node_may_be_reserved(cluster):
    await create_each(cluster, node(), held(cpu="16"), non_owner(cpu="100m"))
    assert await is_pending(cluster, "stranger")
    await cluster.create(owner(cpu="16"))
    assert await allocated_from(cluster, "owner") == "r"
    assert await is_pending(cluster, "stranger")


async def test_R012_a_second_reservation_gets_only_what_is_free(cluster):
    await create_each(cluster, node(), held(cpu="16", allocate_once=False), owner(cpu="4"))
    await cluster.create(held("more", cpu="1"), held("other", cpu=None, memory="1Gi"))
    scheduled = (await cluster.reservation("more")).status.conditions[0]
    assert (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    assert "1 Insufficient cpu" in scheduled.message
    assert (await cluster.reservation("other")).status.phase == "Available"


@pytest.mark.parametrize(("cpu", "phase"), [("6", "Available"), ("7", "Pending")])
async def test_R013_an_owner_inside_a_reservation_counts_once(cluster, cpu, phase):
    await create_each(cluster, node(), held(cpu="10", allocate_once=False), owner(cpu="4"))
    await cluster.create(held("new", cpu=cpu))
    assert (await cluster.reservation("new")).phase == phase


async def test_R014_what_a_deleted_owner_used_stays_reserved(cluster):
    await create_each(cluster, node(), held(cpu="8", allocate_once=False), owner(cpu="4"))
    await cluster.delete(PODS, "owner", "default")
    assert await status(cluster) == ("Available", {}, [])
    assert requested(cluster) == 8000
    await cluster.create(non_owner(cpu="9"))
    assert await is_pending(cluster, "stranger")


async def test_R015_a_succeeded_reservation_holds_nothing(cluster):
    await create_each(cluster, node(), held(cpu="8"), owner(cpu="4"))
    await cluster.delete(PODS, "owner", "default")
    assert await status(cluster) == ("Succeeded", {}, [])
    assert requested(cluster) == 0
    await cluster.create(non_owner(cpu="16"))
    assert await cluster.node_of("stranger") == "n1"


async def test_a_succeeded_reservation_lists_its_owner_while_it_exists(cluster):
    await create_each(cluster, node(), held(cpu="8"), owner(cpu="4"))
    succeeded = await cluster.reservation("r")
    await cluster.restart()
    assert await status(cluster) == ("Succeeded", {"cpu": "4"}, ["owner"])
    await cluster.delete(PODS, "owner", "default")
    assert await status(cluster) == ("Succeeded", {}, [])
    ended = await cluster.reservation("r")
    assert ended.status.conditions == succeeded.status.conditions
    await cluster.advance(1300)
    assert (await cluster.reservation("r")).metadata == ended.metadata


async def test_owners_deleted_while_the_controller_is_down_are_removed_later(cluster):
    await create_each(cluster, node(), held("a", cpu="4"), held("b", cpu="4"), owner(cpu="8"))
    assert [(await status(cluster, name))[2] for name in "ab"] == [["owner"], ["owner"]]
    await cluster.components.stop()
    await cluster.client.delete(PODS, "owner", "default", grace_seconds=0)
    await cluster.restart_components()
    assert [(await status(cluster, name))[2] for name in "ab"] == [[], []]


@pytest.mark.parametrize("cpu", ["2", "4"])
async def test_R016_two_owners_race_for_one_allocate_once_reservation(cluster, cpu):
    await create_each(cluster, node(), held(cpu="4"), running("12"))
    await asyncio.gather(
        cluster.create(owner("a", cpu=cpu), settle=False),
        cluster.create(owner("b", cpu=cpu), settle=False),
    )
    await cluster.settle()
    drawn = [await allocated_from(cluster, name) for name in ("a", "b")]
    assert sorted(drawn, key=str) == [None, "r"]
    loser = ("a", "b")[drawn.index(None)]
    assert (await cluster.reservation("r")).status.phase == "Succeeded"
    # What the owner did not use is free with Succeeded: 2 CPUs, or nothing.
    await cluster.advance(12)
    assert await cluster.node_of(loser) == ("n1" if cpu == "2" else "")


async def test_R017_a_reservation_keeps_a_pod_slot_for_its_owner(cluster):
    await create_each(cluster, node(pods="2"), held(cpu="1"), running("1"), non_owner(cpu="1"))
    assert "1 Too many pods" in await cluster.why("stranger")
    await cluster.create(owner(cpu="1"))
    assert await allocated_from(cluster, "owner") == "r"


@pytest.mark.parametrize(("reservation_affinity", "allocated"), [(None, None), ("{}", "r")])
async def test_R018_an_owner_that_requests_nothing_reserved_is_allocated_only_if_required(
    cluster, reservation_affinity, allocated
):
    await create_each(
        cluster,
        node(),
        held(cpu="4"),
        owner(cpu=None, memory="1Gi", reservation_affinity=reservation_affinity),
    )
    assert await cluster.node_of("owner") == "n1"
    assert await allocated_from(cluster, "owner") == allocated
    assert (await status(cluster))[0] == ("Succeeded" if allocated else "Available")


async def test_the_resize_annotation_overrides_the_template(cluster):
    resized = {f"{PREFIX}/reservation-resize-allocatable": '{"resources":{"cpu":"8"}}'}
    await create_each(cluster, node(), held(cpu="4", memory="1Gi", annotations=resized))
    reservation = await cluster.reservation("r")
    assert reservation.status.allocatable == {"cpu": "8", "memory": "1Gi"}
    assert requested(cluster) == 8000
    await create_each(cluster, owner(cpu="8"))
    assert await allocated_from(cluster, "owner") == "r"
