"""Preemption before the next tier: a pod preempts in a better tier before it uses a lower one."""

import numpy as np
import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.engine.explanation import explain
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.plugin import Plugin, Skip, Tiers, Traits
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import FakeCluster, a_node, a_pod, a_priority_class, check_plugin, typed
from holdfast.testing.harness import Harness

TIERS = {"a": 0, "b": 1, "c": 2}


class ByLetter(Tiers):
    """The first letter of a node's name is its tier."""

    def __init__(self, nodes):
        self.nodes = nodes

    def tier(self, rows):
        return np.array([TIERS[self.nodes.names[row][0]] for row in rows.tolist()], np.int32)

    def preempts_before_next_tier(self):
        return True


class Relative(ByLetter):
    """The tier of a row depends on the other rows."""

    def tier(self, rows):
        return (
            np.arange(len(rows), dtype=np.int32)[::-1] if len(rows) % 2 else rows.astype(np.int32)
        )


class WithoutTiers(Tiers):
    def __init__(self, nodes):
        pass

    def preempts_before_next_tier(self):
        return True


class ByNumber(ByLetter):
    def tier(self, rows):
        return np.array([int(self.nodes.names[row][1:]) % 3 for row in rows.tolist()], np.int32)


class TiersOfApps(Plugin):
    """Only pods of an app have tiers."""

    name = "TiersOfApps"
    traits = Traits(events_to_register={})

    def __init__(self, plan=ByLetter):
        self.plan_classes = (plan,)

    def pre_filter(self, pod, view):
        return self.plan_classes[0](view.nodes) if pod.labels.get("app") else Skip()

    def queueing_hint(self, event, pod, view):
        return False


def test_check_plugin_tests_tiers():
    check_plugin(lambda: TiersOfApps(ByNumber))


@pytest.mark.parametrize(
    ("plan", "law"),
    [
        (Relative, "the order of tiers does not depend on other rows"),
        (WithoutTiers, "class WithoutTiers has Tiers without a method tier"),
    ],
)
def test_check_plugin_finds_wrong_tiers(plan, law):
    with pytest.raises(AssertionError, match=law):
        check_plugin(lambda: TiersOfApps(plan))


def profiles():
    built_in = default_profiles()["default-scheduler"]
    return {"default-scheduler": Profile("default-scheduler", (*built_in.plugins, TiersOfApps()))}


@pytest.fixture
async def cluster(tmp_path):
    async with Harness(tmp_path / "store", profiles=profiles()) as made:
        await set_up(made)
        yield made


async def set_up(cluster):
    await cluster.create(a_priority_class("low", 1), a_priority_class("high", 1000))
    await cluster.create(*(a_node(name, cpu="4") for name in ("a1", "a2", "b1", "c1")))


async def fill(cluster, *nodes, priority="low", cpu="4", count=1):
    """Fill nodes with pods that take 20 seconds to terminate."""
    for name in nodes:
        for i in range(count):
            notes = {"holdfast.dev/stop-after": "20s"}
            filler = a_pod(
                f"{name}-{i}",
                cpu=cpu,
                node=name,
                priority_class_name=priority,
                annotations=notes,
                terminationGracePeriodSeconds=20,
            )
            await cluster.create(filler)


def preemptor(name="x", *, app="web", **more):
    more.setdefault("priority_class_name", "high")
    more.setdefault("cpu", "4")
    return a_pod(name, labels={"app": app} if app else {}, **more)


async def nominated(cluster, name="x"):
    return (await cluster.pod(name)).status.nominated_node_name


async def terminating(cluster):
    pods = (await cluster.client.list(PODS, "default")).items
    return sorted(pod.name for pod in pods if pod.terminating)


def attempts(cluster, result):
    return cluster.metric("schedule_attempts_total", result=result, profile="default-scheduler")


async def test_a_pod_preempts_in_the_better_tier_and_waits_for_it(cluster):
    await fill(cluster, "a1", "a2")
    await cluster.create(preemptor())
    node = await nominated(cluster)
    assert (node[0], await terminating(cluster)) == ("a", [f"{node}-0"])
    assert await cluster.why("x") == (
        "0/2 nodes are available: 2 Insufficient cpu. Nodes of lower tiers are used only if "
        f"preemption fails: nominated node {node}."
    )
    await cluster.advance(15)
    assert await cluster.node_of("x") == ""
    await cluster.advance(10)
    assert await cluster.node_of("x") == node
    assert await terminating(cluster) == []


async def test_while_its_victims_terminate_other_events_do_not_move_it_down(cluster):
    await fill(cluster, "a1", "a2")
    await cluster.create(preemptor())
    for i in range(3):
        await cluster.advance(4)
        await cluster.create(a_node(f"b{i + 2}", cpu="4"))
    assert await cluster.node_of("x") == ""
    assert len(await terminating(cluster)) == 1
    assert (await nominated(cluster))[0] == "a"


async def test_an_attempt_while_victims_terminate_says_so(cluster):
    await fill(cluster, "a1", "a2")
    await cluster.create(preemptor())
    await cluster.advance(5)
    cluster.components.scheduler.queue.activate([(await cluster.pod("x")).uid])
    await cluster.settle()
    assert await cluster.node_of("x") == ""
    assert (await cluster.why("x")).endswith("waiting for preempted pods to terminate.")
    assert len(await terminating(cluster)) == 1


async def test_after_a_restart_it_still_waits(cluster):
    await fill(cluster, "a1", "a2")
    await cluster.create(preemptor())
    node = await nominated(cluster)
    await cluster.advance(3)
    await cluster.restart()
    assert (await cluster.node_of("x"), await nominated(cluster)) == ("", node)
    assert len(await terminating(cluster)) == 1
    await cluster.advance(30)
    assert await cluster.node_of("x") == node


