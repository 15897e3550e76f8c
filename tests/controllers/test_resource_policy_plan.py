"""Plans of the resource policy controller as values."""

from __future__ import annotations

import pytest

from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST, POLICY_UID
from holdfast.api.scheme import PODS
from holdfast.controllers.planned_writes import Patch
from holdfast.controllers.resource_policy.plan import (
    MAX_GROUPS,
    PolicyConflict,
    find_excess,
    plan_deletion_cost,
    plan_policy_status,
)
from holdfast.state.resource_policies.policies import compile_policy
from holdfast.state.resource_policies.policy_usage import usage_of
from holdfast.testing import a_node, a_pod, a_resource_policy, a_unit, typed

NOW = 1_700_000_000.0
NODES = [typed(a_node("a", labels={"tier": "od"})), typed(a_node("b", labels={"tier": "spot"}))]


def a_policy(name="p", *, units=None, **spec):
    units = units or [
        a_unit("od", 5, nodes={"tier": "od"}, max_count=1),
        a_unit("spot", 4, nodes={"tier": "spot"}),
    ]
    raw = a_resource_policy(name, pods={"app": "web"}, units=units, **spec)
    return compile_policy(typed(raw, generation=3, uid=f"uid-{name}", resource_version="9"))


def annotated(cost=None, marker=None, uid=None, **more):
    found = {DELETION_COST: cost, MANAGED_DELETION_COST: marker, POLICY_UID: uid}
    notes = {key: value for key, value in found.items() if value is not None}
    more.setdefault("node", "a")
    return typed(
        a_pod("w", labels={"app": "web"}, annotations=notes, **more),
        uid="u",
        resource_version="7",
    )


def patched(plan):
    """Return (cost, marker, uid) of the only patch, "same" for what it does not change."""
    (write,) = plan.writes
    assert isinstance(write, Patch)
    assert (write.resource, write.name, write.namespace) == (PODS, "w", "default")
    meta = write.patch["metadata"]
    assert (meta["uid"], meta["resourceVersion"]) == ("u", "7")
    keys = (DELETION_COST, MANAGED_DELETION_COST, POLICY_UID)
    return tuple(meta["annotations"].get(key, "same") for key in keys)


P, Q = a_policy("p"), a_policy("q")


@pytest.mark.parametrize(
    ("found", "expected"),
    (
        ((None, None, None), ("200", "200", "uid-p")),
        ((None, "200", "uid-p"), ("200", "same", "same")),
        (("100", "100", "uid-p"), ("200", "200", "same")),
        (("200", "200", "uid-q"), ("same", "same", "uid-p")),
        (("200", "200", None), ("same", "same", "uid-p")),
        (("5", "200", "uid-p"), ("same", None, None)),
        (("5", None, "uid-p"), ("same", "same", None)),
    ),
)
def test_the_annotations_of_a_pod_that_one_policy_selects(found, expected):
    assert patched(plan_deletion_cost(annotated(*found), [P], (0,))) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    (
        (("200", "200", "uid-p"), (None, None, None)),
        (("5", "200", "uid-p"), ("same", None, None)),
        ((None, "200", "uid-p"), ("same", None, None)),
        ((None, None, "uid-p"), ("same", "same", None)),
    ),
)
def test_the_annotations_of_a_pod_that_no_policy_selects_any_more(found, expected):
    assert patched(plan_deletion_cost(annotated(*found), [], None)) == expected


def test_nothing_is_written_without_a_reason():
    ours, users = annotated("200", "200", "uid-p"), annotated("777")
    assert plan_deletion_cost(ours, [P], (0,)).writes == ()
    assert plan_deletion_cost(users, [P], (0,)).writes == ()
    assert plan_deletion_cost(users, [], None).writes == ()
    assert plan_deletion_cost(ours, [P, Q], None).writes == ()
    assert plan_deletion_cost(ours, [], None, unusable={"uid-p"}).writes == ()
    # The node is not known yet, or no longer.
    assert plan_deletion_cost(annotated(), [P], None).writes == ()


def test_pods_without_a_node_and_those_that_end_are_skipped():
    ends = typed(
        a_pod("w", labels={"app": "web"}, node="a"), deletion_timestamp="2023-11-14T00:00:00Z"
    )
    for pod in (annotated(node=None), annotated(status={"phase": "Succeeded"}), ends):
        assert plan_deletion_cost(pod, [P], (0,)).writes == ()


