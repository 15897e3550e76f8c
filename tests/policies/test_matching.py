"""Which pods a policy selects, and which of them count together."""

import pytest

from holdfast.api.scheme import RESOURCE_POLICIES
from holdfast.testing import a_namespace, a_resource_policy
from policies.objects import (
    PLUGIN,
    WEB,
    condition,
    create_each,
    explained,
    node_of,
    od,
    place,
    pod,
    policy,
    relabel,
    spot,
    unit_scores,
    why,
)

HASH = "pod-template-hash"


def only_c(name, **more):
    """A policy whose only unit is closed, so that a pod it selects is pending."""
    closed = od(9, 0)
    return policy(name, units=[closed], strategy="required", **more)


async def test_P010_a_policy_does_not_see_other_namespaces(cluster):
    """Neither selects it their pods, nor does it count them."""
    await cluster.create(a_namespace("db"), only_c("p"))
    await create_each(cluster, pod("w", namespace="db"), pod("here"))
    assert await cluster.node_of("w", "db") != ""
    assert await node_of(cluster, "here") == ""
    assert unit_scores(cluster, pod("asking", namespace="db")) == {}


async def test_P010_pods_of_other_namespaces_do_not_count(governed):
    await governed.create(a_namespace("db"))
    others = [pod(f"o{i}", namespace="db", node="a1") for i in range(3)]
    await create_each(governed, *others)
    assert await place(governed, 3) == ["a", "a", "b"]


async def test_P011_pods_that_are_not_selected_are_not_scored(cluster):
    await cluster.create(only_c("p"))
    await create_each(cluster, pod("api", app="api"))
    assert await node_of(cluster, "api") != ""
    nodes = explained(cluster, pod("asking", app="api"))["nodes"]
    assert all(n["feasible"] and PLUGIN not in n["scores"] for n in nodes)
    assert len({n["total"] for n in nodes if n["name"] != await node_of(cluster, "api")}) == 1


async def test_P012_an_empty_selector_selects_every_pod_of_the_namespace(cluster):
    raw = policy()
    raw["spec"]["podSelector"] = {}
    await cluster.create(raw)
    await create_each(cluster, pod("api", app="api"), pod("web"))
    await cluster.create(pod("third", app="other"))
    placed = [(await node_of(cluster, name))[0] for name in ("api", "web", "third")]
    assert placed == ["a", "a", "b"]


async def test_P012_a_missing_selector_selects_them_too(cluster):
    raw = policy()
    del raw["spec"]["podSelector"]
    await cluster.create(raw)
    assert await place(cluster, 3, app="api") == ["a", "a", "b"]


async def test_P013_pods_of_both_values_of_an_expression_count_together(cluster):
    raw = policy()
    both = {"key": "app", "operator": "In", "values": ["web", "api"]}
    raw["spec"]["podSelector"] = {"matchExpressions": [both]}
    await cluster.create(raw)
    await create_each(cluster, pod("one", app="web"), pod("two", app="api"))
    await create_each(cluster, pod("three", app="web"), pod("four", app="api"))
    placed = [(await node_of(cluster, name))[0] for name in ("one", "two", "three", "four")]
    assert placed == ["a", "a", "b", "b"]


@pytest.fixture
async def disputed(governed):
    """Pod `w`, which the policies p and q both select."""
    q = a_resource_policy("q", namespace=WEB, pods={"team": "x"}, units=[spot(1, None)])
    await governed.create(q)
    await governed.create(pod("w", labels={"team": "x"}))
    return governed


async def test_P014_a_pod_of_two_policies_is_pending_until_one_is_deleted(disputed):
    assert await node_of(disputed) == ""
    message = await why(disputed)
    assert message.startswith(
        "0/5 nodes are available: pod is matched by more than one ResourcePolicy: web/p, web/q. "
    )
    assert message.endswith("5 Preemption is not helpful for scheduling.")
    rejected = explained(disputed, pod("asking", labels={"team": "x"}))["preFilter"]
    assert rejected["code"] == "UnschedulableAndUnresolvable"
    await disputed.delete(RESOURCE_POLICIES, "q", WEB)
    await disputed.advance(1.5)
    assert (await node_of(disputed))[0] == "a"


async def test_P014_a_pod_of_one_policy_is_not_affected_by_the_other(disputed):
    await create_each(disputed, pod("only-p"), pod("only-q", app="other", labels={"team": "x"}))
    assert (await node_of(disputed, "only-p"))[0] == "a"
    assert (await node_of(disputed, "only-q"))[0] == "b"


async def test_P015_a_pod_whose_labels_now_match_one_policy_is_scheduled(disputed):
    await relabel(disputed, team=None)
    await disputed.advance(1.5)
    assert (await node_of(disputed))[0] == "a"
    assert (await condition(disputed)).status == "True"


async def test_P015_so_is_one_that_now_matches_the_other(disputed):
    await relabel(disputed, app="other")
    await disputed.advance(1.5)
    assert (await node_of(disputed))[0] == "b"


async def test_P016_every_value_of_a_match_label_key_has_a_cap_of_its_own(cluster):
    await cluster.create(policy(match_label_keys=[HASH]))
    assert await place(cluster, 3, "old", labels={HASH: "h1"}) == ["a", "a", "b"]
    assert await place(cluster, 3, "new", labels={HASH: "h2"}) == ["a", "a", "b"]
    assert "unit od is full (2/2)" in dict(await cluster.events("new2", WEB)).values()


async def test_P016_a_rolling_update_with_caps_as_large_as_the_replicas_goes_through(cluster):
    await cluster.create(
        policy(match_label_keys=[HASH], strategy="required", units=[od(max_count=4)])
    )
    assert await place(cluster, 4, "old", labels={HASH: "h1"}) == ["a"] * 4
    assert await place(cluster, 4, "new", labels={HASH: "h2"}) == ["a"] * 4
    assert await place(cluster, 1, "more", labels={HASH: "h2"}) == [""]


async def test_P018_values_of_two_keys_are_not_joined(cluster):
    await cluster.create(policy(match_label_keys=["k1", "k2"]))
    assert await place(cluster, 2, labels={"k1": "a", "k2": "bc"}) == ["a", "a"]
    assert await place(cluster, 1, "other", labels={"k1": "ab", "k2": "c"}) == ["a"]
    assert await place(cluster, 1, "same", labels={"k1": "a", "k2": "bc"}) == ["b"]
