from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.pod import Container, ContainerStatus
from holdfast.api.scheme import PODS
from holdfast.api.timestamps import rfc3339
from holdfast.controllers.planned_writes import Create, Delete
from holdfast.controllers.pod_ranking import in_deletion_order
from holdfast.controllers.replicaset import BURST_REPLICAS, ReplicaSetPlan, plan_replicaset
from holdfast.testing import a_pod, a_replica_set, typed

NOW = 1_700_000_000.0


def an_rs(replicas=3, **metadata):
    return typed(a_replica_set("rs", replicas=replicas), generation=1, **metadata)


def owned(name, rs, *, node=None, ready=False, labels=None, age=60.0, annotations=None, **meta):
    reference = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": rs.name, "uid": rs.uid,
        "controller": True,
    }  # fmt: skip
    status = {"phase": "Running" if ready else "Pending"}
    if ready:
        since = rfc3339(NOW - age)
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    labels = labels or {"app": "rs"}
    return typed(
        a_pod(name, node=node, labels=labels, status=status, annotations=annotations),
        owner_references=[reference], creation_timestamp=rfc3339(NOW - age), **meta,
    )  # fmt: skip


def counts(plan: ReplicaSetPlan):
    return len(plan.claims), len(plan.creations), len(plan.deletions)


