"""Other rules beside a policy: pods that wait on Permit, topology spread, affinity, taints."""

from holdfast.api.scheme import NODES
from policies.objects import (
    UNIT_FULL,
    WEB,
    condition,
    create_each,
    delete_gone,
    event_messages,
    node_of,
    od,
    place,
    pod,
    pods_by_letter,
    pods_in_table,
    policy,
    spot,
    why,
)
from policies.waiting_pods import with_permit

HOST = "kubernetes.io/hostname"


def spread(when="ScheduleAnyway", key=HOST):
    """A topology spread constraint over the pods of the policy."""
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when}
    return [rule | {"labelSelector": {"matchLabels": {"app": "web"}}}]


async def test_pods_that_wait_on_permit_count(start):
    cluster, plugin = await with_permit(start)
    await place(cluster, 2, "waits", annotations={"Wait": "60"})
    assert await pods_by_letter(cluster) == {}
    assert pods_in_table(cluster) == {"a": 2}
    assert await place(cluster, 1) == ["b"]
    for name in ("waits0", "waits1"):
        plugin.pod(name).allow("Wait")
    await cluster.settle()
    assert await pods_by_letter(cluster) == {"a": 2, "b": 1}


async def test_a_pod_that_is_deleted_on_permit_makes_place_for_a_waiting_one(start):
    cluster, _ = await with_permit(start)
    await place(cluster, 5, "waits", annotations={"Wait": "600"})
    await create_each(cluster, pod("c", app="other", cpu="8", node="c1"), pod("w"))
    assert await node_of(cluster) == ""
    await delete_gone(cluster, "waits0")
    await cluster.advance(2)
    assert (await node_of(cluster))[0] == "a"
    assert pods_in_table(cluster)["a"] == 2


async def test_soft_spreading_acts_inside_a_tier(cluster):
    """Two pods are on a1 and none on b1 and b2: od is filled nevertheless, on a2."""
    await create_each(cluster, *(pod(f"old{i}", node="a1") for i in range(2)))
    await cluster.create(policy(units=[od(max_count=4), spot()]))
    spreading = {"topology_spread_constraints": spread()}
    assert await place(cluster, 3, **spreading) == ["a", "a", "b"]
    assert [await node_of(cluster, f"w{i}") for i in range(2)] == ["a2", "a2"]


async def test_hard_spreading_leaves_a_tier_whose_nodes_it_rejects(governed):
    """With a skew of 1 over the nodes, the third pod may be on none of the od nodes."""
    spreading = {"topology_spread_constraints": spread("DoNotSchedule")}
    assert await place(governed, 5, **spreading) == ["a", "a", "b", "b", "c"]
    assert {await node_of(governed, f"w{i}") for i in range(4)} == {"a1", "a2", "b1", "b2"}
    # The nodes c1, a1 and a2 have one each: spot has the last place, and its nodes are no worse.
    assert await place(governed, 1, "x", **spreading) == ["b"]


async def test_node_affinity_and_units_are_both_required(required):
    pinned = {"node_selector": {"tier": "spot"}}
    assert await place(required, 4, **pinned) == ["b", "b", "b", ""]
    message = await why(required, "w3")
    assert "2 unit spot is full (3/3)" in message
    assert "3 node(s) didn't match Pod's node affinity/selector" in message


async def test_a_tainted_unit_is_passed_over(governed):
    taint = {"key": "k", "effect": "NoSchedule"}
    for name in ("a1", "a2"):
        await governed.client.patch(NODES, name, {"spec": {"taints": [taint]}})
    await governed.settle()
    assert await place(governed, 1) == ["b"]
    assert await event_messages(governed, UNIT_FULL, "w0") == []
    tolerating = {"tolerations": [{"operator": "Exists"}]}
    assert await place(governed, 1, "t", **tolerating) == ["a"]


async def test_if_all_is_full_and_the_node_outside_lacks_cpu_a_node_may_help(governed):
    await create_each(governed, pod("c", app="other", cpu="8", node="c1"))
    assert await place(governed, 6) == ["a", "a", "b", "b", "b", ""]
    assert (await condition(governed, "w5")).reason == "Unschedulable"
    assert await event_messages(governed, UNIT_FULL, "w5") == []


async def test_a_pod_with_spec_node_name_is_not_checked_and_counts(governed):
    """Binding by others checks no cap; the unit is closed afterwards."""
    await create_each(governed, *(pod(f"w{i}", node="a1") for i in range(3)))
    assert await pods_by_letter(governed) == {"a": 3}
    assert await place(governed, 1, "x") == ["b"]
    assert await governed.node_of("w2", WEB) == "a1"
