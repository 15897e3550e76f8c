"""Reservations that take over devices of running pods."""

from device_share.objects import (
    a_device_object,
    a_gpu,
    a_gpu_node,
    a_gpu_pod,
    a_gpu_reservation,
    an_owner,
    devices_of,
    from_reservation,
    reserved,
)
from holdfast.api.koordinator_names import GPU
from holdfast.api.scheme import PODS, SHARED_DEVICES
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing.harness import Harness

SEVERAL = {"mode": "Cluster", "enableMultiple": True}
OFFERED = {"pod.koordinator.sh/is-pre-allocatable": "true"}


def taking(name="r", percent=100, **more):
    """A reservation that may take over what running pods with its owners' label have."""
    return a_gpu_reservation(name, percent, cpu="2", pre_allocation=True, **more)


async def test_the_reservation_has_the_gpu_of_the_pod_and_the_rest_of_it(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", *map(a_gpu, range(3))))
    await cluster.create(a_gpu_pod("other", 100), an_owner("p", 60), a_gpu_pod("more", 100))
    assert await devices_of(cluster, "p") == [("gpu", 1, 60)]
    await cluster.create(taking("r", 100))
    assert await reserved(cluster, "r") == [("gpu", 1, 100)]
    assert await from_reservation(cluster, "p") == "r"
    assert (await cluster.reservation("r")).phase == "Waiting"
    await cluster.create(a_gpu_pod("stranger", 40))
    assert await cluster.node_of("stranger") == ""
    await cluster.restart()
    await cluster.delete(PODS, "p", "default")
    assert await cluster.node_of("stranger") == ""
    await cluster.create(an_owner("q", 100))
    assert await devices_of(cluster, "q") == [("gpu", 1, 100)]


async def test_a_pod_with_devices_that_the_reservation_cannot_have_is_not_chosen(cluster):
    """The first pod shares its GPU with another one, so the reservation cannot have all of it."""
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(an_owner("a", 70), an_owner("b", 60), a_gpu_pod("beside-a", 30))
    assert await devices_of(cluster, "beside-a") == [("gpu", 1, 30)]
    await cluster.create(taking("r", 100))
    assert await reserved(cluster, "r") == [("gpu", 0, 100)]
    assert await from_reservation(cluster, "a") == "r"
    assert await from_reservation(cluster, "b") == ""


async def test_a_reservation_without_pods_to_take_over_does_not_wait_for_devices(cluster):
    await cluster.create(a_gpu_node(), a_device_object())
    await cluster.create(a_gpu_pod("a", 60), a_gpu_pod("b", 60))
    await cluster.create(taking("r", 100))
    found = await cluster.reservation("r")
    assert found.phase == "Pending"
    assert "Insufficient gpu devices" in found.status.conditions[0].message
    await cluster.delete(PODS, "a", "default")
    await cluster.advance(30)
    assert await reserved(cluster, "r") == [("gpu", 0, 100)]


async def test_devices_of_several_pods(tmp_path):
    args = {"Reservation": {"preAllocationConfig": {"enableClusterMode": True}}}
    async with Harness(tmp_path, profiles=default_profiles(args)) as cluster:
        await cluster.create(a_gpu_node(allocatable={GPU: "300"}))
        await cluster.create(a_device_object("n", *map(a_gpu, range(3))), a_gpu_pod("x", 100))
        await cluster.create(
            a_gpu_pod("a", 80, labels=OFFERED), a_gpu_pod("b", 100, labels=OFFERED)
        )
        await cluster.create(taking("r", 200, pre_allocation_policy=SEVERAL))
        assert await reserved(cluster, "r") == [("gpu", 1, 100), ("gpu", 2, 100)]
        for name in ("a", "b"):
            assert await from_reservation(cluster, name) == "r"


async def test_a_reservation_with_other_devices_than_the_pod_does_not_take_it_over(cluster):
    """The GPU of the pod has another user, and a free one serves the reservation."""
    node = a_gpu_node(allocatable={GPU: "300"})
    await cluster.create(node, a_device_object("n", a_gpu(0)), an_owner("p", 60))
    await cluster.create(a_gpu_pod("beside", 30))
    await cluster.delete(SHARED_DEVICES, "n")
    await cluster.create(a_device_object("n", a_gpu(0), a_gpu(1)))
    await cluster.create(taking("r", 100))
    assert await reserved(cluster, "r") == [("gpu", 1, 100)]
    assert await from_reservation(cluster, "p") == ""
    assert (await cluster.reservation("r")).phase == "Available"
