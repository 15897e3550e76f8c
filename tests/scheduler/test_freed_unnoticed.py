"""What a pod had is free for others when it goes, whatever was written to the pod before."""

import pytest

from holdfast.api.koordinator_names import QOS_CLASS, RESOURCE_SPEC, RESOURCE_STATUS
from holdfast.api.scheme import PODS
from holdfast.testing import a_node
from holdfast.testing.harness import Harness
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from numa.reserving import cpuset


@pytest.mark.parametrize("ends", ["deleted", "finished"])
async def test_cpus_are_free_although_the_annotation_was_removed(tmp_path, ends):
    async with Harness(tmp_path) as cluster:
        await cluster.create(a_topology("n"), a_node("n", cpu="32"), a_bound_pod("first", "16"))
        assert await cpuset(cluster, "first") == "0-15"
        await cluster.create(a_bound_pod("waiting", "16"))
        assert await cpuset(cluster, "waiting") is None
        meta = {"annotations": {RESOURCE_STATUS: None, RESOURCE_SPEC: None},
                "labels": {QOS_CLASS: None}}  # fmt: skip
        await cluster.client.patch(PODS, "first", {"metadata": meta}, "default")
        await cluster.advance(20)
        if ends == "deleted":
            await cluster.delete(PODS, "first", "default")
        else:
            status = {"status": {"phase": "Succeeded"}}
            await cluster.client.patch(PODS, "first", status, "default", subresource="status")
        await cluster.advance(20)
        assert await cpuset(cluster, "waiting") == "0-15"
