"""Optional fields: caps on requests, previous pods, next units, labels and annotations."""

import pytest

from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST, POLICY_UID
from holdfast.api.scheme import PODS, RESOURCE_POLICIES
from holdfast.testing import a_replica_set
from policies.costs import RecordedWrites
from policies.objects import (
    UNIT_FULL,
    WEB,
    classes,
    condition,
    create_each,
    delete_gone,
    edit_policy,
    event_messages,
    fail_binds,
    node,
    node_of,
    od,
    place,
    pod,
    pods_by_letter,
    policy,
    spot,
    terminate,
    why,
)

BACKOFF = 1.5


async def fill(cluster, *names, cpu="8"):
    """Use the CPU of nodes up by pods that no policy selects."""
    await create_each(cluster, *(pod(f"f-{n}", app="other", cpu=cpu, node=n) for n in names))


# --- maxResources -----------------------------------------------------------------------------


async def test_P050_requests_are_added_up_by_unit(cluster):
    await cluster.create(policy(units=[od(max_count=None, max_resources={"cpu": 3}), spot()]))
    await create_each(cluster, pod("x", cpu="2"), pod("y", cpu="2"), pod("z", cpu="1"))
    assert [(await node_of(cluster, name))[0] for name in "xyz"] == ["a", "b", "a"]
    full = "unit od is full (cpu 2/3, 2 requested)"
    assert await event_messages(cluster, UNIT_FULL, "y") == [full]
    assert await event_messages(cluster, UNIT_FULL, "z") == []


async def test_P050_resources_that_are_not_listed_are_free(cluster):
    await cluster.create(
        policy(units=[od(max_count=None, max_resources={"memory": "1Gi"}), spot()])
    )
    await create_each(
        cluster, pod("x", cpu="4", memory="1Gi"), pod("y", cpu="4"), pod("z", memory="1Mi")
    )
    assert [(await node_of(cluster, name))[0] for name in "xyz"] == ["a", "a", "b"]
    full = "unit od is full (memory 1Gi/1Gi, 1Mi requested)"
    assert await event_messages(cluster, UNIT_FULL, "z") == [full]


async def test_P050_with_a_count_as_well_either_cap_closes_the_unit(cluster):
    await cluster.create(
        policy(strategy="required", units=[od(max_count=2, max_resources={"cpu": "2500m"})])
    )
    await create_each(cluster, pod("x", cpu="2"), pod("y", cpu="1"))
    assert "2 unit od is full (cpu 2/2500m, 1 requested)" in await why(cluster, "y")
    await create_each(cluster, pod("z", cpu="500m"), pod("v", cpu="1m"))
    assert "2 unit od is full (2/2; cpu 2500m/2500m, 1m requested)" in await why(cluster, "v")


# --- ignorePreviousPod ------------------------------------------------------------------------


async def test_pods_bound_before_the_policy_are_not_counted(cluster):
    await create_each(cluster, *(pod(f"old{i}", node="a1") for i in range(2)))
    await cluster.advance(10)
    rule = {"ignorePreviousPod": True}
    await cluster.create(policy(match_policy=rule))
    assert await place(cluster, 3) == ["a", "a", "b"]
    assert await event_messages(cluster, UNIT_FULL, "w2") == ["unit od is full (2/2)"]
    assert await pods_by_letter(cluster) == {"a": 4, "b": 1}
    await edit_policy(cluster, matchPolicy={"ignorePreviousPod": False})
    assert await place(cluster, 1, "x") == ["b"]


async def test_after_a_restart_previous_pods_are_recognized(cluster):
    await create_each(cluster, *(pod(f"old{i}", node="a1") for i in range(2)))
    await cluster.advance(10)
    await cluster.create(policy(match_policy={"ignorePreviousPod": True}))
    assert await place(cluster, 1) == ["a"]
    await cluster.restart()
    assert await place(cluster, 2, "x") == ["a", "b"]


# --- whenTryNextUnits -------------------------------------------------------------------------


