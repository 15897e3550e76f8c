"""The cache dump that SIGUSR2 logs, and its comparison with the API."""

import pytest

from holdfast.scheduling.scheduler.dump import dump
from holdfast.testing import a_node, a_pod, typed
from holdfast.testing.harness import Harness


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path) as made:
        yield made


def lines(cluster):
    return dump(cluster.components.scheduler).splitlines()


async def test_the_dump_lists_nodes_pods_and_the_queue(cluster):
    await cluster.create(a_node("n", cpu="8"), a_pod("p", cpu="2"), a_pod("large", cpu="9"))
    await cluster.create(a_pod("gated", scheduling_gates=[{"name": "g"}]))
    text = lines(cluster)
    uid = (await cluster.pod("p")).uid
    assert text[:2] == [
        "Nodes: missed [], redundant []", "Pods: missed [], redundant [], assumed 0",
    ]  # fmt: skip
    assert "Node n: requested/allocatable cpu 2000/8000, memory 0/34359738368, pods 1/110" in text
    assert f"  default/p uid {uid} priority 0" in text
    at = text.index("activeQ:0; backoffQ:0; unschedulablePods:2")
    assert text[at + 1 :] == ["  gated default/gated", "  unschedulable default/large"]


async def test_the_dump_lists_differences_from_the_api(cluster):
    here = {"kubernetes.io/hostname": "n"}
    await cluster.create(a_node("n"), a_node("m"), a_pod("p", node_selector=here))
    world = cluster.world.fork()
    world.delete(await cluster.pod("p"))
    world.upsert(typed(a_pod("ghost", node="n")))
    world.upsert(typed(a_node("phantom")))
    world.nodes.delete_node("m")
    scheduler = cluster.components.scheduler
    true, scheduler.world = scheduler.world, world
    try:
        found = lines(cluster)[:2]
    finally:
        scheduler.world = true
    assert found == [
        "Nodes: missed ['m'], redundant ['phantom']",
        "Pods: missed ['default/p'], redundant ['default/ghost'], assumed 0",
    ]


async def test_a_pod_of_an_unknown_node_is_not_listed_as_missed(cluster):
    await cluster.create(a_pod("p", node="unknown"))
    assert lines(cluster)[1] == "Pods: missed [], redundant [], assumed 0"
