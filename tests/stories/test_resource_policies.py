"""Resource policies in a running cluster: ordered pools with limits (KEP-594)."""

import pytest

from holdfast.testing import a_namespace, a_node, a_pod, a_resource_policy, a_unit


@pytest.fixture
async def pools(cluster):
    nodes = [
        a_node("a1", labels={"tier": "od"}), a_node("a2", labels={"tier": "od"}),
        a_node("b1", labels={"tier": "spot"}), a_node("b2", labels={"tier": "spot"}),
        a_node("c1"),
    ]  # fmt: skip
    policy = a_resource_policy(
        "p", namespace="web", pods={"app": "web"}, strategy="prefer",
        match_policy={"ignoreTerminatingPod": True},
        units=[
            a_unit("od", 5, nodes={"tier": "od"}, max_count=2),
            a_unit("spot", 4, nodes={"tier": "spot"}, max_count=3),
        ],
    )  # fmt: skip
    await cluster.create(a_namespace("web"), *nodes, policy)
    return cluster


async def place(cluster, count):
    for i in range(count):
        await cluster.create(a_pod(f"w{i}", namespace="web", labels={"app": "web"}))
    return [(await cluster.node_of(f"w{i}", "web"))[:1] for i in range(count)]


async def test_P001_the_first_pod_is_placed_in_the_first_pool(pools):
    assert await place(pools, 1) == ["a"]


async def test_P002_the_second_pod_fills_the_first_pool(pools):
    assert await place(pools, 2) == ["a", "a"]


async def test_P003_the_third_pod_is_placed_in_the_next_pool_with_an_event(pools):
    assert await place(pools, 3) == ["a", "a", "b"]
    notes = [message for reason, message in await pools.events("w2", "web")
             if reason == "ResourcePolicyUnitFull"]  # fmt: skip
    assert notes == ["unit od is full (2/2)"]


async def test_P004_other_pods_are_placed_anywhere_if_all_pools_are_full(pools):
    assert await place(pools, 6) == ["a", "a", "b", "b", "b", "c"]