async def test_exceed_max_waits_for_a_unit_below_its_cap(cluster):
    await cluster.create(policy(when_try_next_units={"policy": "ExceedMax"}))
    await fill(cluster, "a1", "a2")
    await cluster.create(pod("w"))
    assert await node_of(cluster) == ""
    assert (await why(cluster)).startswith(
        "0/5 nodes are available: "
        "1 waiting for unit spot of ResourcePolicy web/p, which is not full (0/3), "
        "2 Insufficient cpu, "
        "3 waiting for unit od of ResourcePolicy web/p, which is not full (0/2). "
    )
    assert "3 Preemption is not helpful for scheduling" in await why(cluster)
    # More nodes help, so the reason stays the one that autoscalers know.
    assert (await condition(cluster)).reason == "Unschedulable"
    await cluster.advance(1000)
    assert await node_of(cluster) == ""
    await cluster.create(node("a3"))
    await cluster.advance(BACKOFF)
    assert await node_of(cluster) == "a3"


async def test_exceed_max_tries_the_next_unit_when_the_first_is_filled_by_others(cluster):
    """The pods that fill the unit are created on its nodes."""
    await cluster.create(policy(when_try_next_units={"policy": "ExceedMax"}))
    await fill(cluster, "a1", "a2", cpu="7500m")
    await cluster.create(pod("w"))
    await create_each(cluster, *(pod(name, cpu="100m", node="a1") for name in ("x", "y")))
    await cluster.advance(BACKOFF)
    assert (await node_of(cluster))[0] == "b"


async def test_exceed_max_passes_over_a_unit_without_a_cap(cluster):
    await cluster.create(
        policy(units=[od(max_count=None), spot()], when_try_next_units={"policy": "ExceedMax"})
    )
    await fill(cluster, "a1", "a2")
    assert await place(cluster, 1) == ["b"]


def with_timeout(timeout="60s", **more):
    return policy(when_try_next_units={"policy": "TimeoutOrExceedMax", "timeout": timeout}, **more)


async def test_P051_a_pod_waits_for_the_timeout_and_is_placed_in_the_next_unit(cluster):
    await cluster.create(with_timeout())
    await fill(cluster, "a1", "a2")
    await cluster.create(pod("w"))
    assert "3 waiting up to 1m0s for unit od of ResourcePolicy web/p, which is not full (0/2)" in (
        await why(cluster)
    )
    await cluster.advance(55)
    assert await node_of(cluster) == ""
    await cluster.advance(10)
    assert (await node_of(cluster))[0] == "b"


async def test_P051_a_node_that_joins_meanwhile_is_used(cluster):
    await cluster.create(with_timeout())
    await fill(cluster, "a1", "a2")
    await cluster.create(pod("w"))
    await cluster.advance(30)
    await cluster.create(node("a3"))
    await cluster.advance(BACKOFF)
    assert await node_of(cluster) == "a3"


async def test_P051_every_priority_is_waited_for_by_itself(cluster):
    await cluster.create(with_timeout())
    await fill(cluster, "a1", "a2", "b1", "b2")
    await cluster.create(pod("w"))
    await cluster.advance(110)
    assert await node_of(cluster) == ""
    await cluster.advance(20)
    assert await node_of(cluster) == "c1"


async def test_P051_a_unit_without_a_cap_is_waited_for_as_well(cluster):
    await cluster.create(with_timeout(units=[od(max_count=None), spot()]))
    await fill(cluster, "a1", "a2")
    await cluster.create(pod("w"))
    assert "of ResourcePolicy web/p, which is not full (0 pods)" in await why(cluster)
    await cluster.advance(65)
    assert (await node_of(cluster))[0] == "b"


async def test_P051_a_full_unit_is_not_waited_for(cluster):
    await cluster.create(with_timeout())
    assert await place(cluster, 3) == ["a", "a", "b"]


async def test_P051_the_time_counts_from_the_creation_of_the_pod(cluster):
    """After a restart the pod does not wait again."""
    await cluster.create(with_timeout())
    await fill(cluster, "a1", "a2")
    await cluster.create(pod("w"))
    await cluster.advance(45)
    await cluster.restart()
    assert await node_of(cluster) == ""
    await cluster.advance(20)
    assert (await node_of(cluster))[0] == "b"


