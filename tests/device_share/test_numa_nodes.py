"""CPUs and GPUs of a pod on the same NUMA nodes, through the API."""

from device_share.objects import (
    a_gpu_pod,
    a_gpu_reservation,
    allocated,
    devices_of,
    reserved,
    with_two_numa_nodes,
)
from holdfast.api.koordinator_names import GPU, NUMA_TOPOLOGY_SPEC, QOS_CLASS
from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.plugins.node_numa_resource import NodeNUMAResource
from holdfast.testing import a_pod, a_priority_class, typed
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod
from numa.reserving import cpus_of, cpuset

LSR = {QOS_CLASS: "LSR"}


def both(name, cpu, percent, **more):
    """A pod that asks for CPUs of its own and for part of a GPU, or several."""
    return a_bound_pod(name, cpu, requests={GPU: str(percent)}, **more)


async def test_the_gpu_is_where_the_cpus_are_free(cluster):
    await with_two_numa_nodes(cluster)
    await cluster.create(a_bound_pod("cpus", "6"), both("p", "4", 100))
    assert await cpuset(cluster, "cpus") == "0-5"
    assert await cpuset(cluster, "p") == "8-11"
    assert await devices_of(cluster, "p") == [("gpu", 2, 100)]


async def test_the_cpus_are_where_the_gpu_is_free(cluster):
    await with_two_numa_nodes(cluster)
    await cluster.create(a_gpu_pod("gpus", 200, cpu="100m"), both("p", "4", 60))
    assert await devices_of(cluster, "gpus") == [("gpu", 0, 100), ("gpu", 1, 100)]
    assert await devices_of(cluster, "p") == [("gpu", 2, 60)]
    assert await cpuset(cluster, "p") == "8-11"


async def test_a_pod_that_no_numa_node_serves_waits(cluster):
    await with_two_numa_nodes(cluster)
    await cluster.create(a_gpu_pod("gpus", 200, cpu="100m"))
    await cluster.create(a_bound_pod("a", "6"))
    assert await cpuset(cluster, "a") == "8-13"
    await cluster.create(both("p", "4", 100))
    assert await cluster.node_of("p") == ""
    assert "Unaligned NUMA Hint cause" in await cluster.why("p")
    await cluster.delete(PODS, "gpus", "default")
    await cluster.advance(60)
    assert await cpuset(cluster, "p") == "0-3"
    assert await devices_of(cluster, "p") == [("gpu", 0, 100)]


async def test_the_policy_of_the_pod_counts_too(cluster):
    await with_two_numa_nodes(cluster, labels={})
    await cluster.create(a_bound_pod("cpus", "6"))
    notes = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}
    await cluster.create(both("p", "4", 100, annotations=notes), both("q", "1", 100))
    assert (await cpuset(cluster, "p"), await devices_of(cluster, "p")) == (
        "8-11", [("gpu", 2, 100)],
    )  # fmt: skip
    assert await devices_of(cluster, "q") == [("gpu", 3, 100)]


async def test_nodes_in_different_states_are_told_apart(cluster):
    for name in ("a", "b"):
        await with_two_numa_nodes(cluster, name)
    only_a = {"node_selector": {"kubernetes.io/hostname": "a"}}
    await cluster.create(a_gpu_pod("gpus", 200, cpu="100m", **only_a))
    await cluster.create(a_bound_pod("c0", "6", **only_a), a_bound_pod("c1", "6", **only_a))
    await cluster.create(both("p", "4", 100))
    assert await cluster.node_of("p") == "b"
    assert (await cpuset(cluster, "p"), await devices_of(cluster, "p")) == (
        "0-3", [("gpu", 0, 100)],
    )  # fmt: skip


