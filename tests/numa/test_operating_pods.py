"""CPUs and devices of a pod that acts as a reservation are those of its owner."""

import json

import pytest

from device_share.objects import a_device_object, a_gpu_node, a_gpu_pod, devices_of
from holdfast.api import koordinator_names as names
from holdfast.api.scheme import PODS
from holdfast.testing import a_node
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology

ACTS = {
    "labels": {names.OPERATING_MODE: "Reservation"},
    "annotations": {
        names.RESERVATION_OWNERS: json.dumps([{"labelSelector": {"matchLabels": {"app": "web"}}}])
    },
}
OWNER = {"labels": {"app": "web"}}


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path) as harness:
        yield harness


async def cpuset(cluster, pod):
    found = await cluster.pod(pod)
    assert found.spec.node_name, await cluster.why(pod)
    return json.loads(found.metadata.annotations[names.RESOURCE_STATUS])["cpuset"]


async def test_an_owner_gets_the_CPUs_of_the_pod_that_acts_as_its_reservation(cluster):
    await cluster.create(a_topology("n"), a_node("n", cpu="16", memory="32Gi"))
    await cluster.create(a_bound_pod("acting", "4", **ACTS))
    await cluster.create(a_bound_pod("used", "12"))
    taken = await cpuset(cluster, "acting")
    await cluster.create(a_bound_pod("other", "1"))
    assert await cluster.node_of("other") == ""
    await cluster.create(a_bound_pod("owner", "4", **OWNER))
    assert await cpuset(cluster, "owner") == taken
    await cluster.restart()
    await cluster.create(a_bound_pod("late", "1", **OWNER))
    assert await cluster.node_of("late") == ""
    await cluster.delete(PODS, "acting", "default")
    await cluster.advance(400)
    assert await cluster.node_of("late") == "", "the CPUs are the owner's now"


async def test_an_owner_gets_the_GPU_of_the_pod_that_acts_as_its_reservation(cluster):
    await cluster.create(a_device_object("n"), a_gpu_node("n"))
    await cluster.create(a_gpu_pod("acting", 100, **ACTS))
    await cluster.create(a_gpu_pod("used", 100))
    taken = await devices_of(cluster, "acting")
    await cluster.create(a_gpu_pod("other", 50), a_gpu_pod("owner", 100, **OWNER))
    assert await cluster.node_of("other") == ""
    assert await devices_of(cluster, "owner") == taken
    await cluster.restart()
    await cluster.create(a_gpu_pod("late", 50, **OWNER))
    assert await cluster.node_of("late") == ""
