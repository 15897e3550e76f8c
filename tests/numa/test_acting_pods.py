"""Pods that act as reservations and are bound to CPUs."""

import json

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from numa.reserving import add_node, owner, stranger
from reservations.objects import PREFIX, WEB, allocated_from

ACTS = {f"{PREFIX}/operating-mode": "Reservation"}
OWNERS = {f"{PREFIX}/reservation-owners": json.dumps([{"labelSelector": {"matchLabels": WEB}}])}


async def test_an_owner_gets_the_CPUs_of_the_pod_that_acts_as_its_reservation(cluster):
    await add_node(cluster)
    assert await stranger(cluster, "first", "6") == "0-5"
    assert await stranger(cluster, "acting", "4", labels=ACTS, annotations=OWNERS) == "8-11"
    await cluster.delete(PODS, "first", "default")
    assert await stranger(cluster, "p", "14") is None
    await cluster.delete(PODS, "p", "default")
    assert await owner(cluster, "q", "4") == "8-11"
    assert await allocated_from(cluster, "q") == "acting"
    await cluster.restart()
    assert await owner(cluster, "s", "2") == "0-1", "it acts for one owner"
    await cluster.delete(PODS, "q", "default")
    assert await stranger(cluster, "t", "12") is None, "the acting pod has its CPUs still"


async def test_an_owner_of_more_gets_CPUs_of_the_same_NUMA_node(cluster):
    await add_node(cluster)
    assert await stranger(cluster, "acting", "4", labels=ACTS, annotations=OWNERS) == "0-3"
    assert await owner(cluster, "q", "6") == "0-5"
    assert await stranger(cluster, "p", "10") == "6-15"


async def test_amounts_of_NUMA_nodes_that_owner_and_acting_pod_share_count_once(cluster):
    await add_node(cluster, labels={names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"})
    assert await stranger(cluster, "acting", "6", labels=ACTS, annotations=OWNERS) == "0-5"
    assert await owner(cluster, "q", "6") == "0-5"
    for name, cpu in (("a", "8"), ("b", "2")):
        await stranger(cluster, name, cpu, qos="LS")
        assert await cluster.node_of(name) == "n", await cluster.why(name)
    await stranger(cluster, "c", "1", qos="LS")
    assert not await cluster.node_of("c")
