from __future__ import annotations

import json

import msgspec
import pytest

from holdfast.api import reservation_names as names
from holdfast.api.timestamps import rfc3339
from holdfast.controllers.reservation.plan import plan_collection, plan_reservation
from holdfast.controllers.reservation.usage import NodeUsage
from holdfast.testing import a_node, a_pod, a_reservation, typed

NOW = 1_700_000_000.0
READY = [
    {"type": "Scheduled", "status": "True", "reason": "Scheduled"},
    {
        "type": "Ready", "status": "True", "reason": "Available",
        "lastTransitionTime": rfc3339(NOW - 100), "lastProbeTime": rfc3339(NOW - 100),
    },
]  # fmt: skip


def an_rsv(phase="Available", *, allocatable=None, age=60.0, status=None, name="r", **spec):
    spec.setdefault("allocate_once", False)
    on_node = {} if phase == "Pending" else {"nodeName": "n"}
    body = {
        "phase": phase, "conditions": READY if phase != "Pending" else [],
        "allocatable": allocatable or {"cpu": "4", "memory": "4Gi"}, **on_node, **(status or {}),
    }  # fmt: skip
    return typed(a_reservation(name, status=body, **spec), creation_timestamp=rfc3339(NOW - age))


def typed_like(rsv, *, status):
    return an_rsv(
        rsv.phase, pre_allocation=rsv.spec.pre_allocation, allocatable=rsv.status.allocatable,
        status=status,
    )  # fmt: skip


def an_owner(rsv, name="p", *, uid=None, phase="Running", draws=None, **pod):
    annotations = {names.ALLOCATED: json.dumps({"name": rsv.name, "uid": rsv.uid})}
    if draws is not None:
        annotations[names.DRAWS] = json.dumps(draws)
    raw = a_pod(name, node="n", annotations=annotations, status={"phase": phase}, **pod)
    return typed(raw, **({"uid": uid} if uid else {}))


def usage(*pods, neighbours=(), **node):
    return NodeUsage(typed(a_node("n", **(node or {"cpu": "16"}))), pods, neighbours)


def written(plan):
    (write,) = plan.writes
    assert write.subresource == "status"
    assert write.patch["metadata"]["resourceVersion"] == "1"
    return write.patch["status"]


def ready_of(status):
    return next(c for c in status["conditions"] if c["type"] == "Ready")


def test_owners_are_sorted_by_uid_and_their_requests_masked_to_what_is_reserved():
    rsv = an_rsv()
    pods = [
        an_owner(rsv, "b", uid="2", cpu="1", memory="1Gi", requests={"example.com/x": 1}),
        an_owner(rsv, "a", uid="1", cpu="500m", memory="1Gi"),
    ]
    status = written(plan_reservation(rsv, usage(*pods), NOW))
    assert [o["uid"] for o in status["currentOwners"]] == ["1", "2"]
    assert status["currentOwners"][0] == {"namespace": "default", "name": "a", "uid": "1"}
    assert status["allocated"] == {"cpu": "1500m", "memory": "2Gi"}
    assert "phase" not in status


def test_allocated_is_not_capped():
    rsv = an_rsv(allocatable={"cpu": "4"})
    status = written(plan_reservation(rsv, usage(an_owner(rsv, cpu="6", memory="1Gi")), NOW))
    assert status["allocated"] == {"cpu": "6"}


def test_no_change_is_no_write():
    rsv = an_rsv()
    pod = an_owner(rsv, cpu="2")
    known = written(plan_reservation(rsv, usage(pod), NOW))
    synced = an_rsv(status=known)
    assert plan_reservation(synced, usage(pod), NOW).writes == ()


def test_finished_pods_and_pods_of_an_older_reservation_do_not_count():
    rsv = an_rsv()
    done = an_owner(rsv, "done", phase="Succeeded", cpu="2")
    earlier = msgspec.structs.replace(rsv.metadata, uid="old")
    other = an_owner(msgspec.structs.replace(rsv, metadata=earlier), "other", cpu="2")
    assert plan_reservation(rsv, usage(done, other), NOW).writes == ()


def test_a_deleted_owner_is_removed_from_a_reusable_reservation():
    rsv = an_rsv(status={
        "currentOwners": [{"namespace": "default", "name": "p", "uid": "1"}],
        "allocated": {"cpu": "2"},
    })  # fmt: skip
    status = written(plan_reservation(rsv, usage(), NOW))
    assert status["currentOwners"] == []
    assert status["allocated"] == {"cpu": None}


def test_allocations_from_several_reservations_count_in_each():
    one, two = an_rsv(name="one"), an_rsv(name="two")
    draws = [
        {"name": "one", "uid": one.uid, "resources": {"cpu": "2"}},
        {"name": "two", "uid": two.uid, "resources": {"memory": "1Gi"}},
    ]
    pod = an_owner(one, cpu="2", memory="1Gi", draws=draws)
    assert written(plan_reservation(one, usage(pod), NOW))["allocated"] == {"cpu": "2"}
    assert written(plan_reservation(two, usage(pod), NOW))["allocated"] == {"memory": "1Gi"}


