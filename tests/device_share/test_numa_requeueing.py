"""Pods that NodeNUMAResource rejected, and pods that are deleted before or after they are bound."""

import pytest

from device_share.objects import a_gpu_pod, with_two_numa_nodes
from holdfast.api.koordinator_names import NUMA_TOPOLOGY_SPEC
from holdfast.api.scheme import PODS
from holdfast.testing import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod

ONE_NUMA_NODE = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}'}
WHEN = pytest.mark.parametrize("when", ["is bound", "is being bound"])


@pytest.fixture
async def cluster(tmp_path, when):
    """A cluster in which the binding of the pod "first" may take a while."""
    slow = Fault("delay", method="POST", path="/first/binding", seconds=20)
    faults = [slow] if when == "is being bound" else []

    def wrap(transport, clock):
        return FaultyTransport(transport, faults, clock=clock)

    async with Harness(tmp_path, wrap=wrap) as harness:
        yield harness


async def expect_room_after_the_first(cluster, pod):
    await cluster.create(pod)
    assert await cluster.node_of("p") == ""
    await cluster.delete(PODS, "first", "default")
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n"


@WHEN
async def test_gpus_of_one_numa_node_are_free_when_their_pod_is_deleted(cluster, when):
    await with_two_numa_nodes(cluster, labels={}, places=(0, 0, 1))
    await cluster.create(a_gpu_pod("first", 100, cpu="100m"))
    pod = a_gpu_pod("p", 200, cpu="1", annotations=ONE_NUMA_NODE)
    await expect_room_after_the_first(cluster, pod)


@WHEN
async def test_cpus_are_free_when_their_pod_is_deleted(cluster, when):
    await with_two_numa_nodes(cluster, labels={})
    await cluster.create(a_bound_pod("first", "8"), a_bound_pod("second", "8"))
    await expect_room_after_the_first(cluster, a_bound_pod("p", "4"))
