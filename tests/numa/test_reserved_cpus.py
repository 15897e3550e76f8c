"""Scenarios of reservations that hold CPUs, through the API of a whole cluster."""

import pytest

from holdfast.api import koordinator_names as names
from holdfast.api.reservation_names import IGNORED, RESTRICTED_OPTIONS
from holdfast.api.scheme import PODS, RESERVATIONS
from numa.reserving import LSR, add_node, owner, reserve, stranger
from reservations.objects import allocated_from
from reservations.objects import status as reservation_status

PREFERRED, SPREAD = "preferredCPUBindPolicy", "SpreadByPCPUs"
NOT_ENOUGH = "not enough cpus available to satisfy request"


async def test_N017_an_owner_gets_the_CPUs_of_its_reservation(cluster):
    await add_node(cluster)
    assert await reserve(cluster, "r", "4") == "0-3"
    assert await owner(cluster, "p", "4") == "0-3"
    assert (await reservation_status(cluster, "r"))[0] == "Succeeded"
    assert await stranger(cluster, "q", "4") == "8-11"
    await cluster.delete(PODS, "p", "default")
    assert await stranger(cluster, "s", "4") == "0-3", "the reservation has ended"


async def test_N018_what_a_reservation_lacks_comes_from_its_NUMA_node(cluster):
    await add_node(cluster)
    assert await reserve(cluster, "r", "4") == "0-3"
    assert await owner(cluster, "p", "6") == "0-5"
    assert (await reservation_status(cluster, "r"))[:2] == ("Succeeded", {"cpu": "6"})


async def test_N019_owners_share_the_CPUs_of_a_reusable_reservation(cluster):
    await add_node(cluster)
    assert await reserve(cluster, "r", "4", allocate_once=False) == "0-3"
    assert [await owner(cluster, name, "2") for name in "pq"] == ["0-1", "2-3"]
    assert await reservation_status(cluster, "r") == ("Available", {"cpu": "4"}, ["p", "q"])


async def test_N020_the_second_owner_takes_what_is_left_and_more(cluster):
    await add_node(cluster)
    await reserve(cluster, "r", "4", allocate_once=False)
    assert [await owner(cluster, name, "3") for name in "pq"] == ["0-2", "3-5"]
    assert (await reservation_status(cluster, "r"))[1] == {"cpu": "6"}


async def test_N021_a_Restricted_reservation_serves_no_more_than_it_has(cluster):
    await add_node(cluster)
    await reserve(cluster, "r", "4", allocate_policy="Restricted", allocate_once=False)
    assert await owner(cluster, "p", "6", affinity={"name": "r"}) is None
    assert f"Reservation(s) {NOT_ENOUGH}" in await cluster.why("p")
    await cluster.delete(PODS, "p", "default")
    required = {"reservationSelector": LSR}
    found = [await owner(cluster, name, "3", affinity=required) for name in "qr"]
    assert found == ["0-2", None]
    assert f"Reservation(s) {NOT_ENOUGH}" in await cluster.why("r")


async def test_N022_the_CPUs_of_a_spread_reservation_are_shared(cluster):
    await add_node(cluster)
    spread = {PREFERRED: SPREAD}
    assert await reserve(cluster, "r", "4", spec=spread, allocate_once=False) == "0,2,4,6"
    found = [await owner(cluster, name, "2", spec=spread) for name in "pq"]
    assert found == ["0,2", "4,6"]


async def test_N023_others_use_no_reserved_CPUs_unless_they_ignore_reservations(cluster):
    await add_node(cluster)
    assert await reserve(cluster, "r", "4") == "0-3"
    assert await stranger(cluster, "p", "4") == "8-11"
    await cluster.delete(PODS, "p", "default")
    assert await stranger(cluster, "q", "13") is None
    await cluster.delete(PODS, "q", "default")
    assert await stranger(cluster, "s", "16", labels={IGNORED: "true"}) == "0-15"


async def test_N024_CPUs_come_from_the_nominated_reservation_only(cluster):
    await add_node(cluster, labels={names.NUMA_ALLOCATE_STRATEGY: "MostAllocated"})
    assert await reserve(cluster, "a", "4", allocate_once=False) == "0-3"
    assert await reserve(cluster, "b", "4", allocate_once=False) == "4-7"
    assert await owner(cluster, "p", "6") == "0-3,8-9"
    assert await allocated_from(cluster, "p") == "a"
    assert (await reservation_status(cluster, "a"))[1] == {"cpu": "6"}
    assert (await reservation_status(cluster, "b"))[1] == {}
    held = cluster.world.nodes.amounts.requested_at[0][cluster.world.nodes.row_of["n"]]
    assert held == 10_000, "6 of the pod, 4 of the other reservation"


@pytest.mark.parametrize("restart", [False, True])
async def test_N025_expiry_frees_the_CPUs_that_no_owner_has_and_a_restart_none(cluster, restart):
    await add_node(cluster)
    assert await reserve(cluster, "r", "4", allocate_once=False, ttl="60s") == "0-3"
    assert await owner(cluster, "p", "2") == "0-1"
    if restart:
        await cluster.restart()
        assert await stranger(cluster, "q", "14") is None, "2-3 are reserved"
        assert await owner(cluster, "s", "2") == "2-3"
    else:
        await cluster.advance(61)
        assert await stranger(cluster, "q", "14") == "2-15"


async def test_R054_an_owner_of_more_CPUs_gets_the_reserved_and_others(cluster):
    await add_node(cluster)
    for count, policy in ((4, ""), (6, ""), (6, "Restricted")):
        cpus = await reserve(cluster, "r", "4", allocate_policy=policy)
        assert cpus == "0-3"
        got = await owner(cluster, "p", str(count), affinity={"name": "r"})
        assert got == (None if policy else {4: "0-3", 6: "0-5"}[count])
        await cluster.delete(PODS, "p", "default")
        await cluster.delete(RESERVATIONS, "r")


async def test_R055_owners_of_a_reusable_reservation_have_disjoint_CPUs(cluster):
    await add_node(cluster)
    for count, sets in ((2, ["0-1", "2-3"]), (3, ["0-2", "3-5"])):
        await reserve(cluster, "r", "4", allocate_once=False)
        assert [await owner(cluster, name, str(count)) for name in "pq"] == sets
        for name in "pq":
            await cluster.delete(PODS, name, "default")
        await cluster.delete(RESERVATIONS, "r")


async def test_an_Aligned_reservation_is_extended_by_CPUs_of_the_node(cluster):
    await add_node(cluster)
    await reserve(cluster, "r", "4", allocate_policy="Aligned", allocate_once=False)
    assert [await owner(cluster, name, "3") for name in "pq"] == ["0-2", "3-5"]


async def test_only_restricted_resources_are_limited_to_the_reservation(cluster):
    await add_node(cluster)
    options = {RESTRICTED_OPTIONS: '{"resources": ["memory"]}'}
    await reserve(
        cluster, "r", "4", memory="4Gi", allocate_policy="Restricted", annotations=options
    )
    assert await owner(cluster, "p", "6", memory="4Gi", affinity={"name": "r"}) == "0-5"


async def test_a_smaller_owner_frees_the_rest_of_a_reservation_for_one_owner(cluster):
    await add_node(cluster)
    await reserve(cluster, "r", "4")
    assert await owner(cluster, "p", "2") == "0-1"
    assert (await reservation_status(cluster, "r"))[0] == "Succeeded"
    assert await stranger(cluster, "q", "14") == "2-15"
