"""Pods that ignore reservations, on nodes in equal states."""

from holdfast.api.reservation_names import IGNORED
from holdfast.api.scheme import NODES
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.numa_builders import a_topology

X = "example.com/x"
"""Of such a resource another plugin may know the NUMA nodes."""
IGNORING = {IGNORED: "true"}


async def add_node(cluster, name):
    """Two NUMA nodes of 8 CPUs, but amounts for many pods."""
    topology = a_topology(name, policy="SingleNUMANodePodLevel")
    await cluster.create(topology, a_node(name, cpu="64", allocatable={X: "9"}))


def a_pod_ignoring_reservations(name, cpu):
    return a_pod(name, cpu=cpu, requests={X: "1"}, labels=IGNORING)


async def test_a_deleted_node_does_not_decide_about_those_in_its_state(cluster):
    """No NUMA node has 12 CPUs; a deleted node would accept any pod."""
    await add_node(cluster, "deleted")
    await add_node(cluster, "left")
    reservation = a_reservation("r", cpu="4", template={"node": "other"})
    await cluster.create(a_node("other", cpu="4"), reservation)
    await cluster.create(a_pod_ignoring_reservations("before", "12"))
    assert "2 Unaligned NUMA Hint cause cpu prefer [11]" in await cluster.why("before")
    await cluster.delete(NODES, "deleted")
    await cluster.create(a_pod_ignoring_reservations("after", "12"))
    assert "1 Unaligned NUMA Hint cause cpu prefer [11]" in await cluster.why("after")