def test_allocate_once_succeeds_when_its_owner_appears():
    rsv = an_rsv(allocate_once=True)
    status = written(plan_reservation(rsv, usage(an_owner(rsv, cpu="4")), NOW))
    assert status["phase"] == "Succeeded"
    assert status["allocated"] == {"cpu": "4"}
    ready = ready_of(status)
    assert (ready["status"], ready["reason"]) == ("False", "Succeeded")
    assert ready["lastProbeTime"] == ready["lastTransitionTime"] == rfc3339(NOW)
    assert {c["type"] for c in status["conditions"]} == {"Scheduled", "Ready"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_phases_are_final(phase):
    rsv = an_rsv(phase, age=1e9)
    assert plan_reservation(rsv, usage(), NOW).writes == ()
    assert plan_reservation(rsv, NodeUsage(None), NOW).writes == ()


@pytest.mark.parametrize(
    ("age", "spec", "expired"),
    [
        (11, {"ttl": "10s"}, True),
        (10, {"ttl": "10s"}, False),  # strictly later than
        (1e9, {"ttl": "0s"}, False),
        (1e9, {"ttl": "0"}, False),
        (86401, {"ttl": None}, True),
        (25 * 3600, {"ttl": "24h", "expires": rfc3339(NOW + 23 * 3600)}, False),
        (1, {"ttl": "24h", "expires": rfc3339(NOW - 1)}, True),
        (1, {"ttl": "0", "expires": rfc3339(NOW - 1)}, True),
        (86401, {"ttl": "soon"}, True),  # unreadable: the default
    ],
)
@pytest.mark.parametrize("phase", ["Pending", "Available", "Waiting"])
def test_expiry(phase, age, spec, expired):
    rsv = an_rsv(phase, age=age, pre_allocation=phase == "Waiting", **spec)
    plan = plan_reservation(rsv, usage() if phase != "Pending" else None, NOW)
    if not expired:
        assert all(w.patch["status"].get("phase") != "Failed" for w in plan.writes)
        return
    status = written(plan)
    assert status["phase"] == "Failed"
    ready = ready_of(status)
    assert (ready["status"], ready["reason"]) == ("False", "Expired")
    assert ready["lastTransitionTime"] == rfc3339(NOW)
    assert "currentOwners" not in status, "what was used is frozen"


def test_a_reservation_is_reconciled_again_just_after_its_end():
    plan = plan_reservation(an_rsv(ttl="100s", age=60), usage(), NOW)
    assert plan.requeue_after == 41


def test_a_reservation_whose_node_is_gone_expires():
    status = written(plan_reservation(an_rsv(), NodeUsage(None), NOW))
    assert (status["phase"], ready_of(status)["reason"]) == ("Failed", "Expired")


def test_a_waiting_reservation_becomes_available_when_its_resources_are_free():
    rsv = an_rsv("Waiting", pre_allocation=True, allocate_once=True, allocatable={"cpu": "4"})
    bound = an_owner(rsv, cpu="4")
    held = written(plan_reservation(rsv, usage(bound), NOW))
    assert "phase" not in held, "a pre-allocated pod never makes it succeed"
    squatter = typed(a_pod("s", cpu="14", node="n", status={"phase": "Running"}))
    waits = written(plan_reservation(rsv, usage(squatter), NOW))
    assert ready_of(waits)["message"] == "waiting for resources to become free"
    assert (waits.keys(), ready_of(waits)["reason"]) == ({"conditions"}, "Waiting")
    told = typed_like(rsv, status={"conditions": waits["conditions"]})
    assert plan_reservation(told, usage(squatter), NOW).writes == (), "said once"
    status = written(plan_reservation(rsv, usage(), NOW))
    assert status["phase"] == "Available"
    assert ready_of(status)["status"] == "True"


def test_a_waiting_reservation_names_the_pods_that_it_still_waits_for():
    rsv = an_rsv("Waiting", pre_allocation=True, allocatable={"cpu": "4"})
    pods = [an_owner(rsv, name, uid=name, cpu="2") for name in ("b1", "b2")]

    def message(*there):
        return ready_of(written(plan_reservation(rsv, usage(*there), NOW)))["message"]

    assert message(*pods) == "waiting for the resources of default/b1, default/b2"
    assert message(pods[1]) == "waiting for the resources of default/b2"


@pytest.mark.parametrize(("once", "phase"), [(True, "Succeeded"), (False, "Failed")])
def test_an_owner_that_was_bound_just_before_the_end_is_recorded(once, phase):
    rsv = an_rsv(ttl="60s", age=61, allocate_once=once, allocatable={"cpu": "4"})
    status = written(plan_reservation(rsv, usage(an_owner(rsv, cpu="2")), NOW))
    assert (status["phase"], status["allocated"]) == (phase, {"cpu": "2"})
    assert [owner["name"] for owner in status["currentOwners"]] == ["p"]


def test_an_owner_whose_binding_was_seen_after_the_end_is_recorded():
    rsv = an_rsv("Failed", allocatable={"cpu": "4"})
    late = an_owner(rsv, cpu="2")
    status = written(plan_reservation(rsv, usage(late), NOW))
    assert (status["allocated"], status.keys()) == ({"cpu": "2"}, {"currentOwners", "allocated"})
    listed = [{"namespace": "default", "name": "p", "uid": late.uid}]
    frozen = an_rsv("Failed", status={"currentOwners": listed, "allocated": {"cpu": "2"}})
    assert plan_reservation(frozen, usage(), NOW).writes == (), "it stays as it was at the end"


def test_a_succeeded_reservation_whose_owner_is_gone_has_nothing_allocated():
    gone = [{"namespace": "default", "name": "p", "uid": "u"}]
    rsv = an_rsv("Succeeded", status={"currentOwners": gone, "allocated": {"cpu": "2"}})
    status = written(plan_reservation(rsv, usage(), NOW))
    assert status == {"currentOwners": [], "allocated": {"cpu": None}}


def test_a_pod_bound_by_another_scheduler_makes_a_reservation_overcommitted():
    rsv = an_rsv(allocatable={"cpu": "4"})
    intruder = typed(a_pod("x", cpu="13", node="n", status={"phase": "Running"}))
    plan = plan_reservation(rsv, usage(intruder), NOW)
    ready = ready_of(written(plan))
    assert (ready["status"], ready["reason"]) == ("False", "Overcommitted")
    assert "cpu" in ready["message"]
    assert [(n.type, n.reason) for n in plan.events] == [("Warning", "Overcommitted")]

    broken = an_rsv(allocatable={"cpu": "4"}, status={"conditions": written(plan)["conditions"]})
    assert plan_reservation(broken, usage(intruder), NOW).writes == (), "said once"
    healed = ready_of(written(plan_reservation(broken, usage(), NOW)))
    assert (healed["status"], healed["reason"]) == ("True", "Available")


def test_reservations_of_one_node_add_up():
    one = an_rsv(name="one", allocatable={"cpu": "8"})
    two = an_rsv(name="two", allocatable={"cpu": "8"})
    fine = usage(neighbours=(one, two))
    assert plan_reservation(one, fine, NOW).writes == ()
    pod = typed(a_pod("x", cpu="1", node="n", status={"phase": "Running"}))
    short = usage(pod, neighbours=(one, two))
    assert ready_of(written(plan_reservation(one, short, NOW)))["reason"] == "Overcommitted"


def test_a_pod_that_ignores_reservations_makes_the_one_it_enters_overcommitted():
    rsv = an_rsv(allocatable={"cpu": "4"})
    beside = typed(a_pod("x", cpu="12", node="n", labels={names.IGNORED: "true"}))
    assert plan_reservation(rsv, usage(beside), NOW).writes == ()
    inside = typed(a_pod("x", cpu="13", node="n", labels={names.IGNORED: "true"}))
    ready = ready_of(written(plan_reservation(rsv, usage(inside), NOW)))
    assert (ready["status"], ready["reason"]) == ("False", "Overcommitted")
    assert "ignore reservations" in ready["message"]


def ended(phase, reason, age, name="e"):
    when = rfc3339(NOW - age)
    ready = {
        "type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": when,
        "lastProbeTime": when,
    }  # fmt: skip
    return an_rsv(phase, status={"conditions": [ready]}, name=name)


def test_reservations_that_ended_a_day_ago_are_deleted():
    long_ago = [
        ended("Failed", "Expired", 86401, "expired"),
        ended("Succeeded", "Succeeded", 86401, "succeeded"),
    ]
    kept = [
        ended("Failed", "Expired", 86399, "recent"),
        ended("Failed", "Unschedulable", 1e6, "failed-otherwise"),
        an_rsv(age=1e6, ttl="0", name="alive"),
    ]
    deletions = plan_collection([*long_ago, *kept], {"n"}, NOW, 86400)
    assert [d.name for d in deletions] == ["expired", "succeeded"]
    assert all(d.uid for d in deletions)


def test_ended_reservations_of_deleted_nodes_are_deleted_at_once():
    assert len(plan_collection([ended("Failed", "Expired", 1)], {"other"}, NOW, 86400)) == 1
    assert plan_collection([ended("Failed", "Expired", 1)], {"n"}, NOW, 86400) == ()
