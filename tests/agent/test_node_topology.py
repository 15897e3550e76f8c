"""NodeResourceTopology and Device of simulated nodes."""

import json
from dataclasses import replace

import pytest

from holdfast.api.koordinator_names import CPU_MANAGER_POLICY, CPU_TOPOLOGY
from holdfast.api.scheme import NODE_RESOURCE_TOPOLOGIES, NODES, SHARED_DEVICES
from holdfast.client.client import Client
from holdfast.node.agent.node_topology import devices_of, topology_of
from holdfast.node.agent.simulated_nodes import SimulatedNodes
from holdfast.runtime.errors import NotFound
from holdfast.runtime.settings import NodeShape
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.user import SIMULATED_NODES
from holdfast.testing import a_node

SHAPE = NodeShape(cpu="16", memory="64Gi", numa=2, koordinator_gpus=4)
NODE = "node-0001"
KINDS = (NODE_RESOURCE_TOPOLOGIES, SHARED_DEVICES)


def test_cpus_of_a_core_are_neighbours_and_a_numa_node_has_a_socket():
    topology = topology_of(SHAPE)
    annotations = topology["metadata"]["annotations"]
    detail = json.loads(annotations[CPU_TOPOLOGY])["detail"]
    assert [tuple(cpu.values()) for cpu in detail] == [
        (cpu, cpu // 2, cpu // 8, cpu // 8) for cpu in range(16)
    ]
    assert json.loads(annotations[CPU_MANAGER_POLICY]) == {"policy": "none"}
    assert [zone["name"] for zone in topology["zones"]] == ["node-0", "node-1"]
    assert [(r["name"], r["allocatable"]) for r in topology["zones"][1]["resources"]] == [
        ("cpu", "8"),
        ("memory", "32Gi"),
    ]


@pytest.mark.parametrize(
    ("gpus", "numa", "places"),
    [
        (4, 2, [(0, 0), (0, 0), (1, 1), (1, 1)]),
        (3, 0, [(0, 0), (0, 0), (0, 1)]),
        (5, 2, [(0, 0), (0, 0), (1, 1), (1, 1), (1, 2)]),
        (1, 4, [(3, 0)]),
    ],
)
def test_gpus_are_divided_among_numa_nodes_and_two_share_a_switch(gpus, numa, places):
    shape = NodeShape(numa=numa, koordinator_gpus=gpus)
    devices = devices_of("n", shape)["spec"]["devices"]
    assert [device["minor"] for device in devices] == list(range(gpus))
    assert [
        (device["topology"]["nodeID"], int(device["topology"]["pcieID"][-2:])) for device in devices
    ] == places
    assert len({device["id"] for device in devices}) == gpus
    assert len({device["topology"]["busID"] for device in devices}) == gpus
    assert devices_of("n", shape)["spec"]["devices"] == devices
    assert devices_of("m", shape)["spec"]["devices"][0]["id"] != devices[0]["id"]


async def stored(cluster):
    return [await cluster.client.get(kind, NODE) for kind in KINDS]


async def test_both_objects_are_published_kept_and_deleted_with_the_node(cluster):
    their_client = Client(InProcessTransport(cluster.server, SIMULATED_NODES))
    nodes = SimulatedNodes(their_client, cluster.clock)
    await nodes.register(1, SHAPE)
    node = await cluster.get(NODES, NODE)
    first = await stored(cluster)
    assert [{o.uid for o in obj.metadata.owner_references} for obj in first] == [{node.uid}] * 2
    assert first[0].metadata.labels["app.kubernetes.io/managed-by"] == "Koordinator"
    assert len(first[1].spec.devices) == 4

    # What a user changed is kept, by a restart with the same shape or another one.
    note = {"metadata": {"annotations": {"changed": "true"}}}
    edited = [await cluster.client.patch(kind, NODE, note) for kind in KINDS]
    for shape in (SHAPE, replace(SHAPE, numa=1, koordinator_gpus=8), NodeShape()):
        await nodes.register(1, shape)
        assert await stored(cluster) == edited

    await cluster.client.delete(NODES, NODE)
    await cluster.clock.advance(5)
    for kind in KINDS:
        with pytest.raises(NotFound):
            await cluster.client.get(kind, NODE)


async def test_objects_of_a_former_node_are_replaced_and_those_of_others_are_kept(cluster, caplog):
    gone = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "gone"}
    of_koordlet = {"metadata": {"name": NODE}, **parts(topology_of(SHAPE))}
    former = {"metadata": {"name": NODE}, **parts(devices_of(NODE, SHAPE))}
    former["metadata"] |= {"labels": {"holdfast.dev/agent": "simulated"}, "ownerReferences": [gone]}
    theirs = await cluster.client.create(NODE_RESOURCE_TOPOLOGIES, of_koordlet)
    before = await cluster.client.create(SHARED_DEVICES, former)
    await cluster.simulated_nodes.register(1, SHAPE)
    await cluster.clock.advance(5)
    topology, device = await stored(cluster)
    node = await cluster.get(NODES, NODE)
    assert topology == theirs
    assert device.uid != before.uid
    assert device.metadata.owner_references[0].uid == node.uid


async def test_no_topology_is_published_that_does_not_fit_an_existing_node(cluster, caplog):
    await cluster.create(a_node(NODE, cpu="4"))
    await cluster.simulated_nodes.register(1, SHAPE)
    with pytest.raises(NotFound):
        await cluster.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)
    assert (await cluster.client.get(SHARED_DEVICES, NODE)).spec.devices
    assert f"node {NODE} keeps cpu=4," in caplog.text


def parts(raw):
    return {key: value for key, value in raw.items() if key != "metadata"}
