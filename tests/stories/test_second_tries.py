"""Which events requeue a rejected pod."""

import pytest

from holdfast.api.scheme import NODES, PODS
from holdfast.testing import a_namespace, a_node, a_pod
from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store") as harness:
        yield harness


def attempts(cluster, result="unschedulable"):
    of = {"result": result, "profile": "default-scheduler"}
    return cluster.metric("schedule_attempts_total", **of)


async def patch_node(cluster, body, subresource=""):
    await cluster.client.patch(NODES, "n", body, subresource=subresource)
    await cluster.advance(2)


async def test_S015_a_pod_rejected_for_cpu_is_requeued_only_for_enough_cpu(cluster):
    await cluster.create(a_node("n", cpu="2"), a_pod("p", cpu="3"))
    assert attempts(cluster) == 1
    await patch_node(cluster, {"metadata": {"labels": {"a": "b"}}})
    await patch_node(cluster, {"status": {"allocatable": {"cpu": "2500m"}}}, "status")
    assert attempts(cluster) == 1
    await patch_node(cluster, {"status": {"allocatable": {"cpu": "4"}}}, "status")
    assert await cluster.node_of("p") == "n"


async def test_S018_a_pod_rejected_for_a_taint_is_requeued_when_the_taint_is_removed(cluster):
    taint, other = ({"key": key, "effect": "NoSchedule"} for key in "ab")
    await cluster.create(a_node("n", taints=[taint]), a_pod("p"))
    await patch_node(cluster, {"spec": {"taints": [taint, other]}})
    assert attempts(cluster) == 1
    await patch_node(cluster, {"spec": {"taints": [other]}})
    assert attempts(cluster) == 1
    await patch_node(cluster, {"spec": {"taints": None}})
    assert await cluster.node_of("p") == "n"


async def test_S019_without_nodes_a_pod_is_retried_after_backoff(cluster):
    await cluster.create(a_pod("p"))
    (condition,) = (await cluster.pod("p")).status.conditions
    assert (condition.reason, condition.message) == (
        "Unschedulable",
        "no nodes available to schedule pods",
    )
    before = attempts(cluster)
    await cluster.advance(3)
    assert attempts(cluster) == before + 1


async def test_S038_any_pod_deleted_from_a_full_node_requeues_pods(cluster):
    await cluster.create(a_namespace("elsewhere"), a_node("n", pods="110"))
    standing = [a_pod(f"s{i}", cpu=None, namespace="elsewhere", node="n") for i in range(110)]
    await cluster.create(*standing, a_pod("p", cpu=None))
    assert (await cluster.why("p")).startswith("0/1 nodes are available: 1 Too many pods. ")
    await cluster.client.delete(PODS, "s7", "elsewhere", grace_seconds=0)
    await cluster.advance(2)
    assert await cluster.node_of("p") == "n"
