"""Extenders respond while the cluster changes: their result is applied to the current world."""

import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.extender import ManagedResource
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


async def test_a_node_filled_meanwhile_is_skipped_although_the_extender_allowed_it(
    cluster, extender
):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine(cpu="3"))
    await cluster.create(other("s", "n1", cpu="2"))
    extender.release()
    await cluster.settle()
    assert await cluster.node_of("p") == "n2"
    assert len(extender.asked) == 1


async def test_extenders_are_called_again_for_new_nodes_if_no_other_is_left(cluster, extender):
    extender.answers["filter"] = allow("n1", "n2", "n3")
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine(cpu="3"))
    await cluster.create(other("s1", "n1", cpu="2"), other("s2", "n2", cpu="2"), a_node("n3"))
    extender.release()
    await cluster.settle()
    assert await cluster.node_of("p") == "n3"
    assert [body["NodeNames"] for _, body in extender.asked] == [["n1", "n2"], ["n3"]]


async def test_without_feasible_nodes_the_pod_is_rejected_as_usual(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine(cpu="3"))
    await cluster.create(other("s1", "n1", cpu="2"), other("s2", "n2", cpu="2"))
    extender.release()
    await cluster.settle()
    assert (await cluster.why("p")).startswith("0/2 nodes are available: 2 Insufficient cpu.")
    blamed = {"plugin": "Extender", "profile": "default-scheduler"}
    assert cluster.metric("unschedulable_pods", **blamed) == 0


async def test_a_response_after_the_timeout_fails_the_attempt(cluster, extender):
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


async def test_a_pod_deleted_while_an_extender_is_called_is_not_requeued(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    await cluster.delete(PODS, "p", "default")
    extender.release()
    await cluster.settle()
    assert len(cluster.world.nodes.pods()) == 0
    assert len(cluster.components.scheduler.queue) == 0


async def test_a_pod_bound_by_another_client_meanwhile_is_not_scheduled(cluster, extender):
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


async def test_extenders_are_called_again_for_a_pod_that_changed(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
    await cluster.settle()
    extender.release()
    await cluster.settle()
    sent_labels = [body["Pod"]["metadata"].get("labels") for _, body in extender.asked]
    assert sent_labels == [None, {"a": "b"}]
    assert await cluster.node_of("p") != ""


async def test_pods_are_sent_one_at_a_time_by_priority(cluster, extender):
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


async def test_each_pod_sees_the_resources_of_the_one_before(cluster, extender):
    extender.answers["filter"] = allow("n1")
    await cluster.create(a_node("n1", cpu="4"))
    extender.hold()
    await cluster.create(mine("a", cpu="3"), mine("b", cpu="3"))
    extender.release()
    await cluster.settle()
    assert [await cluster.node_of(name) for name in "ab"] == ["n1", ""]
    assert len(extender.asked) == 1


async def test_stop_does_not_wait_for_extenders(cluster, extender):
    await two_nodes(cluster)
    extender.hold()
    await cluster.create(mine())
    before = cluster.clock.now()
    await cluster.restart_components()
    assert cluster.clock.now() - before < 1
    assert len(extender.asked) == 2


async def test_pods_without_extenders_are_scheduled_meanwhile(tmp_path, extender):
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
