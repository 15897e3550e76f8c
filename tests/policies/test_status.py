"""The status of a policy: nodes and pods of its units, headroom and conditions."""

import pytest

from apiserver.direct_store import store_directly
from holdfast.api.scheme import NODES, PODS, RESOURCE_POLICIES
from holdfast.server.store import ObjectKey
from holdfast.testing import a_node, a_unit
from policies.costs import RecordedWrites, condition, costs, status
from policies.objects import (
    WEB,
    create_each,
    delete_gone,
    edit_policy,
    node,
    od,
    place,
    pod,
    policy,
    relabel,
    relabel_node,
    spot,
    terminate,
)

HASH = "pod-template-hash"


async def counts(cluster, name="p"):
    """Return the pods of each unit in a policy's status."""
    return {unit.name: unit.pods for unit in (await status(cluster, name)).units}


async def line(cluster, name="p"):
    """Return what kubectl prints of a policy's status."""
    found = await status(cluster, name)
    return found.usage, found.headroom


async def test_P025_a_policy_above_its_cap_says_so_and_deletes_nothing(cluster):
    await place(cluster, 4, node="a1")
    await cluster.create(policy())
    assert await condition(cluster, "OverCapacity") == (
        "True",
        "unit od has 4 pods, maxCount is 2",
    )
    assert await line(cluster) == ("od 4/2, spot 0/3", "3")
    await delete_gone(cluster, "w0", "w1")
    assert (await condition(cluster, "OverCapacity"))[0] == "False"
    await delete_gone(cluster, "w2")
    assert await line(cluster) == ("od 1/2, spot 0/3", "4")
    assert len((await cluster.client.list(PODS, WEB)).items) == 1


async def test_P047_the_status_follows_the_pods_that_come_and_go(governed):
    found = await status(governed)
    assert (found.observed_generation, found.usage, found.headroom) == (1, "od 0/2, spot 0/3", "5")
    assert [(u.name, u.nodes, u.pods, u.max_count) for u in found.units] == [
        ("od", 2, 0, 2),
        ("spot", 2, 0, 3),
    ]
    assert {c.type: c.status for c in found.conditions} == {
        "Ready": "True",
        "Conflicting": "False",
        "OverCapacity": "False",
        "OverlappingUnits": "False",
    }
    await place(governed, 6)
    assert await line(governed) == ("od 2/2, spot 3/3", "0")
    await delete_gone(governed, "w0", "w5")
    assert await line(governed) == ("od 1/2, spot 3/3", "1")


async def test_P047_terminating_and_finished_pods_as_the_policy_counts_them(governed):
    await create_each(governed, *(pod(f"w{i}", stops_after=100) for i in range(3)))
    await terminate(governed, "w0")
    phase = {"status": {"phase": "Succeeded"}}
    await governed.client.patch(PODS, "w2", phase, WEB, subresource="status")
    assert await line(governed) == ("od 1/2, spot 0/3", "4")
    await edit_policy(governed, matchPolicy={"ignoreTerminatingPod": False})
    assert await line(governed) == ("od 2/2, spot 0/3", "3")
    assert (await status(governed)).observed_generation == 2


async def test_P047_previous_pods_are_not_counted_but_get_a_cost(cluster):
    await place(cluster, 2, node="a1")
    await cluster.advance(10)
    await cluster.create(policy(match_policy={"ignorePreviousPod": True}))
    await place(cluster, 1, prefix="new", node="a2")
    assert await line(cluster) == ("od 1/2, spot 0/3", "4")
    assert await costs(cluster) == {"a": ["200"] * 3}


async def test_P047_groups_count_by_themselves(cluster):
    await cluster.create(policy(match_label_keys=[HASH]))
    for value, number in (("h1", 2), ("h2", 1)):
        await place(cluster, number, prefix=value, labels={HASH: value})
    await place(cluster, 1, prefix="none", node="b1")
    found = await status(cluster)
    od_, spot_ = found.units
    assert [(g.labels, g.pods) for g in od_.groups] == [({HASH: "h1"}, 2), ({HASH: "h2"}, 1)]
    assert (od_.pods, spot_.pods, spot_.groups) == (3, 1, ())
    assert (found.usage, found.headroom) == ("od 2/2, spot 1/3", "2")
    assert (await condition(cluster, "OverCapacity"))[0] == "False"
    await place(cluster, 2, prefix="more", labels={HASH: "h1"}, node="a1")
    assert (await condition(cluster, "OverCapacity"))[1] == (
        f"unit od has 4 pods with {HASH}=h1, maxCount is 2"
    )


