"""Queueing hints are exact: an event requeues a pod if, and only if, a node got a better verdict.

Exceptions, by name: what cannot be known any more when the event arrives, and changes of policies.
"""

from collections import Counter
from random import Random

import msgspec

from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.resource_policy import ResourcePolicyPlugin
from holdfast.scheduling.scheduler.event_handlers import node_changes, pod_changes, with_node_name
from holdfast.testing import typed
from holdfast.testing.plugin_laws import prepare_case
from policies.objects import common_nodes, node, od, pod, policy, spot
from policies.random_policies import PolicyCluster, selected
from soak_size import SEED, rounds

NEW = 3
"""The verdict of a node before it exists."""
KNOWN_NEEDLESS = {
    "ResourcePolicy": "whether a new spec helps is not computed",
    "NodeDelete": "the pods of a deleted node are not known any more",
    "AssignedPodAdd": "it counts from its assumption on, for which there is no event",
}


def verdicts(plugin, world, waiting):
    """Return the plugin's verdict of each node, by name."""
    case = prepare_case(plugin, world, waiting)
    names = [world.nodes.names[row] for row in case.rows.tolist()]
    if case.outcome.reject is not None:
        return dict.fromkeys(names, 2)
    if case.outcome.skip:
        return dict.fromkeys(names, 0)
    return dict(zip(names, case.verdicts(case.rows).tolist(), strict=True))


def improved(before, after):
    return any(code < before.get(name, 1 if code else NEW) for name, code in after.items())


def objects(cluster):
    """Return everything that has events, by kind and name."""
    assumed = {uid: with_node_name(info.pod, node) for uid, (info, node) in cluster.assumed.items()}
    policies = {k: v for k, v in cluster.others.items() if k[0] == "ResourcePolicy"}
    return {
        "Node": dict(cluster.nodes),
        "AssignedPod": dict(cluster.pods),
        "Assumed": assumed,
        "ResourcePolicy": policies,
    }


def events(before, after):
    """Yield the events of one step; an assumed pod that is forgotten counts as deleted."""
    for key in before["Assumed"].keys() - after["Assumed"].keys():
        if key not in after["AssignedPod"]:
            yield ClusterEvent("AssignedPod", "Delete", before["Assumed"][key], None)
    for kind in ("Node", "AssignedPod", "ResourcePolicy"):
        for key in before[kind].keys() | after[kind].keys():
            old, new = before[kind].get(key), after[kind].get(key)
            if old is new:
                continue
            if old is None or new is None:
                yield ClusterEvent(kind, "Add" if old is None else "Delete", old, new)
                continue
            changes = {"Node": node_changes, "AssignedPod": pod_changes}.get(kind)
            for action in ["Update"] if changes is None else changes(old, new):
                yield ClusterEvent(kind, action, old, new)


def test_hints_are_exact():
    plugin, seen = ResourcePolicyPlugin(), Counter()
    for number in range(rounds(40)):
        cluster = PolicyCluster(Random(SEED * 1000 + number), nodes=6)
        waiting = [selected(cluster) for _ in range(8)]
        for _ in range(60):
            check_step(plugin, cluster, waiting, seen)
    assert seen["requeued AssignedPodDelete"] and seen["requeued NodeUpdateNodeLabel"], seen
    assert seen["requeued AssignedPodUpdatePodTerminating"], seen


def check_step(plugin, cluster, waiting, seen):
    before = objects(cluster)
    were = [verdicts(plugin, cluster.world, one) for one in waiting]
    cluster.step()
    found = list(events(before, objects(cluster)))
    for one, was in zip(waiting, were, strict=True):
        # Hints are asked only for pods that the plugin rejected.
        if any(was.values()):
            better = improved(was, verdicts(plugin, cluster.world, one))
            check_hints(plugin, cluster.world, one, found, better, seen)


def check_hints(plugin, world, waiting, found, better, seen):
    pod_info = world.pod_info(waiting)
    view = View(world, pod_info, 0.0)
    helpful = [
        event
        for event in found
        if plugin.traits.registers(event) and plugin.queueing_hint(event, pod_info, view)
    ]
    for event in helpful:
        seen[f"requeued {event.label}"] += 1
        known = event.label in KNOWN_NEEDLESS or event.resource in KNOWN_NEEDLESS
        assert better or known, f"needless: {event}"
    # A pod that was assumed has its event when it is bound.
    assert helpful or not (better and found), f"missed: {found}"


