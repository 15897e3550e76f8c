"""The world: objects that are added, removed and copied."""

from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import CPU
from holdfast.testing import a_namespace, a_node, a_pod, a_reservation, a_resource_policy, typed


def a_world(*raws):
    world = World()
    for raw in raws:
        world.upsert(typed(raw))
    return world


def test_finished_pods_are_ignored():
    world = a_world(a_node("n1"), a_pod("p", node="n1"))
    assert len(world.nodes.pods()) == 1
    world.upsert(typed(a_pod("p", node="n1", status={"phase": "Succeeded"})))
    assert world.nodes.pods() == []


def test_pods_without_a_node_are_ignored_but_their_nominations_are_not():
    world = a_world(a_node("n1"), a_pod("p"))
    assert world.nodes.pods() == []
    assert not world.nominations
    pod = typed(a_pod("q", status={"nominatedNodeName": "n1"}))
    world.upsert(pod)
    assert world.nominations.node_of(pod.uid) == "n1"
    world.upsert(typed(a_pod("q", node="n1")))
    assert not world.nominations


def test_nominated_pods_of_lower_priority_are_not_counted():
    world = a_world(a_node("n1"), a_pod("low", priority=1, status={"nominatedNodeName": "n1"}))
    high, same = (world.pod_info(typed(a_pod(p, priority=v))) for p, v in (("h", 2), ("s", 1)))
    assert not View(world, high, 0.0).nominated
    assert list(View(world, same, 0.0).nominated) == [0]


def test_namespace_labels_have_an_epoch():
    world = a_world(a_namespace("shop", labels={"team": "a"}))
    stamp = world.nodes.epochs["namespaces"]
    world.upsert(typed(a_namespace("shop", labels={"team": "a"})))
    assert world.nodes.epochs["namespaces"] == stamp
    world.upsert(typed(a_namespace("shop", labels={"team": "b"})))
    assert world.namespaces == {"shop": {"team": "b"}}
    assert world.nodes.epochs["namespaces"] == stamp + 1
    world.delete(typed(a_namespace("shop")))
    assert world.namespaces == {}


def test_objects_reach_their_ledgers():
    held = a_reservation(
        "r", status={"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "2"}}
    )
    world = a_world(a_node("n1"), held, a_resource_policy("p"))
    assert world.nodes.requested[CPU, 0] == 2000
    assert len(world.policies) == 1
    world.delete(typed(held))
    assert world.nodes.requested[CPU, 0] == 0


def test_a_profile_without_a_reservation_plugin_matches_no_reservation():
    owner = {"app": "web"}
    held = a_reservation(
        "r", owner_labels=owner,
        status={"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "2"}},
    )  # fmt: skip
    world = a_world(a_node("n1"), held)
    pod = world.pod_info(typed(a_pod(labels=owner)))
    assert View(world, pod, 0.0).matched_reservations is not None
    assert View(world, pod, 0.0, reservations=False).matched_reservations is None


def test_unknown_kinds_are_ignored():
    world = a_world(a_node("n1"))
    seq = world.nodes.seq
    world.upsert(typed({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}))
    assert world.nodes.seq == seq
