"""Units are filled by priority, never beyond their caps; then the strategy decides."""

from policies.objects import (
    UNIT_FULL,
    PodHistory,
    create_each,
    event_messages,
    explained,
    node_of,
    od,
    place,
    pod,
    pods_by_letter,
    policy,
    spot,
    unit_scores,
    why,
)


async def test_P001_the_first_pod_is_placed_in_the_unit_of_the_highest_priority(governed):
    scores = unit_scores(governed)
    assert scores == {"a1": 100, "a2": 100, "b1": 80, "b2": 80, "c1": 0}
    assert await place(governed, 1) == ["a"]


async def test_P002_the_second_pod_fills_the_first_unit(governed):
    assert await place(governed, 2) == ["a", "a"]
    assert await pods_by_letter(governed) == {"a": 2}
    assert [await event_messages(governed, UNIT_FULL, name) for name in ("w0", "w1")] == [[], []]


async def test_P003_the_third_pod_is_placed_in_the_next_unit_and_its_event_says_why(governed):
    assert await place(governed, 3) == ["a", "a", "b"]
    assert await event_messages(governed, UNIT_FULL, "w2") == ["unit od is full (2/2)"]


async def test_P004_with_prefer_pods_are_placed_outside_if_all_units_are_full(governed):
    async with PodHistory(governed) as history:
        assert await place(governed, 6) == ["a", "a", "b", "b", "b", "c"]
    assert history.highest == {"a": 2, "b": 3, "c": 1}
    assert sorted(await event_messages(governed, UNIT_FULL, "w5")) == [
        "unit od is full (2/2)",
        "unit spot is full (3/3)",
    ]


async def test_P005_with_required_the_message_names_the_units_and_the_node_outside(required):
    assert await place(required, 6) == ["a", "a", "b", "b", "b", ""]
    message = await why(required, "w5")
    assert message.startswith(
        "0/5 nodes are available: 1 node matches no unit of ResourcePolicy web/p, "
        "2 unit od is full (2/2), "
        "2 unit spot is full (3/3)."
    )
    nodes = {n["name"]: n["reasons"] for n in explained(required)["nodes"]}
    assert nodes == {
        "a1": ["unit od is full (2/2)"],
        "a2": ["unit od is full (2/2)"],
        "b1": ["unit spot is full (3/3)"],
        "b2": ["unit spot is full (3/3)"],
        "c1": ["node matches no unit of ResourcePolicy web/p"],
    }


async def test_P006_a_policy_without_a_strategy_requires_its_units(cluster):
    await cluster.create(policy(strategy=None))
    assert await place(cluster, 6) == ["a", "a", "b", "b", "b", ""]
    assert "node matches no unit of ResourcePolicy web/p" in await why(cluster, "w5")


async def test_P008_a_unit_without_a_cap_is_filled_until_its_resources_are_used(cluster):
    await cluster.create(policy(units=[od(max_count=None), spot()]))
    assert await place(cluster, 17) == ["a"] * 16 + ["b"]
    assert await event_messages(cluster, UNIT_FULL, "w16") == []


async def test_P009_a_unit_with_a_cap_of_0_is_closed(cluster):
    await cluster.create(policy(units=[od(max_count=0), spot()]))
    assert await place(cluster, 1) == ["b"]
    assert await event_messages(cluster, UNIT_FULL, "w0") == ["unit od is full (0/0)"]


async def test_P030_with_equal_priorities_the_other_plugins_decide_and_the_caps_hold(cluster):
    await cluster.create(policy(units=[od(5, 2), spot(5, 3)]))
    scores = unit_scores(cluster, field="raw")
    assert {name: scores[name] for name in ("a1", "a2", "b1", "b2")} == dict.fromkeys(
        ("a1", "a2", "b1", "b2"), 100
    )
    # The least allocated nodes first: one pod each before any node gets its second.
    async with PodHistory(cluster) as history:
        first = await place(cluster, 4, "x")
        assert sorted(first) == ["a", "a", "b", "b"]
        await create_each(cluster, pod("w"), pod("last"))
    assert await node_of(cluster, "w") in ("b1", "b2")
    assert await node_of(cluster, "last") == "c1"
    assert history.highest == {"a": 2, "b": 3, "c": 1}


async def test_P032_scores_of_priorities_1_2_and_7(cluster):
    unlabelled = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    outside = {"name": "c", "priority": 7, "nodeSelector": unlabelled}
    await cluster.create(policy(units=[od(1), spot(2), outside]))
    raw = unit_scores(cluster, field="raw")
    assert (raw["a1"], raw["b1"], raw["c1"]) == (20, 40, 140)
    scores = unit_scores(cluster)
    assert (scores["a1"], scores["b1"], scores["c1"]) == (14, 28, 100)
    assert await place(cluster, 1) == ["c"]


async def test_P035_a_unit_below_its_cap_without_cpu_is_passed_over(governed):
    fillers = [pod(f"full-{n}", app="other", cpu="8", node=n) for n in ("a1", "a2")]
    await create_each(governed, *fillers)
    assert await place(governed, 1) == ["b"]
    assert await event_messages(governed, UNIT_FULL, "w0") == []
