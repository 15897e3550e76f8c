from __future__ import annotations

import pytest

from holdfast.api.meta import OwnerReference
from holdfast.api.scheme import DEPLOYMENTS, PODS, REPLICASETS
from holdfast.controllers.garbage_collector import (
    plan_dependent,
    plan_foreground_deletion,
    plan_orphaning,
)
from holdfast.controllers.ownership_graph import FOREGROUND, ORPHAN, GraphObject, OwnershipGraph
from holdfast.controllers.planned_writes import Delete


def an_item(uid, *owners, resource=PODS, block=True, deleting=False, finalizers=()):
    references = tuple(
        OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name=o, uid=o, block_owner_deletion=block
        )
        for o in owners
    )
    return GraphObject(resource, "default", uid, uid, "7", references, deleting, finalizers)


def test_a_dependent_is_kept_while_one_owner_exists():
    pod = an_item("p", "a", "b")
    assert plan_dependent(pod, {"a": an_item("a"), "b": an_item("b")}, ()) == ()
    (patch,) = plan_dependent(pod, {"a": an_item("a"), "b": None}, ())
    assert [o["uid"] for o in patch.patch["metadata"]["ownerReferences"]] == ["a"]
    assert patch.patch["metadata"]["resourceVersion"] == "7"


def test_a_dependent_without_existing_owners_is_deleted():
    pod = an_item("p", "a", "b")
    assert plan_dependent(pod, {"a": None, "b": None}, ()) == (
        Delete(PODS, "p", "default", "p", "Background", "7"),
    )


def test_an_owner_that_cannot_be_resolved_keeps_its_dependents():
    assert plan_dependent(an_item("p", "a"), {}, ()) == ()


def test_objects_without_owners_and_terminating_objects_need_no_writes():
    assert plan_dependent(an_item("p"), {}, ()) == ()
    assert plan_dependent(an_item("p", "a", deleting=True), {"a": None}, ()) == ()


@pytest.mark.parametrize(("children", "way"), [((), "Background"), (("q",), "Foreground")])
def test_a_dependent_is_deleted_before_an_owner_that_waits_for_it(children, way):
    owner = an_item("a", deleting=True, finalizers=(FOREGROUND,))
    dependents = [an_item(c, "p") for c in children]
    (delete,) = plan_dependent(an_item("p", "a"), {"a": owner}, dependents)
    assert delete.propagation == way


def test_a_dependent_with_the_orphan_finalizer_is_deleted_with_that_policy():
    (delete,) = plan_dependent(an_item("p", "a", finalizers=(ORPHAN,)), {"a": None}, ())
    assert delete.propagation == "Orphan"


def test_foreground_deletion_waits_for_blocking_dependents():
    owner = an_item("a", resource=REPLICASETS, deleting=True, finalizers=("x", FOREGROUND))
    assert plan_foreground_deletion(owner, [an_item("p", "a")]) == ()
    (patch,) = plan_foreground_deletion(owner, [an_item("p", "a", block=False)])
    assert patch.patch["metadata"]["finalizers"] == ["x"]


def test_orphaning_removes_the_owner_references_before_the_finalizer():
    owner = an_item("a", resource=DEPLOYMENTS, deleting=True, finalizers=(ORPHAN,))
    first, last = plan_orphaning(owner, [an_item("p", "a")])
    assert (first.name, first.patch["metadata"]["ownerReferences"]) == ("p", None)
    assert (last.name, last.patch["metadata"]["finalizers"]) == ("a", None)


def test_the_graph_has_dependents_of_owners_that_were_never_observed():
    graph = OwnershipGraph()
    graph.put(an_item("p", "a"))
    graph.put(an_item("q", "a", "b"))
    assert [i.uid for i in graph.dependents("a")] == ["p", "q"]
    graph.put(an_item("q", "b"))
    assert [i.uid for i in graph.dependents("a")] == ["p"]
    graph.remove("p")
    assert graph.dependents("a") == ()
    assert [i.uid for i in graph.dependents("b")] == ["q"]
    assert graph.get("p") is None