async def test_a_reservation_holds_cpus_and_a_gpu_of_one_numa_node(cluster):
    await with_two_numa_nodes(cluster)
    await cluster.create(a_bound_pod("cpus", "6"))
    await cluster.create(a_gpu_reservation("r", 100, cpu="4", labels=LSR))
    assert await reserved(cluster, "r") == [("gpu", 2, 100)]
    assert cpus_of(await cluster.reservation("r")) == "8-11"
    await cluster.delete(PODS, "cpus", "default")
    await cluster.create(both("p", "4", 100, labels={"app": "web"}))
    assert await cpuset(cluster, "p") == "8-11"
    assert await devices_of(cluster, "p") == [("gpu", 2, 100)]


async def test_devices_of_unknown_numa_nodes_serve_any(cluster):
    await with_two_numa_nodes(cluster, places=(-1, 0))
    await cluster.create(a_bound_pod("cpus", "6"), both("p", "4", 100), both("q", "2", 100))
    assert (await cpuset(cluster, "p"), await devices_of(cluster, "p")) == (
        "8-11", [("gpu", 0, 100)],
    )  # fmt: skip
    assert (await cpuset(cluster, "q"), await devices_of(cluster, "q")) == (
        "6-7", [("gpu", 1, 100)],
    )  # fmt: skip


async def test_without_alignment_each_chooses_for_itself(tmp_path):
    args = {"disableDeviceNUMATopologyAlignment": True}
    async with Harness(tmp_path, profiles=default_profiles({"DeviceShare": args})) as cluster:
        await with_two_numa_nodes(cluster)
        await cluster.create(a_bound_pod("cpus", "6"), both("p", "4", 100))
        assert await cpuset(cluster, "p") == "8-11"
        assert allocated(await cluster.pod("p")) == [("gpu", 0, 100)]


async def test_preemption_sees_the_numa_nodes_of_victims(cluster):
    await with_two_numa_nodes(cluster)
    await cluster.create(both("a", "6", 200), both("b", "6", 200))
    assert await devices_of(cluster, "b") == [("gpu", 2, 100), ("gpu", 3, 100)]
    await cluster.create(a_priority_class("prod", 9500))
    await cluster.create(both("p", "4", 100, priority_class_name="prod"))
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n"
    mine = (await cpuset(cluster, "p"), await devices_of(cluster, "p"))
    assert mine in (("0-3", [("gpu", 0, 100)]), ("8-11", [("gpu", 2, 100)]))


async def test_the_score_is_that_of_the_numa_node_with_the_gpu(cluster):
    await with_two_numa_nodes(cluster)
    await cluster.create(a_gpu_pod("gpus", 200, cpu="100m"), a_bound_pod("a", "6"))
    assert await cpuset(cluster, "a") == "8-13"
    world, plugin = cluster.world, NodeNUMAResource()

    def score(pod):
        info = world.pod_info(typed(pod))
        plan = plugin.pre_filter(info, View(world, info, 0.0))
        row = world.nodes.row_of["n"]
        return int(plan.score(slice(row, row + 1))[0])

    assert score(a_gpu_pod("p", 50, cpu="2")) < score(a_pod("q", cpu="2"))


async def test_a_pod_of_lower_priority_gives_back_the_gpu_beside_a_free_one(cluster):
    """Two GPUs are free, but not on one NUMA node; no pod holds CPUs or parts of NUMA nodes."""
    await with_two_numa_nodes(cluster, labels={})
    await cluster.create(a_priority_class("low", 10), a_priority_class("high", 1000))
    await cluster.create(a_gpu_pod("low", 100, cpu="100m", priority_class_name="low"))
    for name in ("beside", "other"):
        await cluster.create(a_gpu_pod(name, 100, cpu="100m", priority_class_name="high"))
    assert await devices_of(cluster, "low") == [("gpu", 0, 100)]
    assert await devices_of(cluster, "other") == [("gpu", 2, 100)]
    await cluster.delete(PODS, "beside", "default")
    one_numa_node = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
    pod = a_gpu_pod("p", 200, cpu="1", annotations=one_numa_node, priority_class_name="high")
    await cluster.create(pod)
    await cluster.advance(60)
    assert await devices_of(cluster, "p") == [("gpu", 0, 100), ("gpu", 1, 100)]
