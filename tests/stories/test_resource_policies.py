"""Ordered pools with caps: one thread through the promise (KEP-594)."""

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


async def test_P001_the_first_pod_goes_to_the_best_pool(pools):
    assert await place(pools, 1) == ["a"]


async def test_P002_the_second_fills_it(pools):
    assert await place(pools, 2) == ["a", "a"]


async def test_P003_the_third_goes_to_the_next_pool_and_an_event_says_why(pools):
    assert await place(pools, 3) == ["a", "a", "b"]
    notes = [message for reason, message in await pools.events("w2", "web")
             if reason == "ResourcePolicyUnitFull"]  # fmt: skip
    assert notes == ["unit od is full (2/2)"]


async def test_P004_all_pools_full_the_rest_goes_anywhere(pools):
    assert await place(pools, 6) == ["a", "a", "b", "b", "b", "c"]