async def test_P047_a_unit_lists_its_largest_groups_only(cluster):
    await cluster.create(policy(match_label_keys=["job"], units=[od(max_count=1)]))
    for i in range(30):
        await cluster.create(
            pod(f"w{i:02}", node="a1", cpu="1m", labels={"job": f"j{i:02}"}), settle=False
        )
    await cluster.create(pod("twice", node="a2", labels={"job": "j29"}))
    (unit,) = (await status(cluster)).units
    assert (unit.pods, len(unit.groups)) == (31, 20)
    assert [g.labels["job"] for g in unit.groups[:2]] == ["j29", "j00"]


async def test_P047_capped_resources_are_summed(cluster):
    await cluster.create(policy(units=[od(max_resources={"cpu": "3", "memory": "2Gi"}), spot()]))
    await create_each(cluster, *(pod(f"w{i}", cpu="1500m", memory="512Mi") for i in range(2)))
    found = (await status(cluster)).units[0]
    assert found.resources == {"cpu": "3", "memory": "1Gi"}
    assert found.max_resources == {"cpu": "3", "memory": "2Gi"}
    await create_each(cluster, pod("big", node="a1", cpu="250m", memory="3Gi"))
    assert await condition(cluster, "OverCapacity") == (
        "True",
        "unit od has 3 pods, maxCount is 2; the pods in unit od request cpu 3250m, maxResources "
        "is 3; the pods in unit od request memory 4Gi, maxResources is 2Gi",
    )


async def test_P047_nodes_that_come_go_and_are_relabelled(governed):
    await place(governed, 2)
    first = await governed.node_of("w0", WEB)
    await relabel_node(governed, first, tier="spot")
    moved = sum([await governed.node_of(name, WEB) == first for name in ("w0", "w1")])
    assert await counts(governed) == {"od": 2 - moved, "spot": moved}
    await governed.create(node("a9"))
    assert [unit.nodes for unit in (await status(governed)).units] == [2, 3]
    await governed.delete(NODES, first)
    await governed.advance(1)
    found = await status(governed)
    assert [unit.nodes for unit in found.units] == [2, 2]
    assert found.units[1].pods == 0


async def test_P047_a_conflict_names_the_other_policies_and_a_pod(governed):
    await governed.create(policy("q", pods={"team": "x"}), policy("r", pods={"team": "x"}))
    assert (await condition(governed, "Conflicting"))[0] == "False"
    await governed.create(pod("both", labels={"team": "x"}))  # is not scheduled
    for name, others in (("p", "q, r"), ("q", "p, r"), ("r", "p, q")):
        assert await condition(governed, "Conflicting", name) == (
            "True",
            f"pods such as both are also selected by ResourcePolicy {others}",
        )
    await relabel(governed, "both", team=None)
    for name in ("p", "q", "r"):
        assert (await condition(governed, "Conflicting", name))[0] == "False"


async def test_P047_overlapping_units_name_the_units_and_a_node(cluster):
    fast = a_unit("fast", 9, nodes={"disk": "ssd"}, max_count=1)
    await cluster.create(policy(units=[od(), spot(), fast]))
    assert (await condition(cluster, "OverlappingUnits"))[0] == "False"
    await relabel_node(cluster, "a1", disk="ssd")
    assert await condition(cluster, "OverlappingUnits") == (
        "True",
        "nodes such as a1 belong to the units od, fast",
    )
    await place(cluster, 1)
    assert await line(cluster) == ("od 1/2, spot 0/3, fast 1/1", "4")
    assert await costs(cluster) == {"a": ["300"]}


async def store_while_stopped(cluster, directory, obj, *, replace=False):
    """Store a policy of `web` without validation, as an older server may have done."""
    name = obj["metadata"]["name"]
    key = ObjectKey("scheduling.sigs.x-k8s.io", "resourcepolicies", WEB, name)
    async with cluster.components_stopped():
        if replace:
            await cluster.client.delete(RESOURCE_POLICIES, name, WEB)
        async with cluster.server_stopped():
            await store_directly(directory, (key, obj))


def with_wrong_selector(obj):
    """Return a policy with a selector that cannot be compiled."""
    wrong = {"matchExpressions": [{"key": "app", "operator": "Has"}]}
    return {**obj, "spec": {**obj["spec"], "podSelector": wrong}}


