"""Scale-in empties the units of low priority first: the controller writes pod deletion costs."""

import pytest

from holdfast.api.deletion_cost import DELETION_COST, MANAGED_DELETION_COST
from holdfast.api.scheme import DEPLOYMENTS, PODS, RESOURCE_POLICIES
from holdfast.testing import a_deployment, a_namespace, a_node
from policies.costs import RecordedWrites, costs, marks, set_cost, status
from policies.objects import (
    WEB,
    create_each,
    edit_policy,
    event_messages,
    od,
    place,
    pod,
    pods_by_letter,
    policy,
    relabel,
    relabel_node,
    spot,
    terminate,
)

MANUAL = "DeletionCostManual"


async def scale(cluster, replicas):
    patch = {"spec": {"replicas": replicas}}
    await cluster.client.patch(DEPLOYMENTS, "web", patch, WEB, subresource="scale")
    await cluster.advance(40)


async def test_P040_a_deployment_shrinks_from_the_lowest_unit(governed):
    await governed.create(a_deployment("web", replicas=6, namespace=WEB, cpu="1"))
    await governed.advance(10)
    assert await costs(governed) == {"a": ["200"] * 2, "b": ["100"] * 3, "c": ["0"]}

    await scale(governed, 3)
    assert await pods_by_letter(governed) == {"a": 2, "b": 1}
    await scale(governed, 2)
    assert await pods_by_letter(governed) == {"a": 2}
    await scale(governed, 6)
    assert await costs(governed) == {"a": ["200"] * 2, "b": ["100"] * 3, "c": ["0"]}


async def test_P041_swapped_priorities_swap_the_costs_and_move_no_pod(governed):
    await place(governed, 6)
    before = {p.name: p.spec.node_name for p in (await governed.client.list(PODS, WEB)).items}
    await edit_policy(governed, units=[od(priority=1), spot(priority=9)])
    assert await costs(governed) == {"a": ["100"] * 2, "b": ["200"] * 3, "c": ["0"]}
    after = {p.name: p.spec.node_name for p in (await governed.client.list(PODS, WEB)).items}
    assert after == before


async def test_P042_a_cost_set_by_a_user_is_never_changed(cluster):
    await cluster.create(pod("mine", node="a1", annotations={DELETION_COST: "777"}))
    await cluster.create(policy())
    await place(cluster, 2)
    assert await marks(cluster, "mine") == ("777", None, None)
    await edit_policy(cluster, units=[od(priority=1), spot(priority=9)])
    await relabel(cluster, "mine", other="label")
    await relabel_node(cluster, "a1", tier="spot")
    await cluster.restart_components()
    assert await marks(cluster, "mine") == ("777", None, None)
    await cluster.delete(RESOURCE_POLICIES, "p", WEB)
    assert await marks(cluster, "mine") == ("777", None, None)
    await cluster.create(policy("q"))
    await cluster.advance(5)

    (message,) = await event_messages(cluster, MANUAL, "mine")
    assert message == (
        "the pod deletion cost 777 is not changed for ResourcePolicy web/p: a user set it"
    )
    assert await event_messages(cluster, MANUAL, "w0") == []


async def test_P043_a_user_takes_a_cost_over(governed):
    await place(governed, 1)
    uid = (await governed.client.get(RESOURCE_POLICIES, "p", WEB)).uid
    assert await marks(governed, "w0") == ("200", "200", uid)
    await set_cost(governed, "w0", "5")
    assert await marks(governed, "w0") == ("5", None, None)
    await edit_policy(governed, units=[spot(priority=9), od(priority=1)])
    assert await marks(governed, "w0") == ("5", None, None)
    assert len(await event_messages(governed, MANUAL, "w0")) == 1

    await set_cost(governed, "w0", None)  # and gives it back
    assert await marks(governed, "w0") == ("100", "100", uid)