async def test_if_a_node_of_the_better_tier_becomes_free_it_is_used(cluster):
    await fill(cluster, "a1", "a2")
    await cluster.create(preemptor())
    await cluster.create(a_node("a3", cpu="4"))
    await cluster.advance(2)
    assert await cluster.node_of("x") == "a3"


@pytest.mark.parametrize(
    "why", [{"priority_class_name": "low"}, {"preemptionPolicy": "Never"}, {"cpu": "4", "app": ""}]
)
async def test_if_preemption_does_not_help_it_is_placed_in_the_same_attempt(cluster, why):
    if why.get("app") == "":
        await fill(cluster, "a1", "a2", "b1")
    else:
        await fill(cluster, "a1", "a2")
    await cluster.create(preemptor(**why))
    assert (await cluster.node_of("x"))[0] in "bc"
    assert (await terminating(cluster), attempts(cluster, "unschedulable")) == ([], 0)


async def test_each_better_tier_is_tried_before_the_next_one(cluster):
    await fill(cluster, "a1", "a2", priority="high")
    await fill(cluster, "b1")
    await cluster.create(preemptor())
    assert (await nominated(cluster), await terminating(cluster)) == ("b1", ["b1-0"])
    await cluster.advance(25)
    assert await cluster.node_of("x") == "b1"


async def test_more_victims_in_a_better_tier_are_evicted_first(cluster):
    await fill(cluster, "a1", "a2", cpu="2", count=2)
    await fill(cluster, "b1")
    await cluster.create(preemptor())
    assert ((await nominated(cluster))[0], len(await terminating(cluster))) == ("a", 2)


async def test_a_pod_that_fits_nowhere_preempts_in_the_best_tier(cluster):
    await fill(cluster, "a1", "a2", cpu="2", count=2)
    await fill(cluster, "b1", "c1")
    await cluster.create(preemptor())
    assert ((await nominated(cluster))[0], len(await terminating(cluster))) == ("a", 2)


async def test_pods_without_tiers_preempt_the_cheapest(cluster):
    await fill(cluster, "a1", "a2", cpu="2", count=2)
    await fill(cluster, "b1", "c1")
    await cluster.create(preemptor(app=""))
    assert ((await nominated(cluster))[0] in "bc", len(await terminating(cluster))) == (True, 1)


async def test_victims_that_terminate_in_a_tier_that_is_no_better_do_not_hold_it(cluster):
    """The pod was nominated to c1; now b1 has room, and preemption in tier a is not possible."""
    await fill(cluster, "a1", "a2", "b1", priority="high")
    await fill(cluster, "c1")
    await cluster.create(preemptor())
    assert await nominated(cluster) == "c1"
    await cluster.client.delete(PODS, "b1-0", "default", grace_seconds=0)
    await cluster.settle()
    await cluster.advance(2)
    assert await cluster.node_of("x") == "b1"


def test_a_fake_cluster_does_not_place_it_either():
    nodes = [a_node(name, cpu="4") for name in ("a1", "b1")]
    fake = FakeCluster(
        *nodes, a_pod("low", cpu="4", node="a1"), profile=profiles()["default-scheduler"]
    )
    assert fake.place(preemptor(priority=10)) == ""
    assert fake.place(preemptor("y", priority=0)) == "b1"


async def test_explain_shows_it(cluster):
    await fill(cluster, "a1", "a2")
    profile = cluster.components.scheduler.profiles["default-scheduler"]
    asked = typed(preemptor(priority=1000))
    answer = explain(profile, asked, cluster.world, cluster.clock.now())
    assert (answer["schedulable"], answer["best"]) == (False, [])
    assert answer["preemption"]["nominatedNode"][0] == "a"
    assert "used only if preemption fails" in answer["message"]
    feasible = {node["name"]: node["feasible"] for node in answer["nodes"]}
    assert feasible == {"a1": False, "a2": False, "b1": True, "c1": True}


@pytest.fixture
async def extended(tmp_path, extender):
    config = extender.config(preempt_verb="preempt", filter_verb="filter")
    async with Harness(tmp_path / "store", profiles=profiles(), extenders=[config]) as made:
        extender.join(made)
        await set_up(made)
        yield made


def keep(*names):
    def answer(body):
        proposed = body["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {n: v for n, v in proposed.items() if n in names}}

    return answer


@pytest.mark.parametrize(("kept", "node"), [(("a2",), "a2"), (("b1",), "b1"), ((), "b1")])
async def test_extenders_choose_among_the_candidates_of_the_better_tier(
    extended, extender, kept, node
):
    extender.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
    extender.answers["preempt"] = keep(*kept)
    await fill(extended, "a1", "a2")
    await extended.create(preemptor())
    asked = [body for verb, body in extender.asked if verb == "preempt"]
    assert set(asked[0]["NodeNameToMetaVictims"]) == {"a1", "a2"}
    await extended.advance(30)
    assert await extended.node_of("x") == node


async def test_a_node_that_extenders_reject_is_not_preempted(extended, extender):
    extender.answers["filter"] = lambda body: {
        "NodeNames": [n for n in body["NodeNames"] if n[0] != "a"],
        "FailedNodes": {n: "no" for n in body["NodeNames"] if n[0] == "a"},
    }
    await fill(extended, "a1", "a2", cpu="1")
    await extended.create(preemptor(cpu="1"))
    assert (await extended.node_of("x"))[0] == "b"
    assert await terminating(extended) == []
