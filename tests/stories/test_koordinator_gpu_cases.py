"""What Koordinator's end-to-end tests expect of GPUs and preemption, as stories of our own."""

import pytest

from device_share.objects import (
    a_device_object,
    a_gpu,
    a_gpu_node,
    a_gpu_pod,
    a_gpu_reservation,
    allocated,
    an_owner,
    devices_of,
    from_reservation,
    reserved,
)
from holdfast.api import koordinator_names as names
from holdfast.api.reservation_names import ORDER
from holdfast.api.scheme import PODS
from holdfast.testing import a_node, a_pod, a_priority_class, a_reservation
from holdfast.testing.numa_builders import a_topology
from reservations.objects import create_each, status

FAKE = "koordinator.sh/fake-resource"
HIGH = {"priority_class_name": "high"}
REUSABLE = {"allocate_once": False, "cpu": None}
WEB = {"app": "web"}


@pytest.fixture
async def gpus(cluster):
    """A node with two GPUs."""
    await create_each(cluster, a_priority_class(), a_device_object("n"), a_gpu_node("n"))
    return cluster


async def owners_of_r(cluster, *pods):
    return [name for name in pods if await from_reservation(cluster, name) == "r"]


async def test_of_all_pods_that_match_half_a_GPU_one_uses_it(gpus):
    await create_each(gpus, a_gpu_reservation("r", 50, **REUSABLE))
    pods = [f"p{i}" for i in range(4)]
    await create_each(gpus, *[an_owner(name, 50, cpu=None) for name in pods])
    (one,) = await owners_of_r(gpus, *pods)
    assert all([await gpus.node_of(name) == "n" for name in pods])
    assert await devices_of(gpus, one) == await reserved(gpus, "r")
    assert await status(gpus) == ("Available", {names.GPU: "50"}, [one])


async def test_others_use_the_rest_of_the_GPUs(gpus):
    await create_each(gpus, a_gpu_reservation("r", 50, **REUSABLE), an_owner("o", 50, cpu=None))
    pods = [f"p{i}" for i in range(3)]
    await create_each(gpus, *[a_gpu_pod(name, 50, cpu=None) for name in pods])
    assert all([await gpus.node_of(name) == "n" for name in pods])
    assert await devices_of(gpus, "o") == await reserved(gpus, "r")
    assert await status(gpus) == ("Available", {names.GPU: "50"}, ["o"])


async def test_a_restricted_half_serves_one_owner(gpus):
    made = a_gpu_reservation("r", 50, allocate_policy="Restricted", **REUSABLE)
    await create_each(gpus, made, *[an_owner(name, 50, cpu=None) for name in "ab"])
    assert await devices_of(gpus, "a") == await reserved(gpus, "r")
    assert await gpus.node_of("b") == "" and (await status(gpus))[1:] == ({names.GPU: "50"}, ["a"])


async def test_two_restricted_GPUs_serve_two_owners_of_60_percent(gpus):
    made = a_gpu_reservation("r", 200, allocate_policy="Restricted", **REUSABLE)
    await create_each(gpus, made, *[an_owner(name, 60, cpu=None) for name in "abc"])
    assert await gpus.node_of("c") == ""
    assert (await status(gpus))[1:] == ({names.GPU: "120"}, ["a", "b"])
    assert {(await devices_of(gpus, name))[0][1] for name in "ab"} == {0, 1}


async def test_an_aligned_half_serves_two_owners_and_the_node_the_third(gpus):
    made = a_gpu_reservation("r", 50, allocate_policy="Aligned", **REUSABLE)
    await create_each(gpus, made, *[an_owner(name, 40, cpu=None) for name in "abc"])
    using = await owners_of_r(gpus, *"abc")
    assert all([await gpus.node_of(name) == "n" for name in "abc"])
    minors = {minor for _, minor, _ in await reserved(gpus, "r")}
    assert {(await devices_of(gpus, name))[0][1] for name in using} == minors
    assert await status(gpus) == ("Available", {names.GPU: "80"}, ["a", "b"])