def test_a_new_status_of_a_policy_requeues_nothing():
    cluster = PolicyCluster(Random(SEED), nodes=4)
    while not len(cluster.world.policies):
        cluster.step()
    (policy, *_) = cluster.world.policies
    old = policy.object
    new = msgspec.structs.replace(old, status=msgspec.structs.replace(old.status, usage="x"))
    pod_info = cluster.world.pod_info(selected(cluster))
    event = ClusterEvent("ResourcePolicy", "Update", old, new)
    view = View(cluster.world, pod_info, 0.0)
    assert not ResourcePolicyPlugin().queueing_hint(event, pod_info, view)


def hint(world, waiting, action, old=None, new=None, resource="AssignedPod"):
    """Apply a change and return the hint of its event."""
    old, new = (None if raw is None else typed(raw) for raw in (old, new))
    if new is not None:
        world.upsert(new)
    else:
        world.delete(old)
    pod_info = world.pod_info(typed(waiting))
    event = ClusterEvent(resource, action, old, new)
    assert ResourcePolicyPlugin().traits.registers(event)
    return ResourcePolicyPlugin().queueing_hint(event, pod_info, View(world, pod_info, 0.0))


def a_world(*objects):
    world = World()
    for raw in (*common_nodes(), *objects):
        world.upsert(typed(raw))
    return world


def test_a_pod_that_is_resized_makes_room_for_requests():
    big, small = pod("x", cpu="3", node="a1"), pod("x", cpu="2", node="a1")
    limited = policy(strategy="required", units=[od(max_count=None, max_resources={"cpu": 3})])
    for waiting, helps in ((pod("y", cpu="1"), True), (pod("y", cpu="2"), False)):
        world = a_world(limited, big)
        assert hint(world, waiting, "UpdatePodScaleDown", big, small) is helps
    grown = policy(
        units=[od(max_count=None, max_resources={"cpu": 3}), spot()],
        when_try_next_units={"policy": "ExceedMax"},
    )
    # The unit is full now, so the next one may be used.
    assert hint(a_world(grown, small), pod("y", cpu="1"), "Update", small, big)


def test_annotations_and_pods_of_other_groups_requeue_nothing():
    full = [pod("x", node="a1", labels={"v": "1"}), pod("y", node="a2", labels={"v": "1"})]
    one_each = policy(strategy="required", match_label_keys=["v"], units=[od()])
    waiting, other = pod("w", labels={"v": "1"}), pod("o", node="a1", labels={"v": "2"})
    annotated = pod("x", node="a1", labels={"v": "1"}, annotations={"a": "b"})
    assert not hint(a_world(one_each, *full), waiting, "Update", full[0], annotated)
    assert not hint(a_world(one_each, *full, other), waiting, "Delete", other)
    assert hint(a_world(one_each, *full), waiting, "Delete", full[0])
    relabelled = pod("x", node="a1", labels={"v": "2"})
    assert hint(a_world(one_each, *full), waiting, "UpdatePodLabel", full[0], relabelled)
    assert not hint(a_world(one_each, other, *full), waiting, "Delete", pod("z", node="b1"))


def test_nodes_requeue_only_if_they_join_or_leave_a_unit():
    full = [pod("x", node="a1"), pod("y", node="a2")]
    rule = policy(strategy="required", units=[od()])
    labelled = node("b1", labels={"rack": "7"})
    args = {"resource": "Node"}
    world = a_world(rule, *full)
    assert not hint(world, pod(), "UpdateNodeLabel", node("b1"), labelled, **args)
    assert not hint(world, pod(), "Add", None, node("a3"), **args)
    assert not hint(world, pod(), "Delete", node("c1"), **args)
    moved = node("a1") | {"metadata": {**node("a1")["metadata"], "labels": {"tier": "none"}}}
    assert hint(world, pod(), "UpdateNodeLabel", node("a1"), moved, **args)
    assert hint(world, pod(), "Add", None, node("a4"), **args)


def test_a_pod_of_two_policies_waits_for_policies_and_labels_only():
    world = a_world(policy("p"), policy("q"), pod("x", node="a1"))
    assert not hint(world, pod(), "Delete", pod("x", node="a1"))
    assert hint(world, pod(), "Delete", policy("q"), resource="ResourcePolicy")
    other = policy("r", namespace="db")
    assert not hint(world, pod(), "Add", None, other, resource="ResourcePolicy")
    assert not hint(
        world, pod(), "Add", None, policy("s", pods={"app": "x"}), resource="ResourcePolicy"
    )


def test_the_labels_of_the_pod_itself_matter_if_a_policy_reads_them():
    world = a_world(policy("p", match_label_keys=["v"]))

    def relabelled(old, new):
        own = {"resource": "UnschedulablePod"}
        return hint(world, new, "UpdatePodLabel", old, new, **own)

    assert relabelled(pod(), pod(labels={"v": "1"}))
    assert relabelled(pod(), pod(app="other"))
    assert not relabelled(pod(), pod(labels={"unread": "1"}))