async def test_P052_terminating_pods_are_waited_for(cluster):
    await cluster.create(
        policy(match_policy=None, when_try_next_units={"policy": "LackResourceAndNoTerminating"})
    )
    assert await place(cluster, 2, stops_after=100) == ["a", "a"]
    await terminate(cluster, "w0")
    await cluster.create(pod("x"))
    assert await node_of(cluster, "x") == ""
    message = await why(cluster, "x")
    assert "3 waiting for 1 terminating pod in unit od of ResourcePolicy web/p" in message
    assert "2 unit od is full (2/2)" in message
    await cluster.advance(50)
    assert await node_of(cluster, "x") == ""
    await cluster.advance(60)
    assert (await node_of(cluster, "x"))[0] == "a"


async def test_P052_without_a_terminating_pod_the_next_unit_is_used(cluster):
    await cluster.create(
        policy(match_policy=None, when_try_next_units={"policy": "LackResourceAndNoTerminating"})
    )
    assert await place(cluster, 3) == ["a", "a", "b"]


async def test_P052_a_terminating_pod_in_a_lower_unit_is_not_waited_for(cluster):
    await cluster.create(
        policy(match_policy=None, when_try_next_units={"policy": "LackResourceAndNoTerminating"})
    )
    assert await place(cluster, 3, stops_after=100) == ["a", "a", "b"]
    await terminate(cluster, "w2")
    assert await place(cluster, 1, "x") == ["b"]


# --- preemptPolicy ----------------------------------------------------------------------------


def low(name, **more):
    return pod(name, priority_class_name="low", **more)


async def high_beside_low(cluster, **spec):
    """Od is full of pods of a low class, spot has room; create x of a high class."""
    await cluster.create(*classes(low=1, high=1000), policy(**spec))
    await create_each(cluster, low("od0", stops_after=20), low("od1", stops_after=20))
    assert await pods_by_letter(cluster) == {"a": 2}
    await cluster.create(pod("x", priority_class_name="high"))
    return {p.name for p in (await cluster.client.list(PODS, WEB)).items if p.terminating} | {
        "od0",
        "od1",
    } - {p.name for p in (await cluster.client.list(PODS, WEB)).items}


async def test_P038_by_default_the_next_unit_is_used_before_preemption(cluster):
    assert await high_beside_low(cluster) == set()
    assert (await node_of(cluster, "x"))[0] == "b"


async def test_P038_with_before_next_unit_a_pod_of_the_unit_is_evicted(cluster):
    [victim] = await high_beside_low(cluster, preempt_policy="BeforeNextUnit")
    await cluster.advance(30)
    assert (await node_of(cluster, "x"))[0] == "a"
    [other] = {"od0", "od1"} - {victim}
    assert (await node_of(cluster, other))[0] == "a"


async def test_P038_with_order_score_there_is_no_next_unit(start):
    cluster = await start(args={"order": "Score"})
    assert await high_beside_low(cluster, preempt_policy="BeforeNextUnit") == set()
    assert (await node_of(cluster, "x"))[0] in "bc"


# --- podLabels, podAnnotations, deletion cost -------------------------------------------------


def marking(**more):
    marks = {"pod_labels": {"paid": "yes"}, "pod_annotations": {"example.com/unit": "od"}}
    return policy(units=[od(**marks), spot()], **more)


async def test_labels_and_annotations_of_the_unit_are_written(cluster):
    await cluster.create(marking())
    await create_each(cluster, pod("x", labels={"paid": "no"}), pod("y"), pod("z"))
    pods = [(await cluster.pod(name, WEB)).metadata for name in "xyz"]
    assert [m.labels.get("paid") for m in pods] == ["yes", "yes", None]
    assert [m.annotations.get("example.com/unit") for m in pods] == ["od", "od", None]