def test_missing_pods_are_created_from_the_template():
    rs = an_rs(3)
    plan = plan_replicaset(rs, [owned("a", rs)], NOW)

    assert counts(plan) == (0, 2, 0)
    creation = plan.creations[0]
    assert isinstance(creation, Create)
    assert creation.resource == PODS
    meta = creation.body["metadata"]
    assert (meta["generateName"], meta["labels"]) == ("rs-", {"app": "rs"})
    (owner,) = meta["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (rs.uid, True, True)
    assert creation.body["spec"]["containers"] == rs.spec.template["spec"]["containers"]


def test_one_plan_creates_no_more_than_the_burst():
    assert counts(plan_replicaset(an_rs(2000), [], NOW)) == (0, BURST_REPLICAS, 0)


def test_finished_and_terminating_pods_do_not_count():
    rs = an_rs(2)
    done = msgspec.structs.replace(
        owned("done", rs), status=msgspec.structs.replace(owned("x", rs).status, phase="Succeeded")
    )
    going = owned("going", rs, deletion_timestamp=rfc3339(NOW))
    assert counts(plan_replicaset(rs, [done, going], NOW)) == (0, 2, 0)


def test_a_matching_orphan_is_adopted_and_a_pod_that_does_not_match_is_released():
    rs = an_rs(1)
    orphan = typed(a_pod("orphan", labels={"app": "rs"}))
    stranger = owned("stranger", rs, labels={"app": "other"})

    plan = plan_replicaset(rs, [orphan, stranger], NOW)

    assert counts(plan) == (2, 0, 0)
    by_name = {p.name: p.patch["metadata"] for p in plan.claims}
    assert by_name["orphan"]["ownerReferences"][0]["uid"] == rs.uid
    assert by_name["orphan"]["resourceVersion"] == "1"
    assert by_name["stranger"]["ownerReferences"] is None


def test_pods_of_another_controller_are_ignored():
    rs, other = an_rs(1), typed(a_replica_set("other"))
    assert counts(plan_replicaset(rs, [owned("theirs", other)], NOW)) == (0, 1, 0)


def test_a_replica_set_that_is_being_deleted_changes_nothing():
    rs = an_rs(3, deletion_timestamp=rfc3339(NOW))
    assert counts(plan_replicaset(rs, [typed(a_pod("o", labels={"app": "rs"}))], NOW)) == (0, 0, 0)


def test_scaling_down_deletes_pods_in_the_order_of_upstream():
    rs = an_rs(0)
    pods = [
        owned("ready-old", rs, node="n", ready=True, age=5000),
        owned("ready-young", rs, node="m", ready=True, age=2),
        owned(
            "ready-cheap", rs, node="m2", ready=True, age=5000, annotations={DELETION_COST: "-5"}
        ),
        owned("not-ready", rs, node="o"),
        owned("unassigned", rs),
    ]
    plan = plan_replicaset(rs, pods, NOW)
    order = ["unassigned", "not-ready", "ready-cheap", "ready-young", "ready-old"]
    assert [d.name for d in plan.deletions] == order
    assert plan.deletions[0] == Delete(PODS, "unassigned", "default", pods[-1].uid)


def test_of_two_equal_pods_the_one_on_the_node_with_more_related_pods_is_deleted():
    rs = an_rs(1)
    pods = [
        owned("alone", rs, node="a", ready=True),
        owned("crowded", rs, node="b", ready=True),
    ]
    sibling = an_rs(1)
    related_pods = [owned("relative", sibling, node="b", ready=True)]

    plan = plan_replicaset(rs, pods, NOW, related_pods=related_pods)

    assert [d.name for d in plan.deletions] == ["crowded"]


@pytest.mark.parametrize(
    "text", ("cheap", "", "-", "+5", "007", " -9", "-1_0", "1e3", "-2147483649", "9" * 400, "−9")
)
def test_a_malformed_deletion_cost_counts_as_zero(text):
    rs = an_rs(0)
    cheap = owned("cheap", rs, node="a", ready=True, annotations={DELETION_COST: "-1"})
    odd = owned("odd", rs, node="b", ready=True, annotations={DELETION_COST: text})
    dear = owned("dear", rs, node="c", ready=True, annotations={DELETION_COST: "1"})
    assert in_deletion_order([odd, dear, cheap], {}, NOW) == [cheap, odd, dear]


def test_the_deletion_cost_is_compared_after_ready_and_before_everything_else():
    rs = an_rs(0)
    dear = {DELETION_COST: "2147483647"}
    order = [
        owned("unassigned", rs, annotations=dear),
        owned("pending", rs, node="a", annotations=dear),
        owned("cheap-alone", rs, node="b", ready=True, age=5000),
        owned("dear-crowded", rs, node="c", ready=True, age=1, annotations=dear),
        owned("dear-alone", rs, node="d", ready=True, age=1, annotations=dear),
    ]
    assert in_deletion_order(reversed(order), {"c": 5}, NOW) == order


def test_of_pods_ready_since_the_same_time_those_with_more_restarts_are_deleted_first():
    rs = an_rs(0)

    def restarted(name, times, sidecar=0):
        found = owned(name, rs, node="n", ready=True)
        spec = msgspec.structs.replace(
            found.spec, init_containers=(Container(name="s", restart_policy="Always"),)
        )
        status = msgspec.structs.replace(
            found.status,
            container_statuses=(ContainerStatus(name="c", restart_count=times),),
            init_container_statuses=(
                ContainerStatus(name="s", restart_count=sidecar),
                ContainerStatus(name="init", restart_count=99),
            ),
        )
        return msgspec.structs.replace(found, spec=spec, status=status)

    order = [restarted("often", 7), restarted("sidecar", 1, sidecar=2), restarted("once", 1)]
    assert in_deletion_order(reversed(order), {}, NOW) == order


def test_the_status_is_written_only_if_it_changed():
    rs = an_rs(2)
    pods = [owned("a", rs, node="n", ready=True), owned("b", rs)]
    plan = plan_replicaset(rs, pods, NOW)
    assert plan.status is not None
    status = plan.status.patch["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (2, 1, 1)
    assert (status["fullyLabeledReplicas"], status["observedGeneration"]) == (2, 1)

    known = typed(
        a_replica_set("rs", replicas=2)
        | {"status": {k: v for k, v in status.items() if k != "conditions"}},
        generation=1,
    )
    assert plan_replicaset(known, pods, NOW).status is None


def test_a_ready_pod_is_available_after_min_ready_seconds():
    raw = a_replica_set("rs", replicas=1)
    raw["spec"]["minReadySeconds"] = 10
    rs = typed(raw, generation=1)
    pod = owned("a", rs, node="n", ready=True, age=4)

    plan = plan_replicaset(rs, [pod], NOW)
    assert plan.status.patch["status"]["availableReplicas"] == 0
    assert plan.requeue_after == 6
    plan = plan_replicaset(rs, [pod], NOW + 6)
    assert plan.status.patch["status"]["availableReplicas"] == 1
    assert plan.requeue_after is None


def test_a_refused_creation_sets_a_condition_which_is_removed_later():
    rs = an_rs(1)
    plan = plan_replicaset(rs, [], NOW, failure='pods "x" is forbidden: exceeded quota')
    (condition,) = plan.status.patch["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert "exceeded quota" in condition["message"]

    failing = msgspec.structs.replace(
        rs, status=msgspec.convert({"conditions": [condition]}, type(rs.status))
    )
    plan = plan_replicaset(failing, [owned("a", rs)], NOW, failure="old words")
    assert plan.status.patch["status"]["conditions"] is None


def test_a_plan_is_a_value():
    rs = an_rs(1)
    plan = plan_replicaset(rs, [], NOW)
    assert plan == plan_replicaset(rs, [], NOW)
    assert replace(plan, creations=()) != plan
