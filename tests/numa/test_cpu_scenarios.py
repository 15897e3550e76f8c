"""Scenarios of CPUs and NUMA nodes, through the API of a whole cluster."""

import json

from holdfast.api import koordinator_names as names
from holdfast.api.scheme import NODES, PODS
from holdfast.testing import a_node
from holdfast.testing.numa_builders import a_bound_pod, a_topology

REQUIRED, PREFERRED = "requiredCPUBindPolicy", "preferredCPUBindPolicy"
FULL, SPREAD = "FullPCPUs", "SpreadByPCPUs"
EXCLUSIVE = "preferredCPUExclusivePolicy"
INTEGER = "the requested CPUs must be integer"


async def add_node(cluster, name, *, labels=None, annotations=None, cpu="16", **topology):
    """Add a node of 16 CPUs with a topology; only pods that name it may use it."""
    taints = [{"key": "only", "value": name, "effect": "NoSchedule"}]
    node = a_node(
        name, cpu=cpu, labels=labels, taints=taints, memory="32Gi", annotations=annotations
    )
    await cluster.create(a_topology(name, **topology), node)


def on(node, name, cpu, **more):
    """A pod that may use only that node."""
    tolerations = [{"key": "only", "operator": "Equal", "value": node}]
    selector = {"kubernetes.io/hostname": node}
    return a_bound_pod(
        f"{node}-{name}", cpu, tolerations=tolerations, node_selector=selector, **more
    )


async def status(cluster, pod):
    found = await cluster.pod(pod)
    assert found.spec.node_name, await cluster.why(pod)
    return json.loads(found.metadata.annotations.get(names.RESOURCE_STATUS) or "{}")


async def cpuset(cluster, pod):
    return (await status(cluster, pod)).get("cpuset", "")


async def place(cluster, node, name, cpu, **more):
    """Create a pod on a node and return its CPUs."""
    await cluster.create(on(node, name, cpu, **more))
    return await cpuset(cluster, f"{node}-{name}")


async def refused(cluster, node, name, cpu, **more):
    """Create a pod on a node and return why it is not scheduled."""
    await cluster.create(on(node, name, cpu, **more))
    assert not await cluster.node_of(f"{node}-{name}")
    return await cluster.why(f"{node}-{name}")


async def spec_of(cluster, pod):
    return json.loads((await cluster.pod(pod)).metadata.annotations[names.RESOURCE_SPEC])


async def test_N001_an_LSR_pod_gets_whole_cores_and_the_policy_is_written(cluster):
    await add_node(cluster, "a")
    kept = {"unknown": {"survives": 1}}
    assert await place(cluster, "a", "p", "4", spec=kept) == "0-3"
    assert await spec_of(cluster, "a-p") == {**kept, PREFERRED: FULL}
    assert await status(cluster, "a-p") == {"cpuset": "0-3"}


async def test_N002_the_next_pod_gets_the_other_NUMA_node_unless_the_strategy_packs(cluster):
    await add_node(cluster, "a")
    await add_node(cluster, "b", labels={names.NUMA_ALLOCATE_STRATEGY: "MostAllocated"})
    assert [await place(cluster, "a", f"p{i}", "4") for i in range(2)] == ["0-3", "8-11"]
    assert [await place(cluster, "b", f"p{i}", "4") for i in range(2)] == ["0-3", "4-7"]


async def test_N003_a_pod_fills_a_NUMA_node_or_more(cluster):
    await add_node(cluster, "a")
    await add_node(cluster, "b")
    assert await place(cluster, "a", "p", "8") == "0-7"
    assert await place(cluster, "b", "p", "10") == "0-9"


async def test_N004_SpreadByPCPUs_takes_one_CPU_of_each_core_first(cluster):
    for cpus, chosen in ((4, "0,2,4,6"), (5, "0-2,4,6"), (10, "0-4,6,8,10,12,14")):
        await add_node(cluster, f"n{cpus}")
        assert await place(cluster, f"n{cpus}", "p", cpus, spec={PREFERRED: SPREAD}) == chosen


