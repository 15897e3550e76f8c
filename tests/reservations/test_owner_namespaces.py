"""The annotation that limits the owners of a reservation to pods of some namespaces."""

import pytest

from holdfast.api.scheme import RESERVATIONS
from holdfast.cli.reservation.why import explain
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_namespace
from reservations.objects import (
    WEB,
    allocated_from,
    create_each,
    held,
    node,
    owner,
    running,
    status,
)

LIMIT = "scheduling.holdfast.dev/owner-namespaces"
EVERY_POD = [{"object": {}}]
BY_LABEL = [{"labelSelector": {"matchLabels": WEB}}]
REQUIRED = {"reservation_affinity": {}}


def limited(namespaces, **more):
    return held(annotations={LIMIT: namespaces}, allocate_once=False, cpu="8", **more)


async def cluster_with(cluster, *objects):
    await create_each(cluster, a_namespace("a"), a_namespace("b"), a_namespace("c"), node())
    await create_each(cluster, *objects)


async def edit(cluster, namespaces, name="r"):
    patch = {"metadata": {"annotations": {LIMIT: namespaces}}}
    await cluster.client.patch(RESERVATIONS, name, patch)
    await cluster.settle()


@pytest.mark.parametrize("owners", [EVERY_POD, BY_LABEL])
async def test_only_pods_of_the_listed_namespaces_are_owners(cluster, owners):
    await cluster_with(cluster, limited("a, b", owners=owners))
    for namespace in "abc":
        await create_each(cluster, owner(namespace=namespace))
    assert [await allocated_from(cluster, "owner", ns) for ns in "abc"] == ["r", "r", None]
    assert len((await cluster.reservation("r")).status.current_owners) == 2


@pytest.mark.parametrize("text", ["", ",", "a,", "*", "A", "a b", "a" * 64, '["a"]', "a\n,b\0"])
async def test_a_malformed_list_matches_no_pod(cluster, text):
    await cluster_with(cluster, limited(text, owners=EVERY_POD))
    await create_each(cluster, owner(namespace="a", **REQUIRED), owner(namespace="b"))
    assert await cluster.node_of("owner", "a") == ""
    assert await allocated_from(cluster, "owner", "b") is None


async def test_reservations_of_the_same_owners_are_limited_apart(cluster):
    await cluster_with(cluster, limited("a", name="first", owners=EVERY_POD))
    await create_each(cluster, limited("b", name="second", owners=EVERY_POD))
    await create_each(cluster, owner(namespace="b"), owner(namespace="a"))
    assert await allocated_from(cluster, "owner", "a") == "first"
    assert await allocated_from(cluster, "owner", "b") == "second"


async def test_an_edit_detaches_no_current_owner_also_after_a_restart(cluster):
    await cluster_with(cluster, limited("a", owners=EVERY_POD))
    await create_each(cluster, owner(namespace="a", cpu="2"))
    await edit(cluster, "b")
    before = ("Available", {"cpu": "2"}, ["owner"])
    assert await status(cluster) == before
    await cluster.restart()
    assert await status(cluster) == before
    await create_each(cluster, owner("late", namespace="a"), owner("late", namespace="b"))
    assert await allocated_from(cluster, "late", "a") is None
    assert await allocated_from(cluster, "late", "b") == "r"


async def test_an_edit_that_lists_its_namespace_lets_a_waiting_pod_in(cluster):
    await cluster_with(cluster, limited("a", owners=EVERY_POD))
    await create_each(cluster, owner(namespace="b", **REQUIRED))
    assert await cluster.node_of("owner", "b") == ""
    await edit(cluster, "a,b")
    await cluster.advance(30)
    assert await allocated_from(cluster, "owner", "b") == "r"


async def test_only_pods_of_the_listed_namespaces_are_pre_allocated(cluster):
    await cluster_with(cluster, running("10", namespace="b", labels=WEB))
    await create_each(cluster, limited("a", owners=BY_LABEL, pre_allocation=True))
    found = (await cluster.reservation("r")).status
    assert found.phase == "Waiting"
    assert await allocated_from(cluster, "used", "b") is None


async def test_the_explanation_lists_only_pods_of_these_namespaces(cluster):
    await cluster_with(cluster, limited("a", owners=EVERY_POD))
    await create_each(cluster, owner(namespace="a", cpu="99"), owner(namespace="b", cpu="99"))
    pods = [await cluster.pod("owner", namespace) for namespace in "ab"]
    lines = explain(await cluster.reservation("r"), pods, default_profiles(), 0)["lines"]
    assert "for any pod in namespaces a" in lines[0]
    assert [line.split()[0] for line in lines if "may use it" in line] == ["a/owner"]


async def test_the_explanation_names_a_malformed_list(cluster):
    await cluster_with(cluster, limited("a,*", owners=EVERY_POD))
    lines = explain(await cluster.reservation("r"), [], default_profiles(), 0)["lines"]
    assert any('"*" cannot be the name of a namespace' in line for line in lines)
