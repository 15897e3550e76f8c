"""GPU partitions and virtual functions, also of reservations, through the API."""

import msgspec

from device_share.objects import (
    a_device_object,
    a_gpu,
    a_gpu_node,
    a_gpu_pod,
    a_nic,
    an_owner,
    devices_of,
    from_reservation,
    reserved,
)
from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from holdfast.testing import a_reservation

PAIRS = {
    names.GPU_PARTITIONS: (
        '{"2":[{"minors":[0,2],"gpuLinkType":"NVLink","ringBusBandwidth":"400Gi",'
        '"allocationScore":2},{"minors":[1,3],"gpuLinkType":"PCIe","ringBusBandwidth":"50Gi",'
        '"allocationScore":1}]}'
    )
}
HONOR = {names.GPU_PARTITION_POLICY: "Honor"}
OWNERS = {"app": "web"}


def wants(name, percent=200, spec=None, **more):
    """A pod that requests whole GPUs, with a wish for their partition."""
    notes = {names.GPU_PARTITION_SPEC: spec} if spec else {}
    return a_gpu_pod(name, percent, annotations=notes, **more)


async def with_pairs(cluster, **more):
    """Create a node with four GPUs and a table of two pairs."""
    node = a_gpu_node(allocatable={names.GPU: "800"})
    device = a_device_object("n", *map(a_gpu, range(4)), annotations=PAIRS, **more)
    await cluster.create(node, device)


async def test_whole_gpus_are_a_partition_with_the_highest_score_first(cluster):
    await with_pairs(cluster, labels=HONOR)
    await cluster.create(wants("a"), wants("b"))
    assert await devices_of(cluster, "a") == [("gpu", 0, 100), ("gpu", 2, 100)]
    assert await devices_of(cluster, "b") == [("gpu", 1, 100), ("gpu", 3, 100)]
    await cluster.create(wants("c", 100), wants("d"))
    assert "Unsupported number of GPU requests" in await cluster.why("c")
    assert "Insufficient Partitioned GPU Devices" in await cluster.why("d")


async def test_a_pod_may_insist_on_the_best_partition_or_on_bandwidth(cluster):
    await with_pairs(cluster)
    await cluster.create(wants("fast", spec='{"ringBusBandwidth":"200Gi"}'))
    assert await devices_of(cluster, "fast") == [("gpu", 0, 100), ("gpu", 2, 100)]
    await cluster.create(
        wants("too-fast", spec='{"ringBusBandwidth":"200Gi"}'),
        wants("best", spec='{"allocatePolicy":"Restricted"}'),
    )
    for name in ("too-fast", "best"):
        assert "Insufficient Partitioned GPU Devices" in await cluster.why(name)
    await cluster.create(wants("any", spec='{"allocatePolicy":"BestEffort"}'))
    assert await devices_of(cluster, "any") == [("gpu", 1, 100), ("gpu", 3, 100)]


async def test_a_model_with_built_in_partitions(cluster):
    labels = {names.GPU_MODEL: "H100", names.GPU_PARTITION_POLICY: "Honor"}
    node = a_gpu_node(allocatable={names.GPU: "800"}, labels=labels)
    await cluster.create(node, a_device_object("n", *map(a_gpu, range(8))))
    await cluster.create(a_gpu_pod("one", 100), a_gpu_pod("two", 200), a_gpu_pod("four", 400))
    assert await devices_of(cluster, "one") == [("gpu", 0, 100)]
    assert await devices_of(cluster, "two") == [("gpu", 2, 100), ("gpu", 3, 100)]
    assert [minor for _, minor, _ in await devices_of(cluster, "four")] == [4, 5, 6, 7]


async def test_a_reservation_holds_a_partition_for_its_owner(cluster):
    await with_pairs(cluster, labels=HONOR)
    await cluster.create(a_reservation("r", requests={names.GPU: "200"}, owner_labels=OWNERS))
    assert await reserved(cluster, "r") == [("gpu", 0, 100), ("gpu", 2, 100)]
    await cluster.create(wants("other"), wants("late"))
    assert await devices_of(cluster, "other") == [("gpu", 1, 100), ("gpu", 3, 100)]
    assert await cluster.node_of("late") == ""
    await cluster.create(wants("p", labels=OWNERS))
    assert await devices_of(cluster, "p") == [("gpu", 0, 100), ("gpu", 2, 100)]
    assert await from_reservation(cluster, "p") == "r"


# --- virtual functions ------------------------------------------------------------------------

WITH_FUNCTION = {names.DEVICE_ALLOCATE_HINT: '{"rdma":{"vfSelector":{}}}'}


def a_card(*buses):
    """An RDMA card with virtual functions."""
    functions = [{"minor": i, "busID": bus} for i, bus in enumerate(buses)]
    return a_nic(0, vfGroups=[{"labels": {"type": "general"}, "vfs": functions}])


def on_card(name, **more):
    return a_gpu_pod(name, requests={"rdma": "1"}, annotations=WITH_FUNCTION, **more)


def functions(obj):
    """Return the bus ids of the virtual functions of a pod or reservation."""
    found = msgspec.json.decode(obj.metadata.annotations[names.DEVICE_ALLOCATED])
    return [vf["busID"] for one in found["rdma"] for vf in one["extension"]["vfs"]]


async def test_each_pod_gets_a_virtual_function_of_its_own(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_card("b:2", "b:1")))
    await cluster.create(on_card("p"), on_card("q"), on_card("late"))
    assert functions(await cluster.pod("p")) == ["b:1"]
    assert functions(await cluster.pod("q")) == ["b:2"]
    assert "Insufficient rdma devices" in await cluster.why("late")
    await cluster.restart()
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(60)
    assert functions(await cluster.pod("late")) == ["b:1"]


async def test_the_virtual_function_of_a_reservation_is_for_its_owner(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_card("b:1", "b:2")))
    reservation = a_reservation("r", requests={names.RDMA: "1"}, owner_labels=OWNERS)
    reservation["spec"]["template"]["metadata"]["annotations"] = WITH_FUNCTION
    await cluster.create(reservation)
    assert functions(await cluster.reservation("r")) == ["b:1"]
    await cluster.create(on_card("other"), on_card("late"), on_card("p", labels=OWNERS))
    assert functions(await cluster.pod("other")) == ["b:2"]
    assert await cluster.node_of("late") == ""
    assert functions(await cluster.pod("p")) == ["b:1"]


async def test_an_owner_gets_the_function_of_its_reservation_and_no_other(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_card("b:1", "b:2")))
    await cluster.create(on_card("first"))
    reservation = a_reservation(
        "r", requests={names.RDMA: "1"}, owner_labels=OWNERS, allocate_once=False
    )
    reservation["spec"]["template"]["metadata"]["annotations"] = WITH_FUNCTION
    await cluster.create(reservation)
    await cluster.delete(PODS, "first", "default")
    await cluster.create(on_card("p", labels=OWNERS))
    assert functions(await cluster.pod("p")) == ["b:2"]
    await cluster.create(on_card("other"))
    assert functions(await cluster.pod("other")) == ["b:1"]


async def test_a_node_without_virtual_functions(cluster):
    await cluster.create(a_gpu_node(), a_device_object("n", a_nic(0)), on_card("p"))
    assert "Insufficient rdma VirtualFunctions" in await cluster.why("p")
    await cluster.create(an_owner("q", requests={"rdma": "1"}))
    assert await devices_of(cluster, "q") == [("rdma", 0, 1)]
