from __future__ import annotations

import json

import pytest

from controllers.classic_objects import (
    CLASSIC,
    a_classic_claim,
    a_user,
    allocated,
    inline,
    named,
    owner,
    typed_claim,
)
from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.api.timestamps import rfc3339
from holdfast.controllers.classic_dra.controller import QuotaWaiters
from holdfast.controllers.classic_dra.plan import plan_inline_claims, plan_release
from holdfast.controllers.planned_writes import Delete
from holdfast.testing import a_pod, typed


def plan(pod, *claims):
    return plan_inline_claims(pod, CLASSIC, {claim.name: claim for claim in claims}.get)


def owned(pod, name="p-gpu", **claim):
    return typed_claim(a_classic_claim(name, ownerReferences=[owner(pod)], **claim))


def test_an_inline_claim_has_the_metadata_and_the_spec_of_its_template():
    reference = {"apiGroup": "gpu.example.com", "kind": "GpuRequest", "name": "two"}
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    entry = inline(metadata=metadata, parametersRef=reference, allocationMode="Immediate")
    pod = typed(a_user("p", entry, named("c", "other")))
    made = plan(pod)
    (creation,) = made.creations.values()
    assert (creation.resource, creation.namespace) == (CLASSIC.claims, "default")
    assert creation.body == {
        "apiVersion": "core.k8s.io/v1alpha1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "p-gpu",
            "namespace": "default",
            **metadata,
            "ownerReferences": [owner(pod, blockOwnerDeletion=True)],
        },
        "spec": {
            "resourceClassName": "gpu.example.com",
            "parametersRef": reference,
            "allocationMode": "Immediate",
        },
    }
    assert plan(pod, owned(pod)).creations == {}


def test_only_pods_that_may_run_get_claims():
    for status in ({"phase": "Succeeded"}, {"phase": "Failed"}):
        assert not plan(typed(a_user(status=status))).creations
    assert not plan(typed(a_user(), deletion_timestamp=rfc3339(0))).creations
    assert not plan(typed(a_pod("p", claims=[{"name": "gpu", "resourceClaimName": "c"}]))).creations


@pytest.mark.parametrize("owners", [[], ["same name"], ["not the controller"]])
def test_a_claim_that_the_pod_does_not_control_is_a_problem(owners):
    pod, earlier = typed(a_user()), typed(a_user(), uid="earlier")
    by_case = {"same name": owner(earlier), "not the controller": owner(pod, controller=False)}
    claim = typed_claim(a_classic_claim("p-gpu", ownerReferences=[by_case[c] for c in owners]))
    found = plan(pod, claim)
    assert not found.creations
    assert "was not created for pod" in found.problems["gpu"]


def test_entries_are_read_from_the_annotation_too():
    entry = '[{"name": "gpu", "claim": {"template": {"spec": {"resourceClassName": "k"}}}}]'
    (creation,) = plan(typed(a_pod("p", annotations={POD_CLAIMS: entry}))).creations.values()
    assert creation.body["metadata"]["name"] == "p-gpu"
    named = [{"name": f"{i}", "claim": {"resourceClaimName": "c"}} for i in range(33)]
    assert not plan(typed(a_pod("p", annotations={POD_CLAIMS: json.dumps(named[:32])}))).creations
    many = json.dumps(named)
    twice = json.dumps([json.loads(entry)[0]] * 2)
    both = {"resourceClaimName": "c", "template": {"spec": {}}}
    sources = [json.dumps([{"name": "a", "claim": claim}]) for claim in ({}, both)]
    unnamed = '[{"claim": {"resourceClaimName": "c"}}]'
    for broken in ("{", "3", '[{"name": 3}]', "[" * 100_000, many, twice, *sources, unnamed):
        with pytest.raises(InvalidEntries):
            plan(typed(a_pod("p", annotations={POD_CLAIMS: broken})))


RUNNING = typed(a_user("running", node="n", status={"phase": "Running"}))
FINISHED = typed(a_user("finished", node="n", status={"phase": "Succeeded"}))


def release(claim, *stale, pod=None, **settings):
    uids = {each.uid for each in stale}
    entries = {c for c in claim.status.reserved_for if c.uid in uids}
    return plan_release(claim, CLASSIC, entries, pod, **settings)


def test_stale_consumers_are_removed_in_one_write_and_the_others_kept():
    job = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "u"}
    claim = typed_claim(a_classic_claim(status=allocated(RUNNING, FINISHED, others=[job])))
    assert release(claim) == ()
    (write,) = release(claim, FINISHED)
    assert write.subresource == "status"
    assert write.patch == {
        "metadata": {"uid": claim.uid, "resourceVersion": "1"},
        "status": {"reservedFor": [allocated(RUNNING)["reservedFor"][0], job]},
    }


def test_a_claim_of_users_stays_allocated_unless_the_setting_says_otherwise():
    claim = typed_claim(a_classic_claim(status=allocated(FINISHED)))
    (write,) = release(claim, FINISHED, pod=None)
    assert write.patch["status"] == {"reservedFor": None}
    (write,) = release(claim, FINISHED, deallocate_unused=True)
    assert write.patch["status"] == {"reservedFor": None, "deallocationRequested": True}
    for kept in (
        a_classic_claim(status=allocated(FINISHED), immediate=True),
        a_classic_claim(status=allocated(FINISHED), deletionTimestamp=rfc3339(0)),
        a_classic_claim(status=allocated(FINISHED, RUNNING)),
    ):
        (write,) = release(typed_claim(kept), FINISHED, deallocate_unused=True)
        assert "deallocationRequested" not in write.patch["status"]


def test_the_claim_of_a_finished_pod_is_deleted_when_nothing_uses_it():
    claim = owned(FINISHED, "c", status=allocated(FINISHED))
    drop, delete = release(claim, FINISHED, pod=FINISHED)
    assert drop.subresource == "status"
    assert delete == Delete(CLASSIC.claims, "c", "default", claim.uid)
    assert len(release(owned(FINISHED, "c"), pod=FINISHED)) == 1
    used = owned(FINISHED, "c", status=allocated(FINISHED, RUNNING))
    assert len(release(used, FINISHED, pod=FINISHED)) == 1
    leaving = owned(FINISHED, "c", deletionTimestamp=rfc3339(0))
    assert release(leaving, pod=FINISHED) == ()
    assert release(owned(RUNNING, "c"), pod=RUNNING) == ()
    assert release(owned(FINISHED, "c"), pod=None) == (), "left to the garbage collector"


def test_the_first_of_each_line_is_tried_and_then_the_next():
    waiters = QuotaWaiters()
    for class_name, pod in (("a", "p1"), ("a", "p2"), ("b", "p3"), ("a", "p1")):
        waiters.wait("ns", class_name, pod)
    assert waiters.first("ns") == ["p1", "p3"]
    assert waiters.first("other") == []
    assert waiters.leave("ns", "p1", but={"a"}) == []
    assert waiters.leave("ns", "p1") == ["p2"]
    assert waiters.leave("ns", "p1") == []
    assert waiters.leave("ns", "p3") == []
    waiters.wait("ns", "a", "p4")
    assert waiters.leave("ns", "p2") == ["p4"]
    assert waiters.leave("ns", "p4") == []
    assert waiters.first("ns") == []
