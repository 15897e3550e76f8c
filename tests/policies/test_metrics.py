"""The units of policies on the scheduler's metrics page."""

import re

from holdfast.api.scheme import RESOURCE_POLICIES
from holdfast.testing import typed
from policies.objects import (
    WEB,
    create_each,
    delay_binds,
    delete_gone,
    od,
    place,
    pod,
    policy,
    relabel_node,
    spot,
    terminate,
)

LINE = re.compile(r"holdfast_resource_policy_(\w+)\{(.*)\} (.*)")


def series(cluster):
    """Return the samples of policies: {(metric, unit, resource): value} of policy web/p."""
    found = {}
    for line in cluster.components.scheduler.metrics_page().decode().splitlines():
        if match := LINE.fullmatch(line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
            assert (labels["namespace"], labels["policy"]) == (WEB, "p")
            key = (match[1], labels["unit"], *filter(None, [labels.get("resource")]))
            found[key] = float(match[3])
    return found


def headroom(cluster):
    found = series(cluster)
    return {unit: value for (metric, unit), value in found.items() if metric == "headroom"}


async def test_pods_maximum_and_headroom_of_each_unit(governed):
    assert await place(governed, 3) == ["a", "a", "b"]
    assert series(governed) == {
        ("pods", "od"): 2,
        ("max_pods", "od"): 2,
        ("headroom", "od"): 0,
        ("pods", "spot"): 1,
        ("max_pods", "spot"): 3,
        ("headroom", "spot"): 2,
    }


async def test_without_policies_there_are_no_series(cluster):
    assert series(cluster) == {}
    await cluster.create(policy())
    await cluster.delete(RESOURCE_POLICIES, "p", WEB)
    assert series(cluster) == {}


async def test_a_unit_without_a_cap_has_pods_only(cluster):
    await cluster.create(policy(units=[od(max_count=None), {**spot(), "name": None}]))
    await place(cluster, 1)
    assert series(cluster) == {
        ("pods", "od"): 1,
        ("pods", "unit-1"): 0,
        ("max_pods", "unit-1"): 3,
        ("headroom", "unit-1"): 3,
    }


async def test_an_exceeded_cap_leaves_0(cluster):
    await create_each(cluster, *(pod(f"w{i}", node="a1") for i in range(4)))
    await cluster.create(policy())
    assert series(cluster)["pods", "od"] == 4
    assert headroom(cluster) == {"od": 0, "spot": 3}


async def test_assumed_pods_count_and_terminating_ones_as_the_policy_says(governed, network):
    delay_binds(network, 2, times=1)
    await governed.create(pod("first", stops_after=30))
    assert headroom(governed)["od"] == 1
    await governed.advance(3)
    assert headroom(governed)["od"] == 1
    await terminate(governed, "first")
    assert headroom(governed)["od"] == 2
    assert series(governed)["pods", "od"] == 0


async def test_groups_leave_what_the_fullest_of_them_leaves(cluster):
    """Here two of v=1 and one of v=2 are in od: one more pod of either fits at least."""
    await cluster.create(policy(match_label_keys=["v"], units=[od(max_count=3), spot()]))
    await place(cluster, 2, "one", labels={"v": "1"})
    await place(cluster, 1, "two", labels={"v": "2"})
    assert series(cluster)["pods", "od"] == 3
    assert headroom(cluster) == {"od": 1, "spot": 3}
    # A pod without the label counts together with all.
    await create_each(cluster, pod("none", node="a1"))
    assert headroom(cluster) == {"od": 0, "spot": 3}


async def test_resources_have_a_headroom_of_their_own(cluster):
    capped = od(max_count=None, max_resources={"cpu": "3", "memory": "4Gi"})
    await cluster.create(policy(units=[capped, spot()]))
    await create_each(cluster, pod("w", cpu="1500m", memory="1Gi"))
    found = {key: value for key, value in series(cluster).items() if "resource" in key[0]}
    assert found == {
        ("resource_headroom", "od", "cpu"): 1.5,
        ("resource_headroom", "od", "memory"): 3 * 2**30,
    }


async def test_relabelled_nodes_and_deleted_pods_are_seen(governed):
    assert await place(governed, 2) == ["a", "a"]
    await relabel_node(governed, "a1", tier="spot")
    await relabel_node(governed, "a2", tier="spot")
    assert headroom(governed) == {"od": 2, "spot": 1}
    await delete_gone(governed, "w0")
    assert headroom(governed) == {"od": 2, "spot": 2}


async def test_a_policy_that_cannot_be_compiled_has_no_series(governed):
    bad = policy("bad", pods={"app": "other"})
    bad["spec"]["units"][0]["nodeSelector"] = {
        "matchExpressions": [{"key": "tier", "operator": "Has"}]
    }
    governed.world.upsert(typed(bad, uid="bad"))
    assert len(series(governed)) == 6
