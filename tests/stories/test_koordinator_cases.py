"""What Koordinator's end-to-end tests expect of CPUs, NUMA nodes and ports, as stories of our own.

Reservations themselves are in tests/reservations (R001, R006, R011, R013, R021 to R023, R033, R052,
R053), GPUs and preemption in test_koordinator_gpu_cases.py.
"""

import json

import pytest

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from holdfast.state.numa.cpu_set import parse_cpu_list
from holdfast.testing import a_node, a_pod, a_reservation
from holdfast.testing.numa_builders import a_topology
from reservations.objects import allocated_from, create_each, held, is_pending, node, owner, status

SPREAD = json.dumps({"preferredCPUBindPolicy": "SpreadByPCPUs"})
KOORD = {"scheduler_name": "koord-scheduler"}
WEB = {"app": "web"}
UNALIGNED = "Unaligned NUMA Hint"
"""The text of v1.8; the end-to-end tests look for an older one."""


def an_lsr_pod(name, cpu, **more):
    labels = {names.QOS_CLASS: "LSR", **more.pop("labels", {})}
    return a_pod(
        name, cpu=cpu, labels=labels, annotations={names.RESOURCE_SPEC: SPREAD},
        priority_class_name="koord-prod", **KOORD, **more,
    )  # fmt: skip


def of_cpus(cpu, **more):
    """A reservation whose template asks for CPUs of its own."""
    made = a_reservation("r", cpu=cpu, owner_labels=WEB, template=KOORD, **more)
    made["spec"]["template"]["metadata"] |= {
        "labels": {names.QOS_CLASS: "LSR"},
        "annotations": {names.RESOURCE_SPEC: SPREAD},
    }
    made["spec"]["template"]["spec"] |= {"priorityClassName": "koord-prod", "priority": 9999}
    return made


async def status_of(cluster, pod):
    found = await cluster.pod(pod)
    assert found.spec.node_name, await cluster.why(pod)
    return json.loads(found.metadata.annotations.get(names.RESOURCE_STATUS) or "{}")


async def cpus_of(cluster, pod):
    return parse_cpu_list((await status_of(cluster, pod)).get("cpuset", ""))


@pytest.fixture
async def bound(cluster):
    """A node with 16 CPUs on two NUMA nodes."""
    await create_each(cluster, a_topology("n"), a_node("n", cpu="16", memory="32Gi"))
    return cluster


async def test_an_LSR_pod_has_CPUs_of_its_own(bound):
    await create_each(bound, an_lsr_pod("p", "4"))
    assert (await cpus_of(bound, "p")).bit_count() == 4


async def reserved_status(cluster):
    found = await cluster.reservation("r")
    assert found.status.phase in ("Available", "Succeeded"), found.status.conditions
    return json.loads(found.metadata.annotations[names.RESOURCE_STATUS])


async def test_an_owner_has_exactly_the_reserved_CPUs(bound):
    await create_each(bound, of_cpus("4"), an_lsr_pod("p", "4", memory="100Mi", labels=WEB))
    assert await allocated_from(bound, "p") == "r"
    assert await status_of(bound, "p") == await reserved_status(bound)


async def test_a_larger_owner_has_the_reserved_CPUs_and_others(bound):
    await create_each(bound, of_cpus("2"), an_lsr_pod("p", "4", memory="100Mi", labels=WEB))
    assert await allocated_from(bound, "p") == "r"
    reserved = parse_cpu_list((await reserved_status(bound))["cpuset"])
    got = await cpus_of(bound, "p")
    assert reserved & ~got == 0 and got.bit_count() == 4


@pytest.mark.parametrize("binds", [True, False])
async def test_two_owners_share_a_reusable_reservation_of_CPUs(bound, binds):
    """Owners that are not bound to CPUs may use it, too: they get the amount."""
    await create_each(bound, of_cpus("4", allocate_once=False))
    reserved = parse_cpu_list((await reserved_status(bound))["cpuset"])
    taken = 0
    for name in "ab":
        pod = an_lsr_pod(name, "2", labels=WEB)
        await create_each(bound, pod if binds else a_pod(name, cpu="2", labels=WEB, **KOORD))
        assert await allocated_from(bound, name) == "r"
        got = await cpus_of(bound, name)
        assert got & ~reserved == 0 and got & taken == 0
        assert got.bit_count() == (2 if binds else 0)
        taken |= got


