from __future__ import annotations

import msgspec

from holdfast.api.decode import convert_object
from holdfast.api.devices import CLAIM_FINALIZER
from holdfast.api.pod import claim_names
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.api.timestamps import rfc3339
from holdfast.controllers.claim_templates import (
    POD_CLAIM_NAME,
    RawTemplate,
    claim_statuses_patch,
    plan_pod_claims,
    plan_reserved_for,
)
from holdfast.controllers.planned_writes import Delete, Patch
from holdfast.controllers.resource_claim import plan_claim
from holdfast.testing import a_claim, a_claim_template, a_pod, typed

ALLOCATED = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}


def a_template(name="t", **metadata):
    raw = a_claim_template(name)
    raw["spec"]["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    raw["metadata"]["uid"] = "template-uid"
    return convert_object(raw, RawTemplate)


def a_user(name="p", entry="gpu", *, recorded=None, **pod):
    status = {"phase": "Pending"}
    if recorded is not None:
        status["resourceClaimStatuses"] = [{"name": entry, "resourceClaimName": recorded}]
    meta = {k: pod.pop(k) for k in ("deletion_timestamp", "uid") if k in pod}
    status |= pod.pop("status", {})
    claims = [{"name": entry, "resourceClaimTemplateName": "t"}]
    return typed(a_pod(name, claims=claims, status=status, **pod), **meta)


def owned_claim(pod, name="c", entry="gpu", **claim):
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
    }
    meta = claim.pop("metadata", {})
    return typed(
        a_claim(name, **claim),
        owner_references=[owner],
        annotations={POD_CLAIM_NAME: entry},
        **meta,
    )


def plan(pod, *claims, templates=True):
    by_name = {c.name: c for c in claims}
    known = {"t": a_template()} if templates else {}
    return plan_pod_claims(pod, by_name.get, claims, known.get)


def consumer(pod):
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def test_a_claim_is_created_from_the_template():
    made = plan(a_user()).creations["gpu"]
    meta = made.body["metadata"]
    assert meta["generateName"] == "p-gpu-"
    assert meta["labels"] == {"team": "a"}
    assert meta["annotations"] == {"note": "b", POD_CLAIM_NAME: "gpu"}
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("Pod", True)
    assert made.body["spec"] == a_claim_template("t")["spec"]["spec"]


