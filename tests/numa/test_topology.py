"""What a NodeResourceTopology says, and what happens to the parts of it that are wrong."""

import json

import pytest

from holdfast.api import koordinator_names as names
from holdfast.api.meta import ObjectMeta
from holdfast.api.node_resource_topology import NodeResourceTopology, Zone, ZoneResource
from holdfast.state.numa.cpu_set import format_cpu_list
from holdfast.state.numa.node_policies import read_node
from holdfast.state.numa.topology import NO_TOPOLOGY, NodeTopology, read_topology

T16 = [{"id": i, "core": i // 2 % 4, "socket": i // 8, "node": i // 8} for i in range(16)]


def a_topology(annotations=(), zones=("node-0", "node-1"), policies=(), cpus=T16):
    found = {names.CPU_TOPOLOGY: json.dumps({"detail": cpus}), **dict(annotations)}
    resources = (
        ZoneResource(name="cpu", capacity="8", allocatable="8", available="8"),
        ZoneResource(name="memory", allocatable="16Gi"),
    )
    return NodeResourceTopology(
        metadata=ObjectMeta(name="n", annotations=found),
        topology_policies=tuple(policies),
        zones=tuple(Zone(name=name, type="Node", resources=resources) for name in zones),
    )


def test_cpus_by_core_numa_node_and_socket():
    found = read_topology(a_topology())
    cpu = found.cpu
    assert cpu.valid
    assert [format_cpu_list(core) for core in cpu.cores][:5] == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    assert {node: format_cpu_list(mask) for node, mask in cpu.nodes.items()} == {
        0: "0-7",
        1: "8-15",
    }
    assert (cpu.cpus_per_core, cpu.places[4]) == (2, (1, 1))
    assert found.zones == ((0, (("cpu", 8000), ("memory", 2**34))), (1, found.zones[1].amounts))
    assert read_topology(a_topology()).cpu is cpu, "equal topologies share their tables"
    assert read_topology(a_topology()) == found
    assert found.faults == ()


def test_unavailable_cpus_lower_their_zone():
    found = read_topology(
        a_topology(
            {
                names.CPU_MANAGER_POLICY: '{"policy":"static","reservedCPUs":"0-1"}',
                names.NODE_RESERVATION: '{"reservedCPUs":"1-2","applyPolicy":"ReservedCPUsOnly"}',
                names.SYSTEM_QOS_RESOURCE: '{"cpuset":"8"}',
                names.POD_CPU_ALLOCS: '[{"uid":"a","cpuset":"4","managedByKubelet":true},'
                '{"uid":"b","cpuset":"5"},{"cpuset":"6","managedByKubelet":true}]',
            }
        )
    )
    assert format_cpu_list(found.unavailable) == "0-2,4,8"
    assert [dict(zone.amounts)["cpu"] for zone in found.zones] == [4000, 7000]
    shared = a_topology({names.SYSTEM_QOS_RESOURCE: '{"cpuset":"8","cpusetExclusive":false}'})
    assert read_topology(shared).unavailable == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (names.CPU_MANAGER_POLICY, "{"),
        (names.CPU_MANAGER_POLICY, '{"reservedCPUs":"0-4000000000"}'),
        (names.NODE_RESERVATION, '{"reservedCPUs":7}'),
        (names.SYSTEM_QOS_RESOURCE, "[" * 100_000),
        (names.POD_CPU_ALLOCS, '{"uid":"a"}'),
        (names.AMPLIFICATION_RATIO, '{"cpu":"much"}'),
        (names.CPU_TOPOLOGY, '{"detail":[{"id":-1}]}'),
        (names.CPU_TOPOLOGY, '{"detail":[{"id":99999999999999999999}]}'),
        (names.CPU_TOPOLOGY, '{"detail":[{"id":1,"node":64}]}'),
        (names.CPU_TOPOLOGY, '{"detail":"all"}'),
        (names.CPU_TOPOLOGY, ""),
    ],
)
def test_a_bad_annotation_counts_as_absent_and_is_named(name, text):
    found = read_topology(a_topology({name: text}))
    assert len(found.faults) == 1
    assert name in found.faults[0]
    assert found.cpu.valid == (name != names.CPU_TOPOLOGY)
    assert found.unavailable == 0


def test_zones_that_are_no_numa_nodes_do_not_count():
    zones = ("node-1", "node-0", "socket-0", "node-x", "node-", "xnode-2", "node-99999999999")
    found = read_topology(a_topology(zones=zones))
    assert [zone.node for zone in found.zones] == [0, 1]
    assert len(found.faults) == 1
    bad = NodeResourceTopology(
        zones=(
            Zone(
                name="node-0", type="Node", resources=(ZoneResource(name="cpu", allocatable="x"),)
            ),
        )
    )
    assert read_topology(bad).zones == ((0, ()),)


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (["None"], ""),
        (["BestEffort"], "BestEffort"),
        (["None", "Restricted"], "Restricted"),
        (["SingleNUMANodePodLevel"], "SingleNUMANode"),
        (["SingleNUMANodeContainerLevel"], "SingleNUMANode"),
        (["unknown"], ""),
    ],
)
def test_topology_policies(policies, expected):
    assert read_topology(a_topology(policies=policies)).policy == expected


def test_labels_of_the_node_decide_before_its_topology():
    topology = NodeTopology(policy="Restricted", full_pcpus_only=True)
    assert read_node({}, {}, topology).numa == "Restricted"
    assert read_node({}, {}, topology).bind == "FullPCPUs"
    labels = {
        names.NUMA_TOPOLOGY_POLICY: "BestEffort",
        names.CPU_BIND_POLICY: "SpreadByPCPUs",
        names.NUMA_ALLOCATE_STRATEGY: "MostAllocated",
    }
    assert read_node(labels, {}, NO_TOPOLOGY) == read_node(labels, {"other": "x"}, NO_TOPOLOGY)
    found = read_node(labels, {}, topology)
    assert (found.numa, found.bind, found.strategy) == ("BestEffort", "FullPCPUs", "MostAllocated")
    assert read_node(labels, {}, NO_TOPOLOGY).bind == "SpreadByPCPUs"
    unknown = dict.fromkeys(labels, "unknown")
    assert read_node(unknown, {}, NO_TOPOLOGY) == read_node({}, {}, NO_TOPOLOGY)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [('{"cpu":1.5}', 1.5), ('{"memory":2}', 1.0), ('{"cpu":0.5}', 1.0), ("{", None), ("{}", 1.0)],
)
def test_the_amplification_ratio(text, ratio):
    found = read_node({}, {names.AMPLIFICATION_RATIO: text}, NO_TOPOLOGY)
    assert found.ratio == ratio
    assert not found.zones_amplified
    own = read_topology(a_topology({names.AMPLIFICATION_RATIO: '{"cpu":3}'}))
    found = read_node({}, {names.AMPLIFICATION_RATIO: text}, own)
    assert (found.ratio, found.zones_amplified) == (3.0, True), "the topology's own ratio wins"
