"""The cycle never waits for extenders; an answer is put to the world as it is when it comes."""

import pytest

from holdfast.api.scheme import PODS
from holdfast.framework.extender import ManagedResource
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.fake_extender import allow
from holdfast.testing.harness import Harness

GPU = {"example.com/gpu": "1"}


@pytest.fixture
async def cluster(tmp_path, extender):
    extender.answers["filter"] = allow("n1", "n2")
    config = extender.config(filter_verb="filter")
    async with Harness(tmp_path / "store", extenders=[config]) as harness:
        extender.join(harness)
        yield harness


def mine(name="p", **spec):
    return a_pod(name, **spec)


def other(name, node, **spec):
    return a_pod(name, node=node, **spec)


async def two_nodes(cluster):
    await cluster.create(a_node("n1", cpu="4"), a_node("n2", cpu="4"))


async def test_a_full_node_is_passed_over_though_the_extender_allowed_it(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine(cpu="3"))
    await cluster.create(other("s", "n1", cpu="2"))
    extender.release()
    await cluster.settle()
    assert await cluster.node_of("p") == "n2"
    assert len(extender.asked) == 1


async def test_a_node_nobody_was_asked_about_is_asked_about_if_nothing_else_is_left(
    cluster, extender
):
    extender.answers["filter"] = allow("n1", "n2", "n3")
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine(cpu="3"))
    await cluster.create(other("s1", "n1", cpu="2"), other("s2", "n2", cpu="2"), a_node("n3"))
    extender.release()
    await cluster.settle()
    assert await cluster.node_of("p") == "n3"
    assert [body["NodeNames"] for _, body in extender.asked] == [["n1", "n2"], ["n3"]]


async def test_nothing_left_is_an_ordinary_rejection(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine(cpu="3"))
    await cluster.create(other("s1", "n1", cpu="2"), other("s2", "n2", cpu="2"))
    extender.release()
    await cluster.settle()
    assert (await cluster.why("p")).startswith("0/2 nodes are available: 2 Insufficient cpu.")
    blamed = {"plugin": "Extender", "profile": "default-scheduler"}
    assert cluster.metric("unschedulable_pods", **blamed) == 0


async def test_an_answer_that_does_not_come_in_time_fails_the_attempt(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    await cluster.advance(4.9)
    assert await cluster.why("p") == ""
    await cluster.advance(0.2)
    assert await cluster.why("p") == (
        f'Post "{extender.url}/filter": context deadline exceeded '
        "(Client.Timeout exceeded while awaiting headers)"
    )


async def test_a_pod_deleted_while_extenders_think_is_forgotten(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    await cluster.delete(PODS, "p", "default")
    extender.release()
    await cluster.settle()
    assert len(cluster.world.nodes.pods()) == 0
    assert len(cluster.components.scheduler.queue) == 0


async def test_a_pod_bound_by_somebody_else_meanwhile_is_left_alone(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
              "target": {"kind": "Node", "name": "n2"}}  # fmt: skip
    await cluster.client.bind("default", "p", target)
    await cluster.settle()
    extender.release()
    await cluster.settle()
    assert await cluster.node_of("p") == "n2"
    assert [reason for reason, _ in await cluster.events("p")] == []


async def test_a_pod_that_changed_is_asked_about_as_it_is_now(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
    await cluster.settle()
    extender.release()
    await cluster.settle()
    told = [body["Pod"]["metadata"].get("labels") for _, body in extender.asked]
    assert told == [None, {"a": "b"}]
    assert await cluster.node_of("p") != ""


async def test_one_pod_at_a_time_and_the_important_first(cluster, extender):
    await two_nodes(cluster)
    await cluster.create(a_priority_class("high", 1000))
    extender.hold()
    await cluster.create(mine("first"))
    await cluster.create(mine("low"), mine("high", priority_class_name="high"))
    assert len(extender.asked) == 1
    extender.release()
    await cluster.settle()
    order = [body["Pod"]["metadata"]["name"] for _, body in extender.asked]
    assert order == ["first", "high", "low"]


async def test_each_sees_the_room_the_one_before_took(cluster, extender):
    extender.answers["filter"] = allow("n1")
    await cluster.create(a_node("n1", cpu="4"))
    extender.hold()
    await cluster.create(mine("a", cpu="3"), mine("b", cpu="3"))
    extender.release()
    await cluster.settle()
    assert [await cluster.node_of(name) for name in "ab"] == ["n1", ""]
    assert len(extender.asked) == 1


async def test_stopping_waits_for_no_answer(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    before = cluster.clock.now()
    await cluster.restart_components()
    assert cluster.clock.now() - before < 1
    assert len(extender.asked) == 2


async def test_pods_it_has_no_say_about_are_placed_meanwhile(tmp_path, extender):
    extender.answers["filter"] = allow("n1")
    gpus = (ManagedResource(name="example.com/gpu"),)
    config = extender.config(filter_verb="filter", managed_resources=gpus)
    async with Harness(tmp_path / "store", extenders=[config]) as cluster:
        extender.join(cluster)
        await cluster.create(a_node("n1", cpu="4", allocatable={"example.com/gpu": "8"}))
        extender.hold()
        await cluster.create(a_pod("slow", requests=GPU, limits=GPU), a_pod("quick"))
        assert [await cluster.node_of(name) for name in ("slow", "quick")] == ["", "n1"]
        extender.release()
        await cluster.settle()
        assert await cluster.node_of("slow") == "n1"