async def test_an_aligned_half_on_a_full_node_serves_one_owner(gpus):
    made = a_gpu_reservation("r", 50, allocate_policy="Aligned", **REUSABLE)
    await create_each(gpus, made, *[a_gpu_pod(f"n{i}", 40, cpu=None) for i in range(3)])
    assert all([await gpus.node_of(f"n{i}") == "n" for i in range(3)])
    await create_each(gpus, *[an_owner(name, 40, cpu=None) for name in "ab"])
    assert await owners_of_r(gpus, *"ab") == ["a"] and await gpus.node_of("b") == ""


async def test_the_NUMA_nodes_are_those_of_the_nominated_reservation(cluster):
    """Of two reservations the one with an order label is used, although it spans NUMA nodes."""
    cards = [a_gpu(minor, numa=minor // 4) for minor in range(8)]
    amounts = {name: "800" for name in (names.GPU, names.GPU_CORE, names.GPU_MEMORY_RATIO)}
    amounts |= {names.GPU_MEMORY: "128Gi", names.GPU_SHARED: "800"}
    machine = a_node("n", cpu="16", memory="64Gi", allocatable=amounts)
    topology = a_topology("n", memory="32Gi")
    await create_each(cluster, topology, a_device_object("n", *cards), machine)
    fillers = {}
    for i in range(8):
        await create_each(cluster, a_gpu_pod(f"f{i}", 100, cpu="500m"))
        fillers[(await devices_of(cluster, f"f{i}"))[0][1]] = f"f{i}"
    await reserve(cluster, "single", fillers, (0, 1))
    await reserve(cluster, "cross", fillers, (2, 4), labels={ORDER: "1"})
    spec = {names.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"BestEffort"}'}
    pod = a_gpu_pod("p", 200, cpu="2", memory="4Gi", labels=WEB, annotations=spec)
    await create_each(cluster, pod)
    assert await from_reservation(cluster, "p") == "cross", await cluster.why("p")
    assert sorted(minor for _, minor, _ in await devices_of(cluster, "p")) == [2, 4]


async def reserve(cluster, name, fillers, minors, **more):
    """Free two GPUs, and reserve just these."""
    for minor in minors:
        await cluster.delete(PODS, fillers[minor], "default")
    await cluster.advance(40)
    made = a_gpu_reservation(
        name, 200, cpu="2", memory="4Gi", allocate_policy="Restricted", allocate_once=False, **more
    )
    await create_each(cluster, made)
    found = allocated(await cluster.reservation(name))
    assert sorted(minor for _, minor, _ in found) == list(minors)


def everything(name, resource, **more):
    """A pod that asks for all there is of a resource on the node."""
    amount = "200" if resource == names.GPU else "1000"
    return a_pod(name, cpu=None, requests={resource: amount}, **more)


@pytest.fixture(params=[names.GPU, FAKE])
async def whole(cluster, request):
    """A node with a resource that every pod asks for completely."""
    machine = a_gpu_node("n", allocatable={FAKE: "1000"})
    await create_each(cluster, a_priority_class(), a_device_object("n"), machine)
    return cluster, request.param


async def test_a_pod_of_high_priority_preempts(whole):
    cluster, resource = whole
    await create_each(cluster, everything("low", resource), everything("high", resource, **HIGH))
    await cluster.advance(60)
    assert await cluster.node_of("high") == "n"


async def reservation_of(resource):
    amount = "200" if resource == names.GPU else "1000"
    return a_reservation(
        "r", cpu=None, requests={resource: amount}, owner_labels=WEB, allocate_once=False
    )


async def test_other_pods_do_not_preempt_owners(whole):
    cluster, resource = whole
    await create_each(cluster, await reservation_of(resource))
    await create_each(cluster, everything("low", resource, labels=WEB))
    assert await from_reservation(cluster, "low") == "r"
    await create_each(cluster, everything("high", resource, **HIGH))
    await cluster.advance(60)
    assert await cluster.node_of("high") == "" and not (await cluster.pod("low")).terminating


async def test_owners_preempt_owners_of_lower_priority(whole):
    cluster, resource = whole
    await create_each(cluster, await reservation_of(resource))
    await create_each(cluster, everything("low", resource, labels=WEB))
    await create_each(cluster, everything("high", resource, labels=WEB, **HIGH))
    await cluster.advance(60)
    assert await from_reservation(cluster, "high") == "r"
