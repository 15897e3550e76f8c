"""Nominated pods count in the whole unit of their node, for pods of no higher priority."""

import pytest

from policies.objects import (
    WEB,
    classes,
    common_nodes,
    create_each,
    delete_gone,
    event_messages,
    node,
    node_of,
    od,
    pod,
    pods_by_letter,
    policy,
    spot,
    why,
)


def ranked(name, priority, **more):
    return pod(name, priority_class_name=priority, **more)


@pytest.fixture
async def nominated(start):
    """One pod is bound in od, and y is nominated to a1, where its victim terminates for 20 s."""
    names = ("a1", "a2", "b1", "b2", "c1")
    cluster = await start(nodes=[common_nodes()[0], *(node(n, labels={"is": n}) for n in names)])
    await cluster.create(*classes(low=1, high=1000, higher=2000), policy())
    filler = ranked("filler", "low", app="other", cpu="8", node="a1", stops_after=20)
    bound = ranked("bound", "higher", node="a2")
    await create_each(cluster, filler, bound)
    await cluster.create(ranked("y", "high", node_selector={"is": "a1"}))
    assert (await cluster.pod("y", WEB)).status.nominated_node_name == "a1"
    return cluster


@pytest.mark.parametrize("priority", ["low", "high"])
async def test_P039_a_pod_of_no_higher_class_goes_to_the_next_unit(nominated, priority):
    await nominated.create(ranked("w", priority))
    assert (await node_of(nominated))[0] == "b"
    await nominated.advance(25)
    assert await node_of(nominated, "y") == "a1"
    assert await pods_by_letter(nominated) == {"a": 2, "b": 1}


async def test_P039_a_pod_of_a_higher_class_takes_the_place(nominated):
    await nominated.create(ranked("w", "higher"))
    assert await node_of(nominated) == "a2"
    await nominated.advance(25)
    # The nominated pod finds the unit full, and nothing that it may evict.
    assert await node_of(nominated, "y") == ""
    assert "unit od is full (2/2)" in await why(nominated, "y")


async def test_P039_under_required_the_message_counts_the_nominated_pod(nominated):
    units = [od(), spot(max_count=0)]
    await nominated.create(
        policy("q", pods={"app": "strict"}, strategy="required", units=units),
        ranked("s", "high", app="strict", node_selector={"is": "a1"}),
        ranked("t", "higher", app="strict", node="a2"),
    )
    await nominated.create(ranked("u", "low", app="strict"))
    assert await node_of(nominated, "u") == ""
    assert "1 unit od is full (2/2)" in await why(nominated, "u")


async def test_P039_when_the_nomination_ends_the_pod_is_tried_again(nominated):
    await nominated.create(
        policy("q", pods={"app": "strict"}, strategy="required", units=[od()]),
        ranked("s", "high", app="strict", node_selector={"is": "a1"}),
        ranked("t", "higher", app="strict", node="a2"),
    )
    await nominated.create(ranked("u", "low", app="strict"))
    assert await node_of(nominated, "u") == ""
    await delete_gone(nominated, "s")
    await nominated.advance(2)
    assert await node_of(nominated, "u") == "a2"


async def test_P039_preemption_does_not_exceed_the_cap_either(nominated):
    """Evicting pods outside of the group on a2 would not help: the unit is full with y."""
    await nominated.create(ranked("big", "low", app="other", cpu="6", node="a2"))
    await nominated.create(ranked("w", "high", node_selector={"is": "a2"}, cpu="2"))
    await nominated.advance(5)
    assert await node_of(nominated, "big") == "a2"
    assert not (await nominated.pod("big", WEB)).terminating
    assert "unit od is full (2/2)" in await why(nominated)
    assert await event_messages(nominated, "Preempted", "big") == []


async def test_a_pod_that_leaves_beside_a_nominated_one_requeues_the_pod_it_rejected(nominated):
    """od has t bound and s nominated; without t there is a place again, though od was not full."""
    await nominated.create(
        policy("q", pods={"app": "strict"}, strategy="required", units=[od()]),
        ranked("s", "high", app="strict", node_selector={"is": "a1"}),
        ranked("t", "higher", app="strict", node="a2"),
    )
    await nominated.create(ranked("u", "low", app="strict", node_selector={"is": "a2"}))
    await nominated.advance(2)
    assert await node_of(nominated, "u") == ""
    await delete_gone(nominated, "t")
    await nominated.advance(2)
    assert (await nominated.pod("s", WEB)).status.nominated_node_name == "a1"
    assert await node_of(nominated, "u") == "a2"