async def test_a_policy_that_cannot_be_compiled_is_not_ready(tmp_path, cluster):
    broken = with_wrong_selector(policy("old", units=[od(max_resources={"cpu": "much"})]))
    await store_while_stopped(cluster, tmp_path / "store", broken)
    await place(cluster, 1, node="a1")
    found = await status(cluster, "old")
    assert (found.usage, found.headroom, found.units) == ("", "", ())
    ready, message = await condition(cluster, "Ready", "old")
    assert ready == "False"
    assert "spec.podSelector" in message
    assert "spec.units[0].maxResources[cpu]" in message
    assert await costs(cluster) == {"a": [None]}


async def test_a_stored_policy_with_values_out_of_range(tmp_path, cluster):
    units = [
        od(priority=2**40, max_count=2**40),
        spot(priority=-7, max_count=-1),
        *(a_unit(f"u{i}", 10**30, nodes={"none": "x"}) for i in range(30)),
    ]
    await store_while_stopped(cluster, tmp_path / "store", policy(units=units))
    await place(cluster, 1, node="a1")
    await place(cluster, 1, prefix="x", node="b1")
    ready, message = await condition(cluster, "Ready")
    assert (ready, message[:23]) == ("False", "the policy is used, but")
    assert [u.pods for u in (await status(cluster)).units[:3]] == [1, 1, 0]
    assert await costs(cluster) == {"a": ["200"], "b": ["100"]}


async def test_costs_of_a_policy_that_became_unusable_stay_until_it_is_deleted(tmp_path, governed):
    await place(governed, 3)
    known = await governed.client.get(RESOURCE_POLICIES, "p", WEB)
    meta = {"name": "p", "namespace": WEB, "uid": known.uid}
    same_uid = with_wrong_selector({**policy(), "metadata": meta})
    await store_while_stopped(governed, tmp_path / "store", same_uid, replace=True)
    assert (await condition(governed, "Ready"))[0] == "False"
    assert await costs(governed) == {"a": ["200"] * 2, "b": ["100"]}
    await governed.delete(RESOURCE_POLICIES, "p", WEB)
    assert await costs(governed) == {"a": [None] * 2, "b": [None]}


async def test_a_burst_of_pods_writes_the_status_about_once_a_second(start):
    writes = RecordedWrites()
    cluster = await start(wrap=writes.wrap)
    await cluster.create(policy(units=[od(max_count=None), spot()]))
    writes.seen.clear()
    for second in range(5):
        for i in range(20):
            name = f"w{second}-{i}"
            await cluster.create(pod(name, node="a1", cpu="10m"))
            await cluster.clock.advance(0.05)
    assert len(writes.of("resourcepolicies")) <= 6
    assert await counts(cluster) == {"od": 100, "spot": 0}
    before = len(writes.seen)
    await cluster.advance(60)
    assert writes.of("/web/") == [w for w in writes.seen[:before] if "/web/" in w[1]]


@pytest.mark.parametrize("foreign", ("usage", "conditions"))
async def test_a_status_that_another_client_wrote_is_corrected(governed, foreign):
    await place(governed, 1)
    good = await status(governed)
    alien = {"type": "Ready", "status": "False", "reason": "Else", "message": "x"}
    extra = {"type": "Audited", "status": "True", "reason": "Fine", "message": "kept"}
    wrong = {"usage": "none"} if foreign == "usage" else {"conditions": [alien, extra]}
    await governed.client.patch(
        RESOURCE_POLICIES, "p", {"status": wrong}, WEB, subresource="status"
    )
    found = await status(governed)
    assert (found.usage, found.units) == (good.usage, good.units)
    now = {c.type: c.status for c in found.conditions}
    assert now == {c.type: c.status for c in good.conditions} | (
        {"Audited": "True"} if foreign == "conditions" else {}
    )


async def test_a_policy_with_32_units_and_huge_values(cluster):
    units = [
        a_unit(
            "u" * 60 + str(i),
            10**6 - i,
            nodes={"kubernetes.io/hostname": f"n{i}"},
            max_count=2**31 - 1,
        )
        for i in range(32)
    ]
    await cluster.create(policy(units=units), *(a_node(f"n{i}") for i in range(0, 32, 8)))
    await place(cluster, 1)
    found = await status(cluster)
    assert [u.pods for u in found.units] == [1] + [0] * 31
    assert found.headroom == str(32 * (2**31 - 1) - 1)
    assert await costs(cluster) == {"n": ["3200"]}
