"""Which pods a resource policy selects, which nodes are in its units, and what a group is."""

import numpy as np

from holdfast.scheduling.framework.world import World
from holdfast.state.resource_policies.policy_cache import rows_of_unit
from holdfast.testing import a_node, a_pod, a_resource_policy, a_unit, typed


def a_world(*objects):
    world = World()
    for raw in objects:
        world.upsert(typed(raw))
    return world


def governing(world, pod):
    return [policy.key for policy in world.policies.governing(world.pod_info(typed(pod)))]


def web(name="p", **more):
    return a_pod(name, labels={"app": "web", **more.pop("labels", {})}, **more)


def test_a_policy_selects_pods_of_its_own_namespace():
    world = a_world(a_resource_policy("web", namespace="default"))
    assert governing(world, web()) == ["default/web"]
    assert governing(world, a_pod(labels={"app": "db"})) == []
    assert governing(world, web(namespace="elsewhere")) == []


def test_two_policies_for_one_pod_are_named_in_order():
    world = a_world(
        a_resource_policy("zebra", pods={"app": "web"}),
        a_resource_policy("ant", pods={"app": "web"}),
    )
    assert governing(world, web()) == ["default/ant", "default/zebra"]


def test_no_policy_selects_a_reserve_pod():
    world = a_world(a_resource_policy("web"))
    pod_info = world.pod_info(typed(web()), is_reserve_pod=True)
    assert world.policies.governing(pod_info) == []


def test_a_deleted_policy_selects_no_pod_and_a_changed_one_other_pods():
    world = a_world(a_resource_policy("web"))
    world.upsert(typed(a_resource_policy("web", pods={"app": "db"})))
    assert governing(world, web()) == []
    assert governing(world, a_pod(labels={"app": "db"})) == ["default/web"]
    world.delete(typed(a_resource_policy("web")))
    assert governing(world, a_pod(labels={"app": "db"})) == []


def test_a_policy_with_a_malformed_selector_selects_no_pod():
    broken = {"matchExpressions": [{"key": "app", "operator": "Sideways"}]}
    assert governing(a_world(a_resource_policy("web", pod_selector=broken)), web()) == []


def test_pods_share_a_group_by_the_label_keys_both_have():
    world = a_world(a_resource_policy("web", match_label_keys=["version", "absent"]))
    (policy,) = world.policies
    group = policy.group_selector({"app": "web", "version": "1"})
    assert group.matches({"app": "web", "version": "1", "absent": "whatever"})
    assert not group.matches({"app": "web", "version": "2"})
    assert not group.matches({"app": "db", "version": "1"})


def test_units_follow_the_labels_of_nodes_as_they_are_now():
    units = [a_unit("spot", nodes={"tier": "spot"}), a_unit("any", nodes={})]
    world = a_world(
        a_node("a", labels={"tier": "spot"}), a_node("b"), a_resource_policy("web", units=units)
    )
    (policy,) = world.policies
    spot, everywhere = policy.units

    def names(unit):
        rows = rows_of_unit(world.nodes, unit).nonzero()[0]
        return {world.nodes.names[row] for row in rows}

    assert (names(spot), names(everywhere)) == ({"a"}, {"a", "b"})
    world.upsert(typed(a_node("a")))
    world.upsert(typed(a_node("b", labels={"tier": "spot"})))
    assert names(spot) == {"b"}
    world.delete(typed(a_node("b")))
    assert not names(spot)
    assert np.count_nonzero(rows_of_unit(world.nodes, everywhere)) == 1


def test_a_fork_and_its_original_are_independent():
    world = a_world(a_resource_policy("web"))
    fork = world.fork()
    fork.delete(typed(a_resource_policy("web")))
    world.upsert(typed(a_resource_policy("db")))
    assert governing(world, web()) == ["default/web"]
    assert len(fork.policies) == 0


def test_one_of_two_policies_of_a_namespace_can_be_deleted():
    policies = [a_resource_policy(name, pods={"app": "web"}) for name in ("ant", "zebra")]
    world = a_world(*policies)
    world.delete(typed(policies[0]))
    assert governing(world, web()) == ["default/zebra"]
    world.delete(typed(policies[1]))
    assert governing(world, web()) == []


def test_policies_without_uids_are_distinct():
    policies = [a_resource_policy(name, pods={"app": name}) for name in ("web", "db")]
    for policy in policies:
        policy["metadata"].pop("uid", None)
    world = a_world(*policies)
    assert len(world.policies) == 2
    world.delete(typed(policies[1]))
    assert governing(world, web()) == ["default/web"]