async def test_N005_a_required_FullPCPUs_needs_whole_cores(cluster):
    await add_node(cluster, "a")
    assert await place(cluster, "a", "p", "3", spec={PREFERRED: FULL}) == "0-2"
    why = await refused(cluster, "a", "q", "3", spec={REQUIRED: FULL})
    assert "1 node(s) requested cpus not multiple cpus per core" in why


async def test_N006_cores_that_are_partly_used_serve_preferred_policies_only(cluster):
    await add_node(cluster, "a")
    assert await place(cluster, "a", "held", "4", spec={PREFERRED: SPREAD}) == "0,2,4,6"
    why = await refused(cluster, "a", "q", "10", spec={REQUIRED: FULL})
    assert "1 not enough cpus available to satisfy request" in why
    await cluster.delete(PODS, "a-q", "default")
    assert await place(cluster, "a", "p", "10") == "1,3,8-15"


async def test_N007_a_required_SpreadByPCPUs_needs_a_core_for_each_CPU(cluster):
    await add_node(cluster, "a")
    why = await refused(cluster, "a", "q", "9", spec={REQUIRED: SPREAD})
    assert "1 not enough cpus available to satisfy request" in why
    found = await place(cluster, "a", "p", "8", spec={REQUIRED: SPREAD})
    assert found == "0,2,4,6,8,10,12,14"


async def test_N008_CPUs_of_the_kubelet_are_unusable(cluster):
    reserved = {names.CPU_MANAGER_POLICY: {"policy": "none", "reservedCPUs": "0-1"}}
    await add_node(cluster, "a", annotations=None)
    for name in ("b", "c"):
        await cluster.create(a_topology(name, annotations=reserved), settle=False)
    taints = [{"key": "only", "value": "b", "effect": "NoSchedule"}]
    await cluster.create(a_node("b", cpu="16", taints=taints))
    assert await place(cluster, "b", "p", "4") == "8-11"
    await cluster.create(a_node("c", cpu="16"))
    assert await place(cluster, "c", "p", "8") == "8-15"
    held = [{"uid": "x", "cpuset": "2-3", "managedByKubelet": True}]
    both = {**reserved, names.POD_CPU_ALLOCS: held}
    await cluster.create(a_topology("d", annotations=both), a_node("d", cpu="16"))
    assert await place(cluster, "d", "p", "12") == "4-15"


async def test_N009_a_node_may_bind_every_pod(cluster):
    await add_node(cluster, "a", labels={names.CPU_BIND_POLICY: "FullPCPUsOnly"})
    assert await place(cluster, "a", "p", "2", qos="LS") == "0-1"
    assert await spec_of(cluster, "a-p") == {REQUIRED: FULL}
    assert f"1 {INTEGER}" in await refused(cluster, "a", "q", "1500m", qos="LS")
    why = await refused(cluster, "a", "r", "2", spec={REQUIRED: SPREAD})
    assert "cpu bind policy conflicts with pod's required cpu bind policy" in why


async def test_N010_without_a_topology_only_unbound_pods_are_placed(cluster):
    await cluster.create(a_node("a", cpu="16"))
    assert "1 node(s) invalid CPU Topology" in await refused(cluster, "a", "p", "4")
    assert await place(cluster, "a", "q", "4", qos="LS") == ""
    annotations = (await cluster.pod("a-q")).metadata.annotations
    assert not annotations.keys() & {names.RESOURCE_STATUS, names.RESOURCE_SPEC}
    await cluster.create(a_topology("a"))
    await cluster.advance(30)
    assert await cpuset(cluster, "a-p") == "0-3", "the topology requeues the pod"


