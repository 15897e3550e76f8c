"""Extenders have a say in who is evicted, and for whom room is made where."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import PODS
from holdfast.errors import NotFound
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.fake_extender import fail
from holdfast.testing.harness import Harness


@asynccontextmanager
async def full_cluster(tmp_path, extender, *configs):
    """Two nodes, full of less important pods; losing ``cheap`` on n1 is the least evil."""
    async with Harness(tmp_path / "store", extenders=configs) as cluster:
        extender.join(cluster)
        await cluster.create(a_priority_class("high", 1000), a_priority_class("low", 10))
        await cluster.create(a_node("n1", cpu="4"), a_node("n2", cpu="4"))
        await cluster.create(a_pod("cheap", cpu="4", node="n1"))
        await cluster.create(a_pod("dear", cpu="4", node="n2", priority_class_name="low"))
        yield cluster


@pytest.fixture
async def cluster(tmp_path, extender):
    config = extender.config(preempt_verb="preempt")
    async with full_cluster(tmp_path, extender, config) as made:
        yield made


def only(*nodes):
    """Leave these nodes of those proposed."""

    def answer(body):
        proposed = body["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: proposed[name] for name in nodes}}

    return answer


def preemptor(**spec):
    return a_pod("p", cpu="4", priority_class_name="high", **spec)


async def left(cluster):
    return sorted(pod.name for pod in (await cluster.client.list(PODS, "default")).items)


async def test_it_is_told_whom_we_would_evict_where(cluster, extender):
    uids = {"n1": (await cluster.pod("cheap")).uid, "n2": (await cluster.pod("dear")).uid}
    extender.answers["preempt"] = only("n1")
    await cluster.create(preemptor())
    ((_, question),) = extender.asked
    assert question["NodeNameToMetaVictims"] == {
        node: {"Pods": [{"UID": uid}], "NumPDBViolations": 0} for node, uid in uids.items()
    }
    assert (question["Pod"]["metadata"]["name"], question["NodeNameToVictims"]) == ("p", None)


async def test_the_node_it_leaves_is_taken_though_another_would_cost_less(cluster, extender):
    extender.answers["preempt"] = only("n2")
    await cluster.create(preemptor())
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n2"
    assert await left(cluster) == ["cheap", "p"]


async def test_it_may_want_other_victims(cluster, extender):
    async def answer(_body):
        uid = (await cluster.pod("dear")).uid
        return {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": uid}], "NumPDBViolations": 3}}}

    extender.answers["preempt"] = answer
    await cluster.create(preemptor())
    await cluster.advance(60)
    assert await left(cluster) == ["cheap", "p"]


async def test_one_that_knows_no_nodes_is_told_the_victims_in_full(tmp_path, extender):
    config = extender.config(preempt_verb="preempt", node_cache_capable=False)

    def answer(body):
        (victim,) = body["NodeNameToVictims"]["n1"]["Pods"]
        assert victim["metadata"]["name"] == "cheap"
        return {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": victim["metadata"]["uid"]}]}}}

    extender.answers["preempt"] = answer
    async with full_cluster(tmp_path, extender, config) as cluster:
        await cluster.create(preemptor())
        await cluster.advance(60)
        assert await cluster.node_of("p") == "n1"


async def test_nobody_is_evicted_against_its_will(cluster, extender):
    extender.answers["preempt"] = only()
    await cluster.create(preemptor())
    await cluster.advance(60)
    assert await cluster.why("p") == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: no candidate node for preemption"
    )
    assert await left(cluster) == ["cheap", "dear", "p"]


async def test_its_failure_is_told_and_nobody_is_evicted(cluster, extender):
    extender.answers["preempt"] = fail(500)
    await cluster.create(preemptor())
    (condition,) = (await cluster.pod("p")).status.conditions
    assert (condition.reason, condition.message) == (
        "Unschedulable",
        "0/2 nodes are available: 2 Insufficient cpu. preemption: failed preempt with extender at "
        f"URL {extender.url}/preempt, code 500",
    )
    assert await left(cluster) == ["cheap", "dear", "p"]


@pytest.mark.parametrize(
    ("victims", "words"),
    [
        ([], 'expected at least one victim pod on node "n1"'),
        ([{"UID": "nobody"}], "claims to preempt pod (UID: nobody) on node: n1, but the pod is "
                              "not found on that node"),
    ],
)  # fmt: skip
async def test_victims_must_be_there(cluster, extender, victims, words):
    extender.answers["preempt"] = lambda _body: {"NodeNameToMetaVictims": {"n1": {"Pods": victims}}}
    await cluster.create(preemptor())
    assert words in await cluster.why("p")


async def test_one_that_may_fail_is_done_without(tmp_path, extender):
    config = extender.config(preempt_verb="preempt", ignorable=True)
    extender.answers["preempt"] = fail(500)
    async with full_cluster(tmp_path, extender, config) as cluster:
        await cluster.create(preemptor())
        await cluster.advance(60)
        assert await cluster.node_of("p") == "n1"


async def test_nobody_is_evicted_if_room_came_while_it_thought(cluster, extender):
    extender.answers["preempt"] = only("n1")
    extender.hold()
    await cluster.create(preemptor())
    await cluster.create(a_node("n3"))
    extender.release()
    await cluster.settle()
    assert await cluster.node_of("p") == "n3"
    assert await left(cluster) == ["cheap", "dear", "p"]


async def test_it_is_asked_again_if_other_pods_would_have_to_go_now(cluster, extender):
    extender.answers["preempt"] = lambda body: {
        "NodeNameToMetaVictims": {
            name: victims for name, victims in body["NodeNameToMetaVictims"].items() if name == "n1"
        }
    }
    extender.hold()
    await cluster.create(preemptor())
    await cluster.client.delete(PODS, "cheap", "default", grace_seconds=0)
    await cluster.create(a_pod("next", cpu="4", node="n1"))
    extender.release()
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n1"
    with pytest.raises(NotFound):
        await cluster.pod("next")
    assert len(extender.asked) == 2
