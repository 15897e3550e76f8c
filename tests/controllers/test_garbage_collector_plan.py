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


def test_a_dependent_stays_while_one_owner_stands():
    pod = an_item("p", "a", "b")
    assert plan_dependent(pod, {"a": an_item("a"), "b": an_item("b")}, ()) == ()
    (patch,) = plan_dependent(pod, {"a": an_item("a"), "b": None}, ())
    assert [o["uid"] for o in patch.patch["metadata"]["ownerReferences"]] == ["a"]
    assert patch.patch["metadata"]["resourceVersion"] == "7"


def test_a_dependent_without_owners_left_goes():
    pod = an_item("p", "a", "b")
    assert plan_dependent(pod, {"a": None, "b": None}, ()) == (
        Delete(PODS, "p", "default", "p", "Background", "7"),
    )


def test_an_owner_that_cannot_be_looked_up_keeps_its_dependents():
    assert plan_dependent(an_item("p", "a"), {}, ()) == ()


def test_what_has_no_owner_or_is_going_already_is_left_alone():
    assert plan_dependent(an_item("p"), {}, ()) == ()
    assert plan_dependent(an_item("p", "a", deleting=True), {"a": None}, ()) == ()


@pytest.mark.parametrize(("children", "way"), [((), "Background"), (("q",), "Foreground")])
def test_a_dependent_of_an_owner_that_goes_last_goes_first(children, way):
    owner = an_item("a", deleting=True, finalizers=(FOREGROUND,))
    dependents = [an_item(c, "p") for c in children]
    (delete,) = plan_dependent(an_item("p", "a"), {"a": owner}, dependents)
    assert delete.propagation == way


def test_a_dependent_that_orphans_its_own_goes_that_way():
    (delete,) = plan_dependent(an_item("p", "a", finalizers=(ORPHAN,)), {"a": None}, ())
    assert delete.propagation == "Orphan"


def test_the_owner_that_goes_last_waits_for_those_that_block_it():
    owner = an_item("a", resource=REPLICASETS, deleting=True, finalizers=("x", FOREGROUND))
    assert plan_foreground_deletion(owner, [an_item("p", "a")]) == ()
    (patch,) = plan_foreground_deletion(owner, [an_item("p", "a", block=False)])
    assert patch.patch["metadata"]["finalizers"] == ["x"]


def test_orphaning_cuts_the_dependents_loose_before_the_owner_goes():
    owner = an_item("a", resource=DEPLOYMENTS, deleting=True, finalizers=(ORPHAN,))
    first, last = plan_orphaning(owner, [an_item("p", "a")])
    assert (first.name, first.patch["metadata"]["ownerReferences"]) == ("p", None)
    assert (last.name, last.patch["metadata"]["finalizers"]) == ("a", None)


def test_the_graph_knows_dependents_of_owners_it_never_saw():
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
