"""The reason of a waiting pod's condition tells an autoscaler whether more nodes would help."""

from policies.objects import (
    UNIT_FULL,
    condition,
    delete_gone,
    edit_policy,
    event_messages,
    node,
    node_of,
    od,
    place,
    pod,
    policy,
    spot,
)


async def test_a_pod_that_only_full_units_reject_gets_a_reason_of_its_own(required):
    await place(required, 5)
    await required.create(pod("x"))
    found = await condition(required, "x")
    assert (found.status, found.reason) == ("False", UNIT_FULL)
    assert await event_messages(required, UNIT_FULL, "x") == [
        "node matches no unit of ResourcePolicy web/p, "
        "unit od is full (2/2), "
        "unit spot is full (3/3)"
    ]
    assert await event_messages(required, "FailedScheduling", "x") == [found.message]
    await delete_gone(required, "w0")
    await required.advance(2)
    assert (await node_of(required, "x"))[0] == "a"


async def test_the_event_of_a_waiting_pod_is_recorded_once_for_the_same_units(required):
    await place(required, 5)
    await required.create(pod("x"))
    for number in range(3, 6):  # the condition's message has the number of nodes
        await required.create(node(f"a{number}"))
        await required.advance(400)
    tries = await event_messages(required, "FailedScheduling", "x")
    assert len(tries) > 1
    assert len(await event_messages(required, UNIT_FULL, "x")) == 1


async def test_if_nodes_lack_resources_too_it_is_unschedulable(cluster):
    await cluster.create(policy(strategy="required", units=[od(), spot(max_count=9)]))
    await place(cluster, 2)
    await cluster.create(pod("x", cpu="9"))
    assert (await condition(cluster, "x")).reason == "Unschedulable"
    assert await event_messages(cluster, UNIT_FULL, "x") == []


async def test_nodes_of_full_units_may_lack_resources_too(required):
    await place(required, 5)
    await required.create(pod("x", cpu="9"))
    first = await condition(required, "x")
    assert "5 Insufficient cpu" in first.message
    assert first.reason == UNIT_FULL
    assert await event_messages(required, UNIT_FULL, "x") == [
        "node matches no unit of ResourcePolicy web/p, "
        "unit od is full (2/2), "
        "unit spot is full (3/3)"
    ]


async def test_the_reason_follows_a_change_of_the_policy(required):
    await place(required, 5)
    await required.create(pod("x", cpu="9"))
    first = await condition(required, "x")
    await edit_policy(required, units=[od(), spot(max_count=4)])
    await required.advance(2)
    second = await condition(required, "x")
    assert (first.reason, second.reason) == (UNIT_FULL, "Unschedulable")  # a larger node would help
    assert first.last_transition_time == second.last_transition_time