async def test_N011_only_LSE_and_LSR_pods_of_class_prod_are_bound(cluster):
    await add_node(cluster, "a")
    assert INTEGER in await refused(cluster, "a", "q", "2500m")
    assert await place(cluster, "a", "p", "2", labels={names.PRIORITY_CLASS: "koord-batch"}) == ""
    assert await place(cluster, "a", "r", "2", qos="LS", spec={PREFERRED: FULL}) == ""
    assert await place(cluster, "a", "s", "2", qos="LSE") == "0-1"


async def test_N012_PCPULevel_avoids_cores_of_pods_with_the_same_policy(cluster):
    most = {names.NUMA_ALLOCATE_STRATEGY: "MostAllocated"}
    alone = {PREFERRED: SPREAD, EXCLUSIVE: "PCPULevel"}
    for name, spec, chosen in (("a", alone, "4,6"), ("b", {PREFERRED: SPREAD}, "1,3")):
        await add_node(cluster, name, labels=most)
        assert await place(cluster, name, "held", "2", spec=alone) == "0,2"
        assert await place(cluster, name, "p", "2", spec=spec) == chosen


async def test_N013_NUMANodeLevel_avoids_NUMA_nodes_of_pods_with_the_same_policy(cluster):
    alone = {EXCLUSIVE: "NUMANodeLevel"}
    await add_node(cluster, "a", labels={names.NUMA_ALLOCATE_STRATEGY: "MostAllocated"})
    assert await place(cluster, "a", "held", "4", spec=alone) == "0-3"
    assert await place(cluster, "a", "p", "4", spec=alone) == "8-11"
    assert await place(cluster, "a", "q", "4", spec=alone) == "4-7", "both are used now"


async def test_N014_bound_CPUs_cost_more_where_cpu_is_amplified(cluster):
    ratio = {names.AMPLIFICATION_RATIO: '{"cpu": 1.50}'}
    await add_node(cluster, "a", cpu="24", annotations=None)
    await cluster.client.patch(NODES, "a", {"metadata": {"annotations": ratio}})
    await cluster.settle()
    assert await place(cluster, "a", "p", "8") == "0-7"
    assert "1 Insufficient amplified cpu" in await refused(cluster, "a", "q", "13", qos="LS")
    await cluster.delete(PODS, "a-q", "default")
    assert await place(cluster, "a", "r", "12", qos="LS") == ""


async def test_N015_SingleNUMANode_places_pods_on_one_NUMA_node(cluster):
    single = {names.NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}
    await add_node(cluster, "a", labels=single)
    for node in (0, 1):
        await place(cluster, "a", f"p{node}", "6", qos="LS", memory="8Gi")
        found = await status(cluster, f"a-p{node}")
        parts = [{"node": node, "resources": {"cpu": "6", "memory": "8Gi"}}]
        assert found == {"numaNodeResources": parts}
    assert "Unaligned NUMA Hint cause" in await refused(cluster, "a", "q", "3", qos="LS")
    await add_node(cluster, "b", labels=single)
    assert await place(cluster, "b", "p", "6") == "0-5"
    assert [part["node"] for part in (await status(cluster, "b-p"))["numaNodeResources"]] == [0]


async def test_N016_Restricted_and_BestEffort_divide_a_pod_over_NUMA_nodes(cluster):
    await add_node(cluster, "a", labels={names.NUMA_TOPOLOGY_POLICY: "Restricted"})
    await place(cluster, "a", "p", "10", qos="LS", memory="16Gi")
    assert (await status(cluster, "a-p"))["numaNodeResources"] == [
        {"node": node, "resources": {"cpu": "5", "memory": "8Gi"}} for node in (0, 1)
    ]
    notes = {names.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}
    why = await refused(cluster, "a", "q", "1", qos="LS", annotations=notes)
    assert "1 node(s) NUMA Topology policy not match" in why
    await add_node(cluster, "b", labels={names.NUMA_TOPOLOGY_POLICY: "BestEffort"})
    await place(cluster, "b", "p", "12", qos="LS")
    parts = (await status(cluster, "b-p"))["numaNodeResources"]
    assert [part["resources"]["cpu"] for part in parts] == ["6", "6"]
