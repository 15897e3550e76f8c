"""The plugin's arguments: missing keys, order of units, reservations; and equal priorities."""

from holdfast.testing import a_reservation
from policies.objects import (
    UNIT_FULL,
    WEB,
    create_each,
    event_messages,
    node_of,
    od,
    place,
    pod,
    pods_by_letter,
    policy,
    relabel,
    spot,
    unit_scores,
    why,
)
from reservations.objects import allocated_from

HASH = "pod-template-hash"


async def test_P017_a_pod_without_the_key_is_counted_with_all_pods(cluster):
    await cluster.create(policy(match_label_keys=[HASH]))
    await create_each(cluster, *(pod(f"x{i}", labels={HASH: f"h{i}"}) for i in range(2)))
    assert await pods_by_letter(cluster) == {"a": 2}
    assert await place(cluster, 1) == ["b"]
    # A pod with the key counts only the pods that have the same value.
    assert await place(cluster, 1, "h", labels={HASH: "h0"}) == ["a"]


async def test_P017_with_reject_a_pod_without_the_key_is_unresolvable(start):
    cluster = await start(args={"missingMatchLabelKey": "Reject"})
    await cluster.create(policy(match_label_keys=["b", "a"]))
    assert await place(cluster, 1, labels={"a": "1"}) == [""]
    message = await why(cluster, "w0")
    assert message.startswith(
        "0/5 nodes are available: pod lacks labels that are matchLabelKeys of ResourcePolicy "
        "web/p: b. "
    )
    assert "0/5 nodes are available: 5 Preemption is not helpful for scheduling" in message
    await relabel(cluster, "w0", b="2")
    await cluster.advance(1.5)
    assert (await node_of(cluster, "w0"))[0] == "a"


async def test_P031_without_priorities_units_score_1_and_come_before_other_nodes(cluster):
    units = [od(), spot()]
    for unit in units:
        del unit["priority"]
    await cluster.create(policy(units=units))
    assert unit_scores(cluster) == {"a1": 1, "a2": 1, "b1": 1, "b2": 1, "c1": 0}
    assert unit_scores(cluster, field="raw") == dict.fromkeys(("a1", "a2", "b1", "b2", "c1"), 0)
    placed = await place(cluster, 6)
    assert sorted(placed[:5]) == ["a", "a", "b", "b", "b"]
    assert placed[5] == "c"


async def fill_od(cluster):
    """Leave one CPU on each node of od; the nodes of spot are empty."""
    await create_each(cluster, *(pod(f"f-{n}", app="other", cpu="7", node=n) for n in ("a1", "a2")))


async def test_P033_with_strict_order_a_crowded_unit_comes_before_an_empty_one(governed):
    await fill_od(governed)
    assert await place(governed, 1) == ["a"]


async def test_P033_with_order_score_the_other_scores_may_decide(start):
    cluster = await start(args={"order": "Score"})
    await cluster.create(policy())
    await fill_od(cluster)
    assert await place(cluster, 1) == ["b"]
    scores = unit_scores(cluster)
    assert (scores["a1"], scores["b1"], scores["c1"]) == (100, 80, 0)
    # Caps hold with any order, and full units are named in the event.
    assert sorted(await place(cluster, 4, "x")).count("b") <= 2
    assert await event_messages(cluster, UNIT_FULL, "w0") == []


def reserved_on(name, **more):
    return a_reservation(
        "r", owner_labels={"app": "web"}, template={"node": name}, allocate_once=False, **more
    )


async def test_reservations_first_come_before_units_of_higher_priority(start):
    cluster = await start(args={"reservations": "First"})
    await cluster.create(policy())
    await cluster.create(reserved_on("b1", cpu="2"))
    assert [await place(cluster, 1, name) for name in ("x", "y", "z")] == [["b"], ["b"], ["a"]]
    used = [await allocated_from(cluster, f"{name}0", WEB) for name in ("x", "y", "z")]
    assert used == ["r", "r", None]


async def test_reservations_first_bypass_neither_units_nor_caps(start):
    cluster = await start(args={"reservations": "First"})
    await cluster.create(policy(strategy="required", units=[od(), spot(max_count=1)]))
    await cluster.create(reserved_on("b1", cpu="8"))
    assert await place(cluster, 4) == ["b", "a", "a", ""]