async def test_labels_that_a_replica_set_may_select_by_are_not_changed(cluster):
    """Otherwise the ReplicaSet would create pods for those that it lost, without an end."""
    marks = {"pod_labels": {"app": "od", "unit": "od"}, "max_count": None}
    await cluster.create(policy(pods={"team": "x"}, units=[od(**marks)]))
    await cluster.create(a_replica_set("web", replicas=2, namespace=WEB, labels={"team": "x"}))
    await cluster.advance(30)
    pods = (await cluster.client.list(PODS, WEB)).items
    wanted = {"app": "web", "team": "x", "unit": "od"}
    assert [wanted.items() <= pod.metadata.labels.items() for pod in pods] == [True, True]


async def test_nor_if_another_unit_writes_the_value_that_it_selects_by(cluster):
    paid = [{"pod_labels": {"paid": value}, "max_count": None} for value in ("yes", "no")]
    await cluster.create(policy(units=[od(**paid[0]), spot(**paid[1])]))
    workload = a_replica_set("web", replicas=2, namespace=WEB, labels={"paid": "no"})
    workload["spec"]["selector"] = {"matchLabels": {"app": "web", "paid": "no"}}
    await cluster.create(workload, pod("alone", labels={"paid": "no"}))
    await cluster.advance(30)
    pods = (await cluster.client.list(PODS, WEB)).items
    assert sorted(pod.metadata.labels["paid"] for pod in pods) == ["no", "no", "yes"]


async def test_labels_are_restored_if_the_bind_fails(cluster, network):
    await cluster.create(marking())
    fail_binds(network, times=1, name="x", trouble="unavailable")
    await cluster.create(pod("x", labels={"paid": "no"}))
    assert await node_of(cluster, "x") == ""
    assert (await cluster.pod("x", WEB)).metadata.labels["paid"] == "no"
    await cluster.advance(30)
    assert (await cluster.pod("x", WEB)).metadata.labels["paid"] == "yes"
    assert (await node_of(cluster, "x"))[0] == "a"


async def test_only_labels_cost_writes_before_the_bind(start):
    writes = RecordedWrites()
    cluster = await start(wrap=writes.wrap)
    await cluster.create(marking(), pod("x", cpu="8"), pod("y", cpu="8"))
    await cluster.create(pod("z"), pod("free", app="other"))
    at_first = {name: writes.of(f"/pods/{name}")[0] for name in ("x", "y", "z", "free")}
    bound_first = [name for name, (_, path) in at_first.items() if path.endswith("/binding")]
    assert bound_first == ["z", "free"]


async def test_the_deletion_cost_is_sent_with_the_binding(cluster):
    await cluster.create(policy())
    uid = (await cluster.client.get(RESOURCE_POLICIES, "p", WEB)).uid
    assert await place(cluster, 6) == ["a", "a", "b", "b", "b", "c"]
    for i, cost in enumerate(["200", "200", "100", "100", "100", "0"]):
        notes = (await cluster.pod(f"w{i}", WEB)).metadata.annotations
        assert notes[DELETION_COST] == notes[MANAGED_DELETION_COST] == cost
        assert notes[POLICY_UID] == uid
    await cluster.create(pod("own", annotations={DELETION_COST: "5"}))
    notes = (await cluster.pod("own", WEB)).metadata.annotations
    assert (notes[DELETION_COST], MANAGED_DELETION_COST in notes) == ("5", False)


# --- the condition that autoscalers read ------------------------------------------------------


async def test_a_pod_that_only_full_units_reject_has_a_reason_of_its_own(required):
    assert (await place(required, 6))[-1] == ""
    assert (await condition(required, "w5")).reason == UNIT_FULL
    await delete_gone(required, "w0")
    await required.advance(BACKOFF)
    assert (await node_of(required, "w5"))[0] == "a"


@pytest.mark.parametrize("unit", [{"max_count": None}, {"max_count": 5}])
async def test_a_unit_that_has_room_but_no_nodes_is_a_reason_to_add_nodes(cluster, unit):
    later = od(9, **unit) | {"name": "later", "nodeSelector": {"matchLabels": {"tier": "later"}}}
    await cluster.create(policy(strategy="required", units=[od(), spot(), later]))
    assert (await place(cluster, 6))[-1] == ""
    assert (await condition(cluster, "w5")).reason == "Unschedulable"
