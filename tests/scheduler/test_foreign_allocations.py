"""The scheduler empties the allocations that a pod was created with, whatever plugins it runs."""

import json

import pytest

from device_share.objects import a_device_object, a_gpu_node, a_gpu_pod, devices_of
from holdfast.api.allocation_keys import ALLOCATION_ANNOTATIONS, FOREIGN_ALLOCATIONS
from holdfast.api.koordinator_names import DEVICE_ALLOCATED, RESOURCE_STATUS
from holdfast.testing import a_node, a_pod
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from numa.reserving import cpuset

ALL_CPUS = {RESOURCE_STATUS: '{"cpuset":"0-15"}'}


def gpus(*minors):
    """Return the annotation of a pod that has these GPUs."""
    whole = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    listed = [{"minor": minor, "resources": whole} for minor in minors]
    return {DEVICE_ALLOCATED: json.dumps({"gpu": listed})}


async def test_every_key_of_a_plain_pod_is_emptied(tmp_path):
    async with Harness(tmp_path) as cluster:
        notes = dict.fromkeys(ALLOCATION_ANNOTATIONS, "{}")
        await cluster.create(a_node("n"), a_pod("p", annotations={**notes, "mine": "1"}))
        found = (await cluster.pod("p")).metadata.annotations
        assert found == {**dict.fromkeys(ALLOCATION_ANNOTATIONS, ""), "mine": "1"}
        assert FOREIGN_ALLOCATIONS not in found


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pod_that_asks_for_no_gpu_holds_none(tmp_path, restarted):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_gpu_node(), a_device_object())
        await cluster.create(a_pod("thief", cpu="1m", annotations=gpus(0, 1, 2, 3)))
        assert (await cluster.pod("thief")).spec.node_name
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_gpu_pod("p", 100))
        assert await devices_of(cluster, "p") == [("gpu", 0, 100)]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_pod_that_asks_for_no_cpus_holds_none(tmp_path, restarted):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_topology("n"), a_node("n", cpu="16"))
        await cluster.create(a_pod("thief", cpu="1m", annotations=ALL_CPUS))
        assert (await cluster.pod("thief")).spec.node_name
        if restarted:
            await cluster.restart_components()
        await cluster.create(a_bound_pod("p", "4"))
        assert await cpuset(cluster, "p") == "0-3"