async def test_P044_a_deleted_policy_leaves_no_annotations_behind(cluster):
    manual = {DELETION_COST: "777"}
    await create_each(cluster, policy(), pod("mine", node="a1", annotations=manual))
    await place(cluster, 5)
    await set_cost(cluster, "w3", "5")
    before = {p.name: p.spec.node_name for p in (await cluster.client.list(PODS, WEB)).items}
    await cluster.delete(RESOURCE_POLICIES, "p", WEB)

    found = (await cluster.client.list(PODS, WEB)).items
    assert {p.name: p.metadata.annotations for p in found if p.metadata.annotations} == {
        "mine": manual,
        "w3": {DELETION_COST: "5"},
    }
    assert {p.name: p.spec.node_name for p in found} == before


async def test_P044_also_if_the_controller_was_not_running(governed):
    await place(governed, 3)
    await set_cost(governed, "w1", "5")
    async with governed.components_stopped():
        await governed.client.delete(RESOURCE_POLICIES, "p", WEB)
    assert [await marks(governed, name) for name in ("w0", "w1", "w2")] == [
        (None, None, None),
        ("5", None, None),
        (None, None, None),
    ]


async def test_P045_a_resync_of_1000_pods_writes_nothing(start):
    writes = RecordedWrites()
    large = a_node("a1", cpu="100", pods=1100, labels={"tier": "od"})
    cluster = await start(wrap=writes.wrap, nodes=[a_namespace(WEB), large])
    await cluster.create(policy(units=[od(max_count=None)]), settle=False)
    for i in range(1000):
        await cluster.create(pod(f"w{i}", node="a1", cpu="1m"), settle=False)
    await cluster.advance(30)
    assert await costs(cluster) == {"a": ["100"] * 1000}

    writes.seen.clear()
    for watching in tuple(cluster.server.context.watches):
        watching.close()
    touch = {"metadata": {"annotations": {"note": "nothing of interest"}}}
    await cluster.client.patch(RESOURCE_POLICIES, "p", touch, WEB)
    await cluster.client.patch(PODS, "w0", touch, WEB)
    await cluster.advance(5)
    assert writes.of("/web/") == []
    await cluster.restart_components()
    await cluster.advance(5)
    assert [write for write in writes.of("/web/") if "status" not in write[1]] == []
    assert writes.of("resourcepolicies") == []


async def test_two_policies_keep_the_last_cost(governed):
    await place(governed, 3)
    await governed.create(policy("q", units=[od(priority=1), spot(priority=9)]))
    await place(governed, 1, prefix="new", node="b1")
    assert await costs(governed) == {"a": ["200"] * 2, "b": ["100", None]}
    await relabel_node(governed, "a1", tier="spot")
    assert sorted(await costs(governed)) == ["a", "b"]
    assert await marks(governed, "w0") == await marks(governed, "w1")

    await governed.delete(RESOURCE_POLICIES, "p", WEB)
    uid = (await governed.client.get(RESOURCE_POLICIES, "q", WEB)).uid
    assert await marks(governed, "new0") == ("200", "200", uid)
    assert {(await marks(governed, name))[2] for name in ("w0", "w1", "w2")} == {uid}


async def test_costs_follow_the_labels_of_pods_and_nodes(governed):
    await place(governed, 1)
    (letter,) = await costs(governed)
    assert letter == "a"
    name = (await governed.pod("w0", WEB)).spec.node_name
    for tier, cost in (("spot", "100"), (None, "0"), ("od", "200")):
        await relabel_node(governed, name, tier=tier)
        assert (await marks(governed, "w0"))[:2] == (cost, cost)
    await relabel(governed, "w0", app="api")
    assert await marks(governed, "w0") == (None, None, None)
    await relabel(governed, "w0", app="web")
    assert (await marks(governed, "w0"))[:2] == ("200", "200")


async def test_pods_that_are_unbound_terminating_or_finished_are_skipped(cluster):
    await cluster.create(policy(), pod("pending", cpu="1000"))
    await create_each(cluster, pod("goes", stops_after=100), pod("done", node="b1"))
    await terminate(cluster, "goes")
    phase = {"status": {"phase": "Succeeded"}}
    await cluster.client.patch(PODS, "done", phase, WEB, subresource="status")
    await edit_policy(cluster, units=[od(priority=1), spot(priority=9)])
    assert await marks(cluster, "pending") == (None, None, None)
    assert (await marks(cluster, "goes"))[0] == "200"
    assert (await marks(cluster, "done"))[0] == "100"