def requests(percent, *, lsr=False):
    """So many percent of a node with 16 CPUs and 32 GiB; whole CPUs for LSR pods."""
    milli = 16_000 * percent // 100
    milli -= milli % 1000 if lsr else 0
    return {"cpu": f"{milli}m", "memory": str(32 * 2**30 * percent // 100)}


@pytest.fixture
async def aligned(cluster, request):
    """A node with two NUMA nodes, and the policy of its label."""
    labels = {names.NUMA_TOPOLOGY_POLICY: request.param} if request.param else {}
    machine = a_node("n", cpu="16", memory="32Gi", labels=labels)
    await create_each(cluster, a_topology("n"), machine)
    return cluster


async def numa_nodes(cluster, pod, asked):
    """Return the NUMA nodes of a pod; together they give what it asked for."""
    found = (await status_of(cluster, pod))["numaNodeResources"]
    amounts = [one["resources"] for one in found]
    milli = [int(str(a["cpu"]).removesuffix("m")) * (1 if "m" in str(a["cpu"]) else 1000)
             for a in amounts if "cpu" in a]  # fmt: skip
    assert sum(milli) == int(asked["cpu"].removesuffix("m"))
    return {one["node"] for one in found}


async def two_pods(cluster, **more):
    """Create two pods of 28 %; each is on a NUMA node of its own."""
    nodes = []
    asked = requests(28, lsr=names.QOS_CLASS in more.get("labels", {}))
    for name in "ab":
        await create_each(cluster, a_pod(name, **asked, **KOORD, **more))
        nodes.append(await numa_nodes(cluster, name, asked))
    assert sorted(map(sorted, nodes)) == [[0], [1]]


LSR = {
    "labels": {names.QOS_CLASS: "LSR"},
    "priority_class_name": "koord-prod",
    "preemption_policy": "Never",
}
SINGLE = {"annotations": {names.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}}


@pytest.mark.parametrize("aligned", ["SingleNUMANode"], indirect=True)
@pytest.mark.parametrize(("first", "third"), [({}, {}), (LSR, {}), ({}, LSR)])
async def test_a_third_pod_fits_in_neither_NUMA_node(aligned, first, third):
    await two_pods(aligned, **first)
    await create_each(aligned, a_pod("c", **requests(30, lsr=bool(third)), **KOORD, **third))
    assert UNALIGNED in await aligned.why("c")


@pytest.mark.parametrize("aligned", [""], indirect=True)
async def test_pods_that_ask_for_one_NUMA_node_themselves(aligned):
    await two_pods(aligned, **SINGLE)
    await create_each(aligned, a_pod("c", **requests(30), **KOORD, **SINGLE))
    assert UNALIGNED in await aligned.why("c")


@pytest.mark.parametrize("aligned", ["Restricted", "BestEffort"], indirect=True)
async def test_a_third_pod_may_span_both_NUMA_nodes(aligned):
    await two_pods(aligned)
    await create_each(aligned, a_pod("c", **requests(30), **KOORD))
    assert await numa_nodes(aligned, "c", requests(30)) == {0, 1}


@pytest.mark.parametrize(
    ("aligned", "fits"), [("SingleNUMANode", False), ("Restricted", True)], indirect=["aligned"]
)
async def test_cpu_is_free_on_one_NUMA_node_and_memory_on_the_other(aligned, fits):
    half = requests(40)
    for name, asked in (("m", {"memory": half["memory"]}), ("c", {"cpu": half["cpu"]})):
        for i in (0, 1):
            pod = a_pod(f"{name}{i}", **{"cpu": None, **asked}, **KOORD)
            await create_each(aligned, pod)
            assert await aligned.node_of(f"{name}{i}") == "n"
    for name in ("m0", "c1"):
        await aligned.delete(PODS, name, "default")
    await aligned.advance(40)
    await create_each(aligned, a_pod("p", **half, **KOORD))
    if fits:
        assert await numa_nodes(aligned, "p", half) == {0, 1}
    else:
        assert UNALIGNED in await aligned.why("p")


@pytest.mark.parametrize("once", [True, False])
async def test_a_reserved_port_is_allocated_once(cluster, once):
    await create_each(cluster, node(), held(cpu="2", ports=(54321,), allocate_once=once))
    await create_each(cluster, *[owner(name, cpu="1", ports=(54321,)) for name in "ab"])
    assert await allocated_from(cluster, "a") == "r" and await is_pending(cluster, "b")
    assert (await status(cluster))[2] == ["a"]


async def test_a_pod_with_a_port_that_an_owner_has_goes_elsewhere(cluster):
    ports = (54321, 54322)
    await create_each(cluster, node(), held(cpu="2", ports=ports, allocate_once=False))
    await create_each(cluster, node("n2"), owner("a", cpu="1", ports=ports[:1]))
    await create_each(cluster, owner("b", cpu="1", ports=ports))
    assert await cluster.node_of("a") == "n1" and await cluster.node_of("b") == "n2"
    assert (await status(cluster))[2] == ["a"]
