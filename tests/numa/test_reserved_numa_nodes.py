"""Reservations on nodes that align pods with NUMA nodes, or amplify cpu."""

import json

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from numa.reserving import add_node, owner, reserve, stranger
from reservations.objects import allocated_from
from reservations.objects import status as reservation_status

SINGLE = {names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}
HALF_MORE = {names.AMPLIFICATION_RATIO: '{"cpu": 1.5}'}


async def numa_nodes(cluster, name, *, reservation=False):
    """Return the NUMA nodes that a pod or a reservation uses, with their cpu."""
    found = await (cluster.reservation if reservation else cluster.pod)(name)
    status = json.loads(found.metadata.annotations[names.RESOURCE_STATUS])
    return {part["node"]: part["resources"]["cpu"] for part in status["numaNodeResources"]}


async def on_numa_node_1(cluster, cpu="4", **more):
    """Reserve CPUs on NUMA node 1, and leave NUMA node 0 as empty as it was."""
    await add_node(cluster, labels=SINGLE)
    await stranger(cluster, "first", "6")
    found = await reserve(cluster, "r", cpu, allocate_once=False, **more)
    await cluster.delete(PODS, "first", "default")
    return found


async def test_an_owner_uses_the_NUMA_node_of_its_reservation(cluster):
    assert await on_numa_node_1(cluster) == "8-11"
    assert await numa_nodes(cluster, "r", reservation=True) == {1: "4"}
    assert await owner(cluster, "p", "4") == "8-11"
    assert await numa_nodes(cluster, "p") == {1: "4"}
    assert await stranger(cluster, "q", "8") == "0-7"


async def test_an_unbound_owner_uses_the_amounts_of_its_reservation(cluster):
    assert await on_numa_node_1(cluster, "6") == "8-13"
    await owner(cluster, "p", "2", qos="LS")
    assert await numa_nodes(cluster, "p") == {1: "2"}
    assert (await reservation_status(cluster, "r"))[1] == {"cpu": "2"}
    await stranger(cluster, "q", "8", qos="LS")
    await stranger(cluster, "s", "2", qos="LS")
    assert (await numa_nodes(cluster, "q"), await numa_nodes(cluster, "s")) == ({0: "8"}, {1: "2"})
    await stranger(cluster, "t", "1", qos="LS")
    assert not await cluster.node_of("t"), "4 of the reservation are left, for owners"


async def test_a_Restricted_reservation_that_cannot_be_aligned_says_so(cluster):
    await on_numa_node_1(cluster, allocate_policy="Restricted")
    assert await owner(cluster, "p", "6", affinity={"name": "r"}) is None
    assert "Reservation(s) Unsatisfied NUMA cpu" in await cluster.why("p")


async def test_an_owner_of_more_than_its_NUMA_node_has_is_not_divided(cluster):
    """Of the reservation's NUMA node 2 CPUs are free: with its own 4 that is too few for 7."""
    assert await on_numa_node_1(cluster) == "8-11"
    assert await stranger(cluster, "other", "8") == "0-7"
    assert await stranger(cluster, "more", "2") == "12-13"
    assert await owner(cluster, "p", "7") is None
    await cluster.delete(PODS, "p", "default")
    assert await owner(cluster, "q", "6") == "8-11,14-15"


async def test_an_owner_without_CPUs_of_its_own_leaves_those_of_the_reservation(cluster):
    await add_node(cluster)
    assert await reserve(cluster, "r", "4", allocate_once=False) == "0-3"
    assert await owner(cluster, "p", "4", qos="LS") is None
    assert await cluster.node_of("p") == "n"
    assert await allocated_from(cluster, "p") == "r"
    assert await stranger(cluster, "q", "12") == "4-15", "the reservation has its CPUs still"


# --- amplified cpu -------------------------------------------------------------------------------


async def test_reserved_CPUs_are_amplified_once(cluster):
    """24 cpu of 16 CPUs: 8 reserved CPUs cost 12, and cost their owners nothing more."""
    await add_node(cluster, cpu="24", annotations=HALF_MORE)
    assert await reserve(cluster, "r", "8", allocate_once=False) == "0-7"
    assert await stranger(cluster, "q", "13", qos="LS") is None
    assert "Insufficient amplified cpu" in await cluster.why("q")
    await cluster.delete(PODS, "q", "default")
    await stranger(cluster, "other", "12", qos="LS")
    assert await cluster.node_of("other") == "n"
    assert [await owner(cluster, name, "4") for name in ("a", "b")] == ["0-3", "4-7"]
    assert await stranger(cluster, "s", "1", qos="LS") is None
    assert not await cluster.node_of("s")


async def test_CPUs_beyond_a_reservation_cost_more_where_cpu_is_amplified(cluster):
    await add_node(cluster, cpu="24", annotations=HALF_MORE)
    assert await reserve(cluster, "r", "4", allocate_once=False) == "0-3"
    await stranger(cluster, "other", "16", qos="LS")
    assert await cluster.node_of("other") == "n", "it leaves 2 of 24"
    assert await owner(cluster, "p", "6") is None, "2 CPUs besides those reserved cost 3"
    assert "Insufficient amplified cpu" in await cluster.why("p")
    await cluster.delete(PODS, "p", "default")
    assert await owner(cluster, "q", "5") == "0-4"


async def test_an_unbound_owner_does_not_make_reserved_CPUs_cheaper(cluster):
    """The reservation keeps its 8 CPUs, which cost 4 more than they are."""
    await add_node(cluster, cpu="24", annotations=HALF_MORE)
    assert await reserve(cluster, "r", "8", allocate_once=False) == "0-7"
    await stranger(cluster, "other", "8", qos="LS")
    await owner(cluster, "p", "13", qos="LS")
    assert not await cluster.node_of("p"), "8 reserved, and 4 that are free"
    await cluster.delete(PODS, "p", "default")
    await owner(cluster, "q", "12", qos="LS")
    assert await cluster.node_of("q") == "n"


async def test_bound_pods_cost_more_within_a_NUMA_node(cluster):
    """Each NUMA node has 12 cpu, of which 4 are left; a pod with 3 CPUs costs 4.5."""
    await add_node(cluster, cpu="24", labels=SINGLE, annotations=HALF_MORE)
    for name in ("a", "b"):
        await stranger(cluster, name, "8", qos="LS")
    assert await stranger(cluster, "p", "3") is None
    await cluster.delete(PODS, "p", "default")
    assert await stranger(cluster, "q", "2") == "0-1"