@pytest.mark.parametrize("cost", ("cheap", "007"))
async def test_a_stored_cost_that_is_no_number_is_the_users(cluster, cost):
    await cluster.create(policy(), pod("odd", node="a1"))
    await cluster.advance(1)
    # An API server without the check of the annotation has accepted it.
    odd = (await cluster.pod("odd", WEB)).metadata.annotations
    assert odd[MANAGED_DELETION_COST] == "200"
    patch = {"metadata": {"annotations": {MANAGED_DELETION_COST: cost}}}
    await cluster.client.patch(PODS, "odd", patch, WEB)
    await cluster.settle()
    assert await marks(cluster, "odd") == ("200", None, None)
    await cluster.delete(RESOURCE_POLICIES, "p", WEB)
    assert await marks(cluster, "odd") == ("200", None, None)


async def test_a_policy_without_a_cap_has_unlimited_headroom(cluster):
    await cluster.create(policy(units=[od(max_count=None), spot()]))
    await place(cluster, 2)
    found = await status(cluster)
    assert (found.usage, found.headroom) == ("od 2, spot 0/3", "unlimited")


async def test_a_unit_that_has_used_up_its_resources_has_no_headroom(cluster):
    await cluster.create(policy(units=[od(max_count=5, max_resources={"cpu": "2"}), spot()]))
    await place(cluster, 1)
    assert (await status(cluster)).headroom == "7"
    await place(cluster, 1, prefix="x")
    found = await status(cluster)
    assert (found.usage, found.headroom) == ("od 2/5, spot 0/3", "3")


async def shrunk_after_lowering_the_cap(cluster):
    """Run a Deployment of 4, lower the cap of od to 1, scale to 3; return costs and pods."""
    await cluster.create(policy())
    await cluster.create(a_deployment("web", replicas=2, namespace=WEB, cpu="1"))
    await cluster.advance(10)  # pods of od differ in age
    await scale(cluster, 4)
    assert await pods_by_letter(cluster) == {"a": 2, "b": 2}
    await edit_policy(cluster, units=[od(max_count=1), spot()])
    await cluster.advance(2)
    found = await costs(cluster)
    await scale(cluster, 3)
    return found, await pods_by_letter(cluster)


async def test_P046_a_lowered_cap_changes_no_cost_by_default(cluster):
    found, left = await shrunk_after_lowering_the_cap(cluster)
    assert found == {"a": ["200"] * 2, "b": ["100"] * 2}
    assert left == {"a": 2, "b": 1}


async def test_P046_drain_excess_removes_the_newest_pods_above_the_cap_first(start):
    cluster = await start(args={"drainExcess": True})
    found, left = await shrunk_after_lowering_the_cap(cluster)
    assert found == {"a": ["-100", "200"], "b": ["100"] * 2}
    assert left == {"a": 1, "b": 2}
    await cluster.advance(2)
    assert await costs(cluster) == {"a": ["200"], "b": ["100"] * 2}


async def test_P046_the_newest_pods_of_each_group_are_drained(start):
    cluster = await start(args={"drainExcess": True})
    for name in ("old1", "new1", "old2"):
        await cluster.create(pod(name, node="a1", labels={"hash": name[-1]}))
        await cluster.advance(60)
    await cluster.create(policy(units=[od(max_count=1)], match_label_keys=["hash"]))
    await cluster.advance(2)
    names = ("old1", "new1", "old2")
    assert [(await marks(cluster, name))[0] for name in names] == ["100", "-100", "100"]
    await edit_policy(cluster, units=[od(max_count=0)])
    await cluster.advance(2)
    assert await costs(cluster) == {"a": ["-100"] * 3}
    await relabel_node(cluster, "a1", tier=None)
    await cluster.advance(2)
    assert await costs(cluster) == {"a": ["0"] * 3}
