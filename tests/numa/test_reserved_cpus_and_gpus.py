"""Reservations that hold CPUs and a GPU of one NUMA node."""

import json

from device_share.objects import a_device_object, a_gpu
from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from numa.reserving import add_node, owner, reserve, stranger

SINGLE = {names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}
WHOLE = {names.GPU: "100"}


async def minor(cluster, name, *, reservation=False):
    """Return the GPU of a pod or a reservation."""
    found = await (cluster.reservation if reservation else cluster.pod)(name)
    (gpu,) = json.loads(found.metadata.annotations[names.DEVICE_ALLOCATED])["gpu"]
    return gpu["minor"]


async def test_an_owner_gets_the_CPUs_and_the_GPU_of_its_reservation(cluster):
    await cluster.create(a_device_object("n", a_gpu(0, numa=0), a_gpu(1, numa=1)))
    await add_node(cluster, labels=SINGLE)
    assert await stranger(cluster, "first", "6", requests=WHOLE) == "0-5"
    assert await reserve(cluster, "r", "4", requests=WHOLE, allocate_once=False) == "8-11"
    assert await minor(cluster, "r", reservation=True) == 1
    await cluster.delete(PODS, "first", "default")
    await cluster.restart()
    assert await owner(cluster, "p", "4", requests=WHOLE) == "8-11"
    assert await minor(cluster, "p") == 1
    assert await stranger(cluster, "q", "8", requests=WHOLE) == "0-7"
    assert await minor(cluster, "q") == 0


async def test_a_Restricted_reservation_gives_CPUs_and_a_GPU_of_its_own_only(cluster):
    """NUMA node 1 has the reservation's GPU and 4 CPUs of it; a Restricted one gives no others."""
    await cluster.create(a_device_object("n", a_gpu(0, numa=0), a_gpu(1, numa=1)))
    await add_node(cluster, labels=SINGLE)
    assert await stranger(cluster, "first", "6", requests=WHOLE) == "0-5"
    assert (
        await reserve(
            cluster, "r", "4", requests=WHOLE, allocate_policy="Restricted", allocate_once=False
        )
        == "8-11"
    )
    await cluster.delete(PODS, "first", "default")
    assert await owner(cluster, "p", "6", requests=WHOLE, affinity={"name": "r"}) is None
    assert "Reservation(s) " in await cluster.why("p")
    await cluster.delete(PODS, "p", "default")
    assert await owner(cluster, "q", "2", requests=WHOLE, affinity={"name": "r"}) == "8-9"
    assert await minor(cluster, "q") == 1