@pytest.mark.parametrize("cost", ("777", "cheap", "", "200", "9" * 300))
def test_a_cost_of_the_user_is_an_event(cost):
    (event,) = plan_deletion_cost(annotated(cost), [P], (0,)).events
    assert event.reason == "DeletionCostManual"
    assert event.message.startswith(f"the pod deletion cost {cost[:64]} is not changed")
    assert plan_deletion_cost(annotated(cost), [P, Q], None).events == ()


def aged(name, minute, *, cpu="1", terminating=False, **labels):
    ends = {"deletion_timestamp": "2023-11-14T12:00:00Z"} if terminating else {}
    return typed(
        a_pod(name, node="a", labels={"app": "web", **labels}, cpu=cpu),
        uid=name,
        creation_timestamp=f"2023-11-14T10:{minute:02}:00Z",
        **ends,
    )


def excess(policy, *pods):
    return sorted(find_excess(usage_of(policy, NODES, pods)))


def test_the_newest_pods_above_the_cap_are_excess():
    assert excess(P, aged("x", 2), aged("old", 1), aged("y", 2)) == ["x", "y"]
    assert excess(P, aged("only", 1)) == []
    # Of the same age the name decides.
    assert excess(P, aged("x", 2), aged("y", 2)) == ["y"]


def test_a_terminating_pod_leaves_first():
    assert excess(P, aged("old", 1, terminating=True), aged("new", 2)) == ["old"]


def test_excess_of_resources_is_taken_from_pods_that_request_them():
    units = [a_unit("od", 5, nodes={"tier": "od"}, max_resources={"cpu": "2"})]
    policy = a_policy(units=units)
    pods = [aged("a", 1, cpu="1"), aged("b", 2, cpu="1500m"), aged("none", 3, cpu="0")]
    assert excess(policy, *pods) == ["b"]


def test_excess_is_found_in_each_group():
    policy = a_policy(match_label_keys=["h"])
    pods = [aged("a", 1, h="1"), aged("b", 2, h="1"), aged("c", 3, h="2")]
    assert excess(policy, *pods) == ["b"]
    # A pod without the label is compared with all pods.
    assert excess(policy, *pods, aged("d", 4)) == ["b", "d"]
    assert excess(policy, *pods, aged("d", 0)) == ["b"]


def status_of(policy, pods=(), conflict=None):
    usage = usage_of(policy, NODES, pods)
    (write,) = plan_policy_status(policy.object, usage, conflict, NOW).writes
    assert write.subresource == "status"
    assert write.patch["metadata"] == {"uid": policy.object.uid, "resourceVersion": "9"}
    return write.patch["status"]


def test_zeros_are_written():
    found = status_of(a_policy())
    assert found["units"] == [
        {"name": "od", "nodes": 1, "pods": 0, "maxCount": 1},
        {"name": "spot", "nodes": 1, "pods": 0},
    ]
    assert (found["observedGeneration"], found["usage"]) == (3, "od 0/1, spot 0")


def test_a_message_lists_some_names_only():
    others = tuple(f"q{i}" for i in range(9))
    found = status_of(P, conflict=PolicyConflict(others, "w"))
    (message,) = [c["message"] for c in found["conditions"] if c["type"] == "Conflicting"]
    assert message == (
        "pods such as w are also selected by ResourcePolicy q0, q1, q2, q3, q4 and 4 more"
    )
    pods = [aged(f"p{i}", 1, h=str(i // 2)) for i in range(14)]
    found = status_of(a_policy(match_label_keys=["h"]), pods)
    (message,) = [c["message"] for c in found["conditions"] if c["type"] == "OverCapacity"]
    assert message.startswith("unit od has 2 pods with h=0, maxCount is 1; ")
    assert message.endswith(" and 2 more")


def test_a_policy_with_ten_thousand_groups_has_a_small_status():
    pods = [aged(f"p{i}", 1, h=str(i)) for i in range(10_000)]
    found = status_of(a_policy(match_label_keys=["h"]), pods)
    assert found["units"][0]["pods"] == 10_000
    assert len(found["units"][0]["groups"]) == MAX_GROUPS
