from __future__ import annotations

import msgspec
import pytest

from holdfast.api.meta import Condition
from holdfast.api.scheme import REPLICASETS
from holdfast.api.timestamps import rfc3339
from holdfast.api.workloads import POD_TEMPLATE_HASH, resolve_int_or_percent, same_template
from holdfast.controllers.deployment import revisions, rollout
from holdfast.controllers.deployment.controller import plan_deployment
from holdfast.controllers.deployment.rollout import DESIRED, MAXIMUM, ReplicaBounds
from holdfast.controllers.planned_writes import Delete, Patch
from holdfast.testing import a_deployment, a_pod, a_replica_set, typed

NOW = 1_700_000_000.0


def a_web(replicas=4, *, strategy=None, status=None, annotations=None, **spec):
    raw = a_deployment("web", replicas=replicas)
    raw["spec"] |= {"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, **spec}
    if strategy:
        raw["spec"]["strategy"] = strategy
    if status:
        raw["status"] = status
    return typed(
        raw, generation=1, annotations=annotations or {"deployment.kubernetes.io/revision": "1"}
    )


def rolling(surge, unavailable):
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def an_rs(web, name, size, *, available=None, current=True, revision=1, age=100, desired=None):
    """A ReplicaSet of the Deployment; without ``current`` it has another template."""
    desired = web.spec.replicas if desired is None else desired
    bounds = ReplicaBounds.of(web)
    raw = a_replica_set(name, replicas=size)
    raw["spec"]["template"] = dict(web.spec.template)
    if not current:
        raw["spec"]["template"] = {**web.spec.template, "spec": {"containers": [{"name": "old"}]}}
    raw["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    available = size if available is None else available
    raw["status"] = {
        "replicas": size, "readyReplicas": available, "availableReplicas": available,
        "observedGeneration": 1,
    }  # fmt: skip
    annotations = {
        revisions.REVISION: str(revision), DESIRED: str(desired),
        MAXIMUM: str(desired + bounds.max_surge),
    }  # fmt: skip
    return typed(
        raw, generation=1, annotations=annotations, labels={"app": "web"},
        creation_timestamp=rfc3339(NOW - age),
        owner_references=[
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": web.uid,
             "controller": True}
        ],
    )  # fmt: skip


def sizes(plan):
    return {
        w.name: w.patch["spec"]["replicas"]
        for w in plan.writes
        if isinstance(w, Patch)
        and w.resource == REPLICASETS
        and "replicas" in w.patch.get("spec", {})
    }


def status(plan):
    found = [w.patch["status"] for w in plan.writes if isinstance(w, Patch) and w.subresource]
    return found[-1] if found else None


def said(plan, type_):
    conditions = {c["type"]: c for c in status(plan)["conditions"]}
    return conditions[type_]["status"], conditions[type_]["reason"]


@pytest.mark.parametrize(
    ("value", "total", "up", "expected"),
    [("25%", 10, True, 3), ("25%", 10, False, 2), ("100%", 3, True, 3), (2, 10, True, 2)],
)
def test_percentages_round_surge_up_and_unavailability_down(value, total, up, expected):
    assert resolve_int_or_percent(value, total, up=up) == expected


def test_if_both_limits_are_zero_one_replica_may_be_unavailable():
    bounds = ReplicaBounds.of(a_web(3, strategy=rolling(0, "10%")))
    assert (bounds.max_surge, bounds.max_unavailable) == (0, 1)


def test_the_first_plan_creates_the_replica_set():
    web = a_web(
        3, annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"}
    )
    plan = plan_deployment(web, [], [], NOW)

    assert plan.creation is not None
    body = plan.creation.body
    digest = body["metadata"]["labels"]["pod-template-hash"]
    assert body["metadata"]["name"] == f"web-{digest}"
    assert body["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert body["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == digest
    assert body["spec"]["replicas"] == 3
    annotations = body["metadata"]["annotations"]
    assert annotations == {"team": "a", revisions.REVISION: "1", DESIRED: "3", MAXIMUM: "4"}
    assert plan.events == (f"Scaled up replica set web-{digest} from 0 to 3",)
    assert said(plan, "Progressing") == ("True", "NewReplicaSetCreated")
    assert said(plan, "Available") == ("False", "MinimumReplicasUnavailable")


def test_the_hash_depends_on_the_template_and_the_collision_count():
    template = a_web().spec.template
    assert revisions.template_hash(template, 0) == revisions.template_hash(dict(template), 0)
    assert revisions.template_hash(template, 0) != revisions.template_hash(template, 1)
    other = {**template, "spec": {"containers": []}}
    assert revisions.template_hash(template, 0) != revisions.template_hash(other, 0)


def test_templates_are_compared_without_hash_label_and_empty_fields():
    one = {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}
    other = {
        "metadata": {"labels": {"a": "b", POD_TEMPLATE_HASH: "h"}, "creationTimestamp": None},
        "spec": {"x": 1, "securityContext": {}},
    }
    assert same_template(one, other)
    assert not same_template(one, {**other, "spec": {"x": 2}})


def test_a_rollout_first_scales_the_new_replica_set_up_by_the_surge():
    web = a_web(4, strategy=rolling(1, 1))
    old = an_rs(web, "old", 4, current=False)
    plan = plan_deployment(web, [old], [], NOW)
    assert plan.creation.body["spec"]["replicas"] == 1
    assert plan.creation.body["metadata"]["annotations"][revisions.REVISION] == "2"


def test_a_rollout_scales_the_old_down_to_the_minimum_of_available_replicas():
    web = a_web(4, strategy=rolling(1, 1))
    old = an_rs(web, "old", 4, current=False)
    starting = an_rs(web, "new", 1, available=0, revision=2)
    assert sizes(plan_deployment(web, [old, starting], [], NOW)) == {"old": 3}
    started = an_rs(web, "new", 1, revision=2)
    assert sizes(plan_deployment(web, [old, started], [], NOW)) == {"old": 2}


def test_a_rollout_does_not_count_replicas_above_the_spec():
    """The status of the old ReplicaSet is stale: it still counts a replica above its spec."""
    web = a_web(4)
    new = an_rs(web, "new", 3, available=2, revision=2, age=1)
    old = an_rs(web, "old", 2, available=3, current=False)
    assert sizes(plan_deployment(web, [new, old], [], NOW)) == {"old": 1}


def test_a_rollout_removes_unavailable_old_replicas_first():
    web = a_web(4, strategy=rolling(1, 0))
    sick = an_rs(web, "sick", 2, available=0, current=False, age=50)
    well = an_rs(web, "well", 2, current=False, age=100)
    new = an_rs(web, "new", 1, available=1, revision=3)
    assert sizes(plan_deployment(web, [sick, well, new], [], NOW)) == {"sick": 1}


def test_a_rollout_waits_for_unavailable_new_replicas():
    web = a_web(4, strategy=rolling(1, 0))
    old = an_rs(web, "old", 4, current=False)
    stuck = an_rs(web, "new", 1, available=0, revision=2)
    assert sizes(plan_deployment(web, [old, stuck], [], NOW)) == {}


def test_recreate_waits_until_the_last_old_pod_has_ended():
    web = a_web(2, strategy={"type": "Recreate"})
    old = an_rs(web, "old", 2, current=False)
    assert sizes(plan_deployment(web, [old], [], NOW)) == {"old": 0}

    empty = an_rs(web, "old", 0, current=False)
    lingering = typed(
        a_pod("p", node="n"),
        owner_references=[
            {"kind": "ReplicaSet", "name": "old", "uid": empty.uid, "controller": True}
        ],
    )
    assert plan_deployment(web, [empty], [lingering], NOW).creation is None
    assert plan_deployment(web, [empty], [], NOW).creation.body["spec"]["replicas"] == 2


def test_scaling_during_a_rollout_is_proportional():
    web = a_web(20, strategy=rolling(5, 5))
    old = an_rs(web, "old", 8, current=False, desired=10, age=100)
    new = an_rs(web, "new", 7, revision=2, desired=10, age=50)
    assert sizes(plan_deployment(web, [old, new], [], NOW)) == {"old": 13, "new": 12}


def test_scaling_a_single_replica_set_is_immediate():
    web = a_web(7)
    only = an_rs(web, "only", 3, desired=3)
    plan = plan_deployment(web, [only], [], NOW)
    assert sizes(plan) == {"only": 7}
    assert plan.events == ("Scaled up replica set only from 3 to 7",)


def test_a_paused_deployment_scales_but_does_not_roll_out():
    web = a_web(4, paused=True)
    old = an_rs(web, "old", 2, current=False, desired=2)
    plan = plan_deployment(web, [old], [], NOW)
    assert plan.creation is None
    assert sizes(plan) == {"old": 4}
    assert said(plan, "Progressing") == ("Unknown", "DeploymentPaused")


def test_a_rollback_gives_the_old_replica_set_the_highest_revision():
    web = a_web(2)
    back = an_rs(web, "first", 0, revision=1, age=200)
    bad = an_rs(web, "second", 2, revision=2, current=False)
    plan = plan_deployment(web, [back, bad], [], NOW)
    patches = [
        w.patch["metadata"] for w in plan.writes if isinstance(w, Patch) and w.name == "first"
    ]
    changes = [p["annotations"] for p in patches if revisions.REVISION in p["annotations"]]
    assert changes == [{revisions.REVISION: "3", revisions.HISTORY: "1"}]


def test_a_complete_rollout_deletes_old_revisions():
    web = a_web(2, revisionHistoryLimit=1)
    olds = [an_rs(web, f"old-{n}", 0, current=False, revision=n) for n in (1, 2, 3)]
    new = an_rs(web, "new", 2, revision=4)
    plan = plan_deployment(web, [*olds, new], [], NOW)
    assert said(plan, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert said(plan, "Available") == ("True", "MinimumReplicasAvailable")
    assert [w.name for w in plan.writes if isinstance(w, Delete)] == ["old-1", "old-2"]


def test_a_complete_deployment_needs_no_writes():
    web = a_web(2)
    new = an_rs(web, "new", 2)
    settled = msgspec.structs.replace(
        web, status=msgspec.convert(status(plan_deployment(web, [new], [], NOW)), type(web.status))
    )
    assert plan_deployment(settled, [new], [], NOW + 5000).writes == ()


def test_a_rollout_without_progress_exceeds_its_deadline():
    web = a_web(2)
    stuck = an_rs(web, "new", 2, available=0)
    plan = plan_deployment(web, [stuck], [], NOW)
    assert said(plan, "Progressing") == ("True", "ReplicaSetUpdated")
    known = msgspec.structs.replace(web, status=msgspec.convert(status(plan), type(web.status)))
    waiting = plan_deployment(known, [stuck], [], NOW + 100)
    assert (waiting.writes, waiting.requeue_after) == ((), 501.0)
    late = plan_deployment(known, [stuck], [], NOW + 601)
    assert said(late, "Progressing") == ("False", "ProgressDeadlineExceeded")


def test_the_deadline_of_a_resumed_deployment_starts_again():
    web = a_web(2, paused=True)
    stuck = an_rs(web, "new", 2, available=0)
    paused = status(plan_deployment(web, [stuck], [], NOW))
    resumed = typed(
        a_deployment("web", replicas=2) | {"status": paused}, generation=1, uid=web.uid,
        annotations=web.metadata.annotations,
    )  # fmt: skip
    raw_spec = msgspec.structs.replace(
        resumed.spec, progress_deadline_seconds=600, revision_history_limit=10
    )
    resumed = msgspec.structs.replace(resumed, spec=raw_spec)
    plan = plan_deployment(resumed, [stuck], [], NOW + 5000)
    assert said(plan, "Progressing") == ("Unknown", "DeploymentResumed")


def test_the_failure_of_a_replica_set_is_copied_to_the_deployment():
    web = a_web(2)
    failing = an_rs(web, "new", 2, available=0)
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "quota",
    }
    failing = msgspec.structs.replace(
        failing,
        status=msgspec.structs.replace(
            failing.status,
            conditions=tuple(msgspec.convert([condition], tuple[Condition, ...])),
        ),
    )
    assert said(plan_deployment(web, [failing], [], NOW), "ReplicaFailure") == (
        "True",
        "FailedCreate",
    )


def test_the_new_replica_set_never_exceeds_the_maximum():
    for total in range(12):
        for current in range(total + 1):
            bounds = ReplicaBounds(replicas=6, max_surge=2, max_unavailable=1, rolling=True)
            grown = rollout.new_replicaset_size(bounds, total, current)
            assert grown <= 6 or grown == current
            assert total - current + grown <= max(bounds.max_replicas, total)
