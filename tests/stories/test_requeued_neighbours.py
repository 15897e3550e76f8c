"""Pods that other pods keep away are tried again when these make room, not at the next flush."""

import pytest

from holdfast.api.scheme import NODES, PODS
from holdfast.testing import a_node, a_pod

HOST, ZONE = "kubernetes.io/hostname", "zone"


def terms(kind, *pairs):
    """Return required terms: each a label value of ``app`` and a topology key."""
    listed = [
        {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key} for app, key in pairs
    ]
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": listed}}


def away(*pairs):
    return {"affinity": terms("podAntiAffinity", *pairs)}


def near(*pairs):
    return {"affinity": terms("podAffinity", *pairs)}


@pytest.fixture
async def one_node(cluster):
    await cluster.create(a_node("n1", labels={ZONE: "a", HOST: "n1"}))
    return cluster


async def soon(cluster, name="p"):
    """Return the node of a pod after its backoff, long before the flush."""
    await cluster.advance(15)
    return await cluster.node_of(name)


async def test_a_blocker_that_matched_one_of_two_terms_is_deleted(one_node):
    await one_node.create(a_pod("blocker", labels={"app": "a"}))
    await one_node.create(a_pod("p", **away(("a", HOST), ("b", ZONE))))
    assert await one_node.node_of("p") == ""
    await one_node.delete(PODS, "blocker", "default")
    assert await soon(one_node) == "n1"


async def test_a_blocker_stops_to_match_one_of_its_terms(cluster):
    await cluster.create(
        a_node("n1", labels={ZONE: "a", HOST: "n1"}),
        a_node("n2", labels={ZONE: "a", HOST: "n2"}),
        a_pod("blocker", labels={"app": "a", "tier": "b"}, node_selector={HOST: "n1"}),
    )
    pod = a_pod("p", **away(("a", ZONE), ("b", HOST), ("c", ZONE)))
    pod_terms = pod["spec"]["affinity"]["podAntiAffinity"]
    _, by_host, _ = pod_terms["requiredDuringSchedulingIgnoredDuringExecution"]
    by_host["labelSelector"] = {"matchLabels": {"tier": "b"}}
    await cluster.create(pod)
    assert await cluster.node_of("p") == ""
    # It still blocks its node, but not its zone.
    await cluster.client.patch(PODS, "blocker", {"metadata": {"labels": {"app": "x"}}}, "default")
    await cluster.settle()
    assert await soon(cluster) == "n2"


async def test_a_pod_whose_anti_affinity_matched_with_one_of_two_terms_is_deleted(one_node):
    await one_node.create(a_pod("hermit", **away(("a", HOST), ("b", ZONE))))
    await one_node.create(a_pod("p", labels={"app": "a"}))
    assert await one_node.node_of("p") == ""
    await one_node.delete(PODS, "hermit", "default")
    assert await soon(one_node) == "n1"


async def test_a_pod_that_counted_for_one_of_two_spread_constraints_is_deleted(cluster):
    await cluster.create(
        a_node("n1", labels={ZONE: "a", HOST: "n1"}),
        a_node("n2", labels={ZONE: "b", HOST: "n2"}, unschedulable=True),
        a_pod("first", labels={"app": "a"}),
    )
    spread = [
        {
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {label: "a"}}, "nodeTaintsPolicy": "Ignore",
        }
        for key, label in ((ZONE, "app"), (HOST, "tier"))
    ]  # fmt: skip
    labels = {"app": "a", "tier": "a"}
    await cluster.create(a_pod("p", labels=labels, topology_spread_constraints=spread))
    assert await cluster.node_of("p") == ""
    await cluster.delete(PODS, "first", "default")
    assert await soon(cluster) == "n1"


async def test_the_last_pod_of_the_own_group_is_deleted(cluster):
    await cluster.create(
        a_node("n1", labels={ZONE: "a"}), a_pod("first", labels={"app": "a"}),
        a_pod("second", labels={"app": "a"}),
    )  # fmt: skip
    await cluster.client.patch(NODES, "n1", {"spec": {"unschedulable": True}})
    await cluster.create(a_node("n2", labels={ZONE: "b"}))
    await cluster.create(a_pod("p", labels={"app": "a"}, **near(("a", ZONE))))
    assert await cluster.node_of("p") == ""
    await cluster.delete(PODS, "first", "default")
    assert await soon(cluster) == ""
    # Where no pod of the group is left the next one may go anywhere.
    await cluster.delete(PODS, "second", "default")
    assert await soon(cluster) == "n2"


async def test_a_node_is_added_outside_the_domain_that_existing_pods_close(one_node):
    await one_node.create(a_pod("hermit", **away(("a", ZONE))))
    await one_node.create(a_pod("p", labels={"app": "a"}))
    assert await one_node.node_of("p") == ""
    await one_node.create(a_node("n2", labels={ZONE: "b"}))
    assert await soon(one_node) == "n2"


async def test_a_node_leaves_the_domain_that_existing_pods_close(cluster):
    await cluster.create(
        a_node("n1", labels={ZONE: "a", HOST: "n1"}), a_node("n2", labels={ZONE: "a"}),
        a_pod("hermit", node_selector={HOST: "n1"}, **away(("a", ZONE))),
    )  # fmt: skip
    await cluster.create(a_pod("p", labels={"app": "a"}))
    assert await cluster.node_of("p") == ""
    await cluster.client.patch(NODES, "n2", {"metadata": {"labels": {ZONE: "b"}}})
    assert await soon(cluster) == "n2"
