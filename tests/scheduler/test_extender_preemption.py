"""Extenders that process preemptions: they may remove candidates and change victims."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import PODS
from holdfast.runtime.errors import NotFound
from holdfast.testing import a_node, a_pod, a_priority_class
from holdfast.testing.fake_extender import fail
from holdfast.testing.harness import Harness


@asynccontextmanager
async def full_cluster(tmp_path, extender, *configs):
    """Two nodes full of pods of lower priority; evicting ``cheap`` on n1 costs least."""
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
    """Return an answer that keeps only these candidates."""

    def answer(body):
        proposed = body["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: proposed[name] for name in nodes}}

    return answer


def preemptor(**spec):
    return a_pod("p", cpu="4", priority_class_name="high", **spec)


async def pod_names(cluster):
    return sorted(pod.name for pod in (await cluster.client.list(PODS, "default")).items)


async def test_the_extender_gets_the_candidates_and_their_victims(cluster, extender):
    uids = {"n1": (await cluster.pod("cheap")).uid, "n2": (await cluster.pod("dear")).uid}
    extender.answers["preempt"] = only("n1")
    await cluster.create(preemptor())
    ((_, question),) = extender.asked
    assert question["NodeNameToMetaVictims"] == {
        node: {"Pods": [{"UID": uid}], "NumPDBViolations": 0} for node, uid in uids.items()
    }
    assert (question["Pod"]["metadata"]["name"], question["NodeNameToVictims"]) == ("p", None)


async def test_the_candidate_that_the_extender_keeps_is_used(cluster, extender):
    extender.answers["preempt"] = only("n2")
    await cluster.create(preemptor())
    await cluster.advance(60)
    assert await cluster.node_of("p") == "n2"
    assert await pod_names(cluster) == ["cheap", "p"]


async def test_the_extender_may_change_the_victims(cluster, extender):
    async def answer(_body):
        uid = (await cluster.pod("dear")).uid
        return {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": uid}], "NumPDBViolations": 3}}}

    extender.answers["preempt"] = answer
    await cluster.create(preemptor())
    await cluster.advance(60)
    assert await pod_names(cluster) == ["cheap", "p"]


async def test_an_extender_without_node_cache_gets_whole_pods_of_victims(tmp_path, extender):
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


async def test_no_pod_is_evicted_if_the_extender_removes_all_candidates(cluster, extender):
    extender.answers["preempt"] = only()
    await cluster.create(preemptor())
    await cluster.advance(60)
    assert await cluster.why("p") == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: no candidate node for preemption"
    )
    assert await pod_names(cluster) == ["cheap", "dear", "p"]


async def test_no_pod_is_evicted_if_the_extender_fails(cluster, extender):
    extender.answers["preempt"] = fail(500)
    await cluster.create(preemptor())
    (condition,) = (await cluster.pod("p")).status.conditions
    assert (condition.reason, condition.message) == (
        "Unschedulable",
        "0/2 nodes are available: 2 Insufficient cpu. preemption: failed preempt with extender at "
        f"URL {extender.url}/preempt, code 500",
    )
    assert await pod_names(cluster) == ["cheap", "dear", "p"]


@pytest.mark.parametrize(
    ("victims", "message"),
    [
        ([], 'expected at least one victim pod on node "n1"'),
        ([{"UID": "unknown"}], "claims to preempt pod (UID: unknown) on node: n1, but the pod is "
                              "not found on that node"),
    ],
)  # fmt: skip
async def test_victims_of_the_extender_must_exist(cluster, extender, victims, message):
    extender.answers["preempt"] = lambda _body: {"NodeNameToMetaVictims": {"n1": {"Pods": victims}}}
    await cluster.create(preemptor())
    assert message in await cluster.why("p")


async def test_an_ignorable_extender_that_fails_is_skipped(tmp_path, extender):
    config = extender.config(preempt_verb="preempt", ignorable=True)
    extender.answers["preempt"] = fail(500)
    async with full_cluster(tmp_path, extender, config) as cluster:
        await cluster.create(preemptor())
        await cluster.advance(60)
        assert await cluster.node_of("p") == "n1"


async def test_no_pod_is_evicted_if_the_pod_fits_when_the_extender_responds(cluster, extender):
    extender.answers["preempt"] = only("n1")
    extender.hold()
    await cluster.create(preemptor())
    await cluster.create(a_node("n3"))
    extender.release()
    await cluster.settle()
    assert await cluster.node_of("p") == "n3"
    assert await pod_names(cluster) == ["cheap", "dear", "p"]


async def test_the_extender_is_called_again_if_the_candidates_changed(cluster, extender):
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
