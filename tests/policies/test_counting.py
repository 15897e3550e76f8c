"""How many pods a unit has: terminating, finished, assumed and earlier pods, moved nodes."""

import pytest

from holdfast.api.scheme import NODES, PODS
from policies.objects import (
    UNIT_FULL,
    WEB,
    PodHistory,
    create_each,
    delay_binds,
    delete_gone,
    edit_policy,
    event_messages,
    fail_binds,
    node_of,
    od,
    place,
    pod,
    pods_by_letter,
    pods_in_table,
    policy,
    relabel,
    relabel_node,
    spot,
    terminate,
    unit_scores,
    why,
)


@pytest.mark.parametrize(("ignored", "letter"), [(True, "a"), (False, "b"), (None, "b")])
async def test_P019_a_terminating_pod_counts_unless_the_policy_ignores_it(cluster, ignored, letter):
    rule = None if ignored is None else {"ignoreTerminatingPod": ignored}
    await cluster.create(policy(match_policy=rule))
    assert await place(cluster, 2, stops_after=30) == ["a", "a"]
    await terminate(cluster, "w0")
    await cluster.create(pod("new"))
    assert (await node_of(cluster, "new"))[0] == letter
    # The next one finds od full in both cases.
    await cluster.create(pod("next"))
    assert (await node_of(cluster, "next"))[0] == "b"
    assert await event_messages(cluster, UNIT_FULL, "next") == ["unit od is full (2/2)"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_P020_a_finished_pod_does_not_count(governed, phase):
    assert await place(governed, 2) == ["a", "a"]
    ended = {"status": {"phase": phase}}
    await governed.client.patch(PODS, "w1", ended, WEB, subresource="status")
    await governed.settle()
    assert await place(governed, 2, "new") == ["a", "b"]


async def test_P021_assumed_pods_count_while_their_binds_are_delayed(governed, network):
    delay_binds(network, 2)
    async with PodHistory(governed) as history:
        await governed.create(*(pod(f"w{i}") for i in range(10)))
        for _ in range(30):
            assumed, bound = pods_in_table(governed), await pods_by_letter(governed)
            assert assumed["a"] <= 2
            assert assumed["b"] <= 3
            assert bound <= assumed
            await governed.advance(0.1)
    assert history.highest == {"a": 2, "b": 3, "c": 5}


async def test_P021_all_pods_are_assumed_before_the_first_bind_is_stored(governed, network):
    delay_binds(network, 2)
    await governed.create(*(pod(f"w{i}") for i in range(10)))
    assert await pods_by_letter(governed) == {}
    assert pods_in_table(governed) == {"a": 2, "b": 3, "c": 5}


async def test_P022_a_pod_whose_bind_failed_takes_its_place_itself_if_no_other_does(
    governed, network
):
    async with PodHistory(governed) as history:
        fail_binds(network, name="second")
        await create_each(governed, pod("first"), pod("second"))
        assert pods_in_table(governed) == await pods_by_letter(governed) == {"a": 1}
        await governed.advance(2)
        assert pods_in_table(governed) == await pods_by_letter(governed) == {"a": 2}
    assert history.highest == {"a": 2}


async def test_P022_a_later_pod_takes_the_place_of_a_failed_bind(governed, network):
    async with PodHistory(governed) as history:
        fail_binds(network, name="second")
        await create_each(governed, pod("first"), pod("second"))
        assert await node_of(governed, "second") == ""
        assert pods_in_table(governed) == {"a": 1}
        await governed.create(pod("later"))
        assert (await node_of(governed, "later"))[0] == "a"
        assert pods_in_table(governed) == {"a": 2}
        await governed.advance(10)
        assert (await node_of(governed, "second"))[0] == "b"
        assert pods_in_table(governed) == {"a": 2, "b": 1}
    assert await event_messages(governed, UNIT_FULL, "second") == ["unit od is full (2/2)"]
    assert history.highest == {"a": 2, "b": 1}


async def test_P022_a_bind_whose_response_is_lost_counts_once(governed, network):
    fail_binds(network, name="second", trouble="lost")
    await governed.create(pod("first"), pod("second"))
    await governed.advance(10)
    assert pods_in_table(governed) == await pods_by_letter(governed) == {"a": 2}
    assert await place(governed, 1, "later") == ["b"]


@pytest.mark.parametrize("how", ["restart_components", "restart"])
async def test_P023_a_restarted_scheduler_counts_again(governed, how):
    assert await place(governed, 3) == ["a", "a", "b"]
    await getattr(governed, how)()
    assert pods_in_table(governed) == {"a": 2, "b": 1}
    assert await place(governed, 3, "new") == ["b", "b", "c"]


async def test_P024_pods_from_before_the_policy_count(cluster):
    await create_each(cluster, pod("x", node="a1"), pod("y", node="a2"))
    await cluster.create(policy())
    assert await place(cluster, 1) == ["b"]
    assert await event_messages(cluster, UNIT_FULL, "w0") == ["unit od is full (2/2)"]


async def test_P024_pods_of_another_scheduler_count(governed):
    await create_each(governed, pod("x", node="a1", scheduler_name="other"), pod("y"))
    assert await place(governed, 1) == ["b"]


async def test_P025_no_pod_is_deleted_if_a_new_policy_is_exceeded_already(cluster):
    await create_each(cluster, *(pod(f"old{i}", node=f"a{1 + i % 2}") for i in range(4)))
    await cluster.create(policy())
    await cluster.advance(60)
    assert await pods_by_letter(cluster) == {"a": 4}
    assert await place(cluster, 1, "x") == ["b"]
    assert await event_messages(cluster, UNIT_FULL, "x0") == ["unit od is full (4/2)"]
    await delete_gone(cluster, "old0", "old1")
    assert await place(cluster, 1, "y") == ["b"]
    await delete_gone(cluster, "old2")
    assert await place(cluster, 1, "z") == ["a"]


async def test_P025_nor_if_the_cap_is_lowered(governed):
    assert await place(governed, 2) == ["a", "a"]
    await edit_policy(governed, units=[od(max_count=1), spot()])
    await governed.advance(60)
    assert await pods_by_letter(governed) == {"a": 2}
    assert await place(governed, 1, "x") == ["b"]


async def test_P027_pods_count_in_another_unit_when_their_node_is_relabelled(cluster):
    await cluster.create(policy(strategy="required"))
    await create_each(cluster, pod("one", node="a1"), pod("two", node="a2"))
    assert await place(cluster, 1, "x") == ["b"]
    await relabel_node(cluster, "a2", tier="spot")
    # od has 1 pod and spot 2: one more fits into each.
    assert await place(cluster, 1, "y") == ["a"]
    assert await place(cluster, 1, "z") == ["b"]
    assert await place(cluster, 1, "last") == [""]
    message = await why(cluster, "last0")
    assert "1 unit od is full (2/2), 3 unit spot is full (3/3)" in message


async def test_P027_pods_of_a_deleted_node_do_not_count(governed):
    await create_each(governed, pod("one", node="a1"), pod("two", node="a2"))
    await governed.delete(NODES, "a2")
    assert await place(governed, 1) == ["a"]


async def test_P029_a_node_of_two_units_needs_room_in_both(cluster):
    fast = {"name": "fast", "priority": 9, "maxCount": 1}
    fast["nodeSelector"] = {"matchLabels": {"disk": "fast"}}
    await cluster.create(policy(units=[od(), spot(), fast]))
    await relabel_node(cluster, "a1", disk="fast")
    raw = unit_scores(cluster, field="raw")
    assert raw == {"a1": 180, "a2": 100, "b1": 80, "b2": 80, "c1": 0}
    await create_each(cluster, pod("first"), pod("second"), pod("third"))
    assert [await node_of(cluster, name) for name in ("first", "second")] == ["a1", "a2"]
    assert await event_messages(cluster, UNIT_FULL, "second") == ["unit fast is full (1/1)"]
    # The first pod counts in od as well.
    assert (await node_of(cluster, "third"))[0] == "b"
    assert sorted(await event_messages(cluster, UNIT_FULL, "third")) == [
        "unit fast is full (1/1)",
        "unit od is full (2/2)",
    ]


async def test_a_pod_that_is_relabelled_while_its_bind_is_delayed_counts_by_its_labels(
    governed, network
):
    pinned = {"node_selector": {"tier": "od"}}
    delay_binds(network, 5, times=1)
    await governed.create(pod("x", app="other", **pinned))
    await relabel(governed, "x", app="web")
    assert pods_in_table(governed) == {"a": 1}
    assert await place(governed, 2) == ["a", "b"]
    await governed.advance(6)
    assert await pods_by_letter(governed) == {"a": 2, "b": 1}


async def test_one_that_is_no_longer_selected_makes_place(cluster, network):
    await cluster.create(policy(strategy="required", units=[od(max_count=1)]))
    delay_binds(network, 30, times=1)
    await create_each(cluster, pod("x"), pod("w"))
    assert await node_of(cluster) == ""
    await relabel(cluster, "x", app="other")
    await cluster.advance(2)
    assert (await node_of(cluster))[0] == "a"
    await cluster.advance(40)
    assert await pods_by_letter(cluster) == {"a": 2}
