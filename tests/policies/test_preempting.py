"""Preemption for a full unit: only pods of the same group make place in it."""

import pytest

from holdfast.api.scheme import PODS
from policies.objects import (
    WEB,
    classes,
    create_each,
    event_messages,
    node_of,
    od,
    place,
    pod,
    pods_by_letter,
    policy,
    spot,
    why,
)

NOT_HELPFUL = "No preemption victims found for incoming pod"


@pytest.fixture
async def ranked(cluster):
    """Priority classes low and high, and the policy with the strategy required."""
    await cluster.create(*classes(low=1, high=1000), policy(strategy="required"))
    return cluster


def low(name, **more):
    return pod(name, priority_class_name="low", **more)


def high(name="x", **more):
    return pod(name, priority_class_name="high", **more)


async def alive(cluster):
    """Return the names of the pods that are bound and not terminating."""
    pods = (await cluster.client.list(PODS, WEB)).items
    return {p.name for p in pods if p.spec.node_name and not p.terminating}


async def test_P036_a_pod_of_lower_priority_of_the_same_group_is_evicted(ranked):
    await create_each(ranked, *(low(f"od{i}", stops_after=20) for i in range(2)))
    await create_each(ranked, *(high(f"spot{i}") for i in range(3)))
    before = await pods_by_letter(ranked)
    assert before == {"a": 2, "b": 3}
    # A pod outside of the group with lower priority is on the same nodes.
    await create_each(ranked, *(low(f"other-{n}", app="other", node=n) for n in ("a1", "a2")))
    await ranked.create(high())
    victims = {"od0", "od1"} - await alive(ranked)
    assert len(victims) == 1
    victim = await node_of(ranked, victims.pop())
    nominated = (await ranked.pod("x", WEB)).status.nominated_node_name
    # ignoreTerminatingPod: the place is free as soon as the victim is terminating.
    assert victim in (nominated, await node_of(ranked, "x"))
    await ranked.advance(25)
    assert await node_of(ranked, "x") == victim
    assert await pods_by_letter(ranked) == {"a": 4, "b": 3}
    assert {"spot0", "spot1", "spot2", "other-a1", "other-a2", "x"} <= await alive(ranked)


async def test_P036_if_terminating_pods_count_it_waits_for_its_victim(cluster):
    await cluster.create(*classes(low=1, high=1000), policy(strategy="required", match_policy=None))
    await create_each(cluster, *(low(f"od{i}", stops_after=20) for i in range(2)))
    await create_each(cluster, *(high(f"spot{i}") for i in range(3)))
    await cluster.create(high())
    [victim] = {"od0", "od1"} - await alive(cluster)
    where = await node_of(cluster, victim)
    assert (await cluster.pod("x", WEB)).status.nominated_node_name == where
    await cluster.advance(15)
    assert await node_of(cluster, "x") == ""
    await cluster.advance(10)
    assert await node_of(cluster, "x") == where
    assert len(await alive(cluster)) == 5


async def test_P037_pods_of_the_same_priority_are_not_evicted(ranked):
    await create_each(ranked, *(high(f"w{i}") for i in range(5)))
    await ranked.create(high())
    await ranked.advance(60)
    assert await node_of(ranked, "x") == ""
    assert len(await alive(ranked)) == 5
    message = await why(ranked, "x")
    assert "2 unit od is full (2/2), 2 unit spot is full (3/3)" in message
    assert message.endswith(
        "preemption: 0/5 nodes are available: 1 Preemption is not helpful for scheduling, "
        "4 No preemption victims found for incoming pod."
    )


async def test_P037_nor_are_pods_of_lower_priority_that_do_not_count(ranked):
    await create_each(ranked, *(high(f"w{i}") for i in range(5)))
    others = [low(f"other-{n}", app="other", node=n) for n in ("a1", "a2", "b1", "b2")]
    await create_each(ranked, *others)
    await ranked.create(high())
    await ranked.advance(60)
    assert await node_of(ranked, "x") == ""
    assert len(await alive(ranked)) == 9
    message = await why(ranked, "x")
    assert message.endswith(
        "preemption: 0/5 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 unit od is full (2/2), "
        "2 unit spot is full (3/3)."
    )


async def test_only_pods_of_the_same_value_of_a_match_label_key_make_place(cluster):
    rules = policy(strategy="required", match_label_keys=["v"], units=[od(), spot()])
    await cluster.create(*classes(low=1, high=1000), rules)
    await create_each(cluster, *(low(f"other{i}", labels={"v": "1"}) for i in range(5)))
    await create_each(cluster, *(high(f"own{i}", labels={"v": "2"}) for i in range(5)))
    await cluster.create(high(labels={"v": "2"}))
    await cluster.advance(60)
    assert await node_of(cluster, "x") == ""
    assert len(await alive(cluster)) == 10


async def test_pods_of_other_namespaces_and_apps_are_evicted_for_cpu_only(ranked):
    """od has a place and no CPU: pods of any kind with lower priority make room."""
    fillers = [low(f"f-{n}", app="other", cpu="8", node=n) for n in ("a1", "a2", "b1", "b2")]
    await create_each(ranked, *fillers)
    await ranked.create(high())
    await ranked.advance(30)
    assert (await node_of(ranked, "x"))[0] == "a"
    assert len(await alive(ranked)) == 4


async def test_cpu_and_a_place_in_the_unit_are_freed_together(ranked):
    """Both pods of the unit are of low priority, on the nodes that a pod of no group fills."""
    await create_each(ranked, *(low(f"od{i}", cpu="4") for i in range(2)))
    await create_each(ranked, *(low(f"f-{n}", app="other", cpu="4", node=n) for n in ("a1", "a2")))
    await create_each(ranked, *(high(f"spot{i}") for i in range(3)))
    await ranked.create(high(cpu="8"))
    await ranked.advance(30)
    where = await node_of(ranked, "x")
    assert where in ("a1", "a2")
    assert await pods_by_letter(ranked) == {"a": 3, "b": 3}
    [other] = {"a1", "a2"} - {where}
    assert f"f-{other}" in await alive(ranked)


async def test_a_cap_exceeded_by_more_than_one_needs_as_many_victims_on_one_node(cluster):
    """od has 3 pods on each node and a cap of 2: evicting all of one node leaves 3."""
    await cluster.create(*classes(low=1, high=1000))
    await create_each(cluster, *(low(f"w{i}", node=f"a{1 + i % 2}") for i in range(6)))
    await cluster.create(policy(strategy="required", units=[od()]))
    await cluster.create(high())
    await cluster.advance(60)
    assert await node_of(cluster, "x") == ""
    assert len(await alive(cluster)) == 6


async def test_victims_of_one_node_close_the_gap(cluster):
    await cluster.create(*classes(low=1, high=1000))
    await create_each(cluster, *(low(f"w{i}", node="a1") for i in range(3)))
    await cluster.create(policy(strategy="required", units=[od()]))
    await cluster.create(high())
    await cluster.advance(60)
    assert await node_of(cluster, "x") == "a1"
    assert len(await alive(cluster)) == 2


async def test_no_pod_is_evicted_while_a_lower_unit_has_a_place(ranked):
    assert await place(ranked, 4, priority_class_name="low") == ["a", "a", "b", "b"]
    await ranked.create(high())
    assert (await node_of(ranked, "x"))[0] == "b"
    assert await event_messages(ranked, "Preempted", "w0") == []
    assert len(await alive(ranked)) == 5