def test_long_names_are_cut_in_proportion():
    pod = a_user("p" * 60, "e" * 30)
    name = plan(pod).creations["e" * 30].body["metadata"]["generateName"]
    assert len(name) <= 58
    left, right = name.split("-")
    assert (len(left), len(right)) == (60 * 57 // 92, 30 * 57 // 92)


def test_a_recorded_claim_needs_no_write_and_a_deleted_one_is_created_again():
    pod = a_user(recorded="c")
    assert plan(pod, owned_claim(pod)).creations == {}
    assert set(plan(pod).creations) == {"gpu"}


def test_a_recorded_claim_of_another_owner_is_replaced():
    pod = a_user(recorded="c")
    assert set(plan(pod, owned_claim(a_user("other"))).creations) == {"gpu"}


def test_an_unrecorded_claim_of_this_pod_is_recorded():
    pod = a_user()
    found = plan(pod, owned_claim(pod, "c-xyz"))
    assert (found.creations, dict(found.found)) == ({}, {"gpu": "c-xyz"})
    patch = claim_statuses_patch(pod, found.found).patch
    entries = patch["status"]["resourceClaimStatuses"]
    assert entries == [{"name": "gpu", "resourceClaimName": "c-xyz"}]


def test_an_entry_that_needs_no_claim_gets_none():
    pod = a_user(status={"resourceClaimStatuses": [{"name": "gpu"}]})
    assert plan(pod).creations == {}
    assert claim_names(pod) == ()


def test_a_missing_template_is_named_in_the_problem():
    problem = plan(a_user(), templates=False)
    assert problem.missing_templates == ("t",)
    assert 'resource claim template "t"' in problem.problems["gpu"]


def test_finished_and_deleted_pods_get_no_claims():
    assert plan(a_user(status={"phase": "Failed"})).creations == {}
    assert plan(a_user(deletion_timestamp=rfc3339(0))).creations == {}


def test_allocated_claims_are_reserved_for_a_bound_pod():
    pod = a_user(recorded="c", node="n")
    claim = owned_claim(pod, status={"allocation": ALLOCATED})
    (patch,) = plan_reserved_for(pod, {"c": claim}.get)
    assert patch.patch["status"]["reservedFor"] == [consumer(pod)]
    assert patch.patch["metadata"]["resourceVersion"] == "1"
    assert plan_reserved_for(a_user(recorded="c"), {"c": claim}.get) == (), (
        "the scheduler reserves the claims of unassigned pods"
    )
    unallocated = owned_claim(pod)
    assert plan_reserved_for(pod, {"c": unallocated}.get) == ()


def in_use(*pods, finalizers=(CLAIM_FINALIZER,), **meta):
    status = {"allocation": ALLOCATED, "reservedFor": [consumer(p) for p in pods]}
    return typed(a_claim("c", status=status), finalizers=list(finalizers), **meta)


def test_after_the_last_consumer_the_claim_is_deallocated_and_its_finalizer_removed():
    pod = a_user(status={"phase": "Succeeded"})
    release, unprotect = plan_claim(in_use(pod), {"p": pod})
    assert isinstance(release, Patch) and isinstance(unprotect, Patch)
    assert release.subresource == "status"
    assert release.patch["status"] == {"reservedFor": None, "allocation": None}
    assert unprotect.patch["metadata"]["finalizers"] is None


def test_a_claim_with_a_remaining_consumer_stays_allocated():
    gone, alive = a_user("gone"), a_user("alive", node="n")
    (release,) = plan_claim(in_use(gone, alive), {"gone": None, "alive": alive})
    assert release.patch["status"] == {"reservedFor": [consumer(alive)]}


def test_a_consumer_without_a_uid_is_removed():
    status = {"reservedFor": [{"resource": "pods", "name": "p"}]}
    claim = typed(a_claim("c") | {"status": status})
    [release] = plan_claim(claim, {"p": None})
    assert release.patch["status"] == {"reservedFor": None}


def test_consumers_that_are_unknown_running_or_not_pods_are_kept():
    pod = a_user(node="n")
    assert plan_claim(in_use(pod), {}) == ()
    assert plan_claim(in_use(pod), {"p": pod}) == ()
    other = typed(
        a_claim(
            "c",
            status={
                "allocation": ALLOCATED,
                "reservedFor": [{"apiGroup": "x.io", "resource": "jobs", "name": "p", "uid": "1"}],
            },
        )
    )
    assert plan_claim(other, {"p": None}) == ()


def test_a_replaced_pod_and_a_pod_deleted_before_scheduling_are_removed():
    pod = a_user()
    assert len(plan_claim(in_use(pod), {"p": a_user(uid="another")})) == 2
    leaving = a_user(deletion_timestamp=rfc3339(0))
    assert len(plan_claim(in_use(pod), {"p": leaving})) == 2
    running = a_user(deletion_timestamp=rfc3339(0), node="n")
    assert plan_claim(in_use(pod), {"p": running}) == ()


def test_an_allocated_claim_without_consumers_stays_allocated():
    assert plan_claim(in_use(), {}) == ()


def test_a_deleted_claim_without_consumers_is_released():
    release, unprotect = plan_claim(in_use(deletion_timestamp=rfc3339(0)), {})
    assert release.patch["status"]["allocation"] is None
    assert unprotect.patch["metadata"]["finalizers"] is None
    other = in_use(finalizers=(CLAIM_FINALIZER, "x.io/y"), deletion_timestamp=rfc3339(0))
    *_, unprotect = plan_claim(other, {})
    assert unprotect.patch["metadata"]["finalizers"] == ["x.io/y"]


def test_a_generated_claim_is_deleted_when_its_pod_is_done():
    pod = a_user(status={"phase": "Failed"})
    claim = owned_claim(pod)
    assert plan_claim(claim, {"p": pod}) == (Delete(RESOURCE_CLAIMS, "c", "default", claim.uid),)
    assert plan_claim(claim, {}) == (), "the garbage collector deletes the claims of missing owners"
    assert plan_claim(claim, {"p": a_user(node="n")}) == ()


def test_the_special_claim_of_extended_resources_is_deleted_with_its_pod():
    status = {
        "phase": "Succeeded",
        "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []},
    }
    pod = typed(a_pod("p", node="n", status=status))
    assert claim_names(pod) == ("c",)
    claim = msgspec.structs.replace(
        in_use(pod), metadata=msgspec.structs.replace(
            owned_claim(pod).metadata, annotations={}, finalizers=(CLAIM_FINALIZER,)
        ),
    )  # fmt: skip
    *_, last = plan_claim(claim, {"p": pod})
    assert isinstance(last, Delete)
