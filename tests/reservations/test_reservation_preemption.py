"""Reservations that evict: only where it is switched on, and never somebody who is spared."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import DISRUPTION_BUDGETS, EVENTS, PODS, RESERVATIONS
from holdfast.client.client import PatchType
from holdfast.configuration.reading import Configuration
from holdfast.engine.profile import build_profile
from holdfast.plugins import REGISTRY
from holdfast.testing import a_priority_class
from holdfast.testing.builders import an_object
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.rooms import (
    PREFIX,
    drawn_from,
    filler,
    given,
    held,
    node,
    owner,
    status,
    stranger,
    waits,
)

SPARED = {f"{PREFIX}/disable-preemptible": "true"}
URGENT = {"koordinator.sh/priority": "1000"}
SHORT = "0/1 nodes are available: 1 Insufficient cpu."


@asynccontextmanager
async def evicting(directory, **more):
    profile = build_profile(
        "default-scheduler", REGISTRY, args={"Reservation": {"enablePreemption": True}}
    )
    configuration = Configuration({"default-scheduler": profile})
    async with Harness(directory / "store", configuration=configuration, **more) as cluster:
        yield cluster


def slow(cpu, name="used", seconds=30, **more):
    """A pod that takes its time to stop."""
    return filler(cpu, name, annotations={"holdfast.dev/stop-after": f"{seconds}s"}, **more)


async def why(cluster, name="r"):
    (condition,) = (await cluster.reservation(name)).status.conditions
    assert (condition.type, condition.status) == ("Scheduled", "False")
    return condition.message


async def leaving(cluster):
    return sorted(p.name for p in (await cluster.client.list(PODS)).items if p.terminating)


async def test_R080_it_evicts_less_important_pods(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node(), *[slow("4", f"p{i}") for i in range(4)])
        await given(cluster, held(cpu="16", labels=URGENT))
        assert await leaving(cluster) == ["p0", "p1", "p2", "p3"]
        assert await why(cluster) == SHORT
        assert (await status(cluster))[0] == "Pending"
        await cluster.advance(40)
        assert (await status(cluster))[0] == "Available"
        await given(cluster, stranger(cpu="4"), owner(cpu="16"))
        assert await waits(cluster, "stranger")
        assert await drawn_from(cluster, "owner") == "r"


async def test_R080_a_spared_pod_stays(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node(), slow("8", "spared", labels=SPARED), slow("8", "other"))
        await given(cluster, held("large", cpu="16", labels=URGENT))
        assert await leaving(cluster) == []
        words = f"{SHORT} no new claims to deallocate, preemption: {SHORT}"
        assert await why(cluster, "large") == words
        await given(cluster, held(cpu="8", labels=URGENT))
        assert await leaving(cluster) == ["other"]
        await cluster.advance(40)
        assert (await status(cluster))[0] == "Available"


async def test_R080_where_everybody_is_spared_there_are_no_victims(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node(), filler("16", labels=SPARED), held(cpu="8", labels=URGENT))
        words = (
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        assert (await why(cluster)).endswith(words)


async def test_R080_who_is_spared_may_change(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node(), filler("16", labels=SPARED), held(cpu="8", labels=URGENT))
        body = {"metadata": {"labels": dict.fromkeys(SPARED)}}
        await cluster.client.patch(PODS, "used", body, "default", type=PatchType.MERGE)
        await given(cluster, held("second", cpu="8", labels=URGENT))
        await cluster.advance(5)
        assert (await status(cluster, "second"))[0] == "Available"


async def test_R080_unless_it_is_switched_on_nobody_is_evicted(cluster):
    await given(cluster, node(), filler("16"), held(cpu="8", labels=URGENT))
    assert await leaving(cluster) == []
    assert await why(cluster) == f"{SHORT} no new claims to deallocate"
    await cluster.advance(60)
    assert await cluster.node_of("used") == "n1"


async def test_R081_nobody_evicts_a_reservation(cluster):
    await given(cluster, node(), held(cpu="16"), a_priority_class("highest", 10**9))
    await given(cluster, stranger(cpu="4", priority_class_name="highest"))
    words = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert (await cluster.why("stranger")).endswith(words)
    critical = stranger("critical", cpu="4", priority_class_name="system-node-critical")
    await given(cluster, critical)
    assert await waits(cluster, "critical")
    assert (await status(cluster))[0] == "Available"


async def test_without_a_priority_of_its_own_it_is_more_important_than_any_pod(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, a_priority_class("highest", 10**9), node())
        await given(cluster, filler("16", priority_class_name="highest"), held(cpu="8"))
        await cluster.advance(5)
        assert (await status(cluster))[0] == "Available"


async def test_one_that_says_never_evicts_nobody(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node(), filler("16"))
        await given(cluster, held(cpu="8", template={"preemption_policy": "Never"}))
        assert "preemption: not eligible due to preemptionPolicy=Never." in await why(cluster)


async def test_those_whom_a_budget_guards_go_last(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node())
        await given(cluster, slow("8", "guarded", labels={"app": "db"}), slow("8", "other"))
        selector = {"selector": {"matchLabels": {"app": "db"}}, "minAvailable": 1}
        await given(cluster, an_object(DISRUPTION_BUDGETS, "b", selector, namespace="default"))
        await given(cluster, held(cpu="8", labels=URGENT))
        assert await leaving(cluster) == ["other"]


async def test_victims_are_told_for_whom_they_leave(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node(), slow("16"), held(cpu="8", labels=URGENT))
        uid = (await cluster.reservation("r")).uid
        assert ("Preempted", f"Preempted by pod {uid} on node n1") in await cluster.events("used")
        events = (await cluster.client.list(EVENTS, "default")).items
        (told,) = (e for e in events if e.reason == "Preempted")
        assert (told.related.kind, told.related.name) == ("Reservation", "r")
        assert cluster.metric("preemption_victims_sum") == 1


async def test_what_it_was_promised_is_counted_for_others(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, a_priority_class(), node(), slow("8", "quick", 5), slow("8", "lazy"))
        await given(cluster, held(cpu="16", labels=URGENT))
        await cluster.advance(10)
        await given(
            cluster, stranger(cpu="4"), stranger("rival", cpu="4", priority_class_name="high")
        )
        await cluster.advance(5)
        assert await waits(cluster, "stranger") and await waits(cluster, "rival")
        await cluster.advance(30)
        assert (await status(cluster))[0] == "Available"
        assert await waits(cluster, "stranger") and await waits(cluster, "rival")


async def test_a_promise_ends_with_the_reservation(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node(), slow("16"), held(cpu="16", labels=URGENT))
        await given(cluster, stranger(cpu="4"))
        await cluster.delete(RESERVATIONS, "r")
        assert not cluster.world.nominations
        await cluster.advance(40)
        assert await cluster.node_of("stranger") == "n1"


@pytest.mark.parametrize("cheaper", [False, True])
async def test_after_a_restart_nobody_else_is_evicted(tmp_path, cheaper):
    async with evicting(tmp_path) as cluster:
        await given(cluster, node("n2"), node("n1"))
        for name, where in (("a", "n2"), ("b", "n2"), ("c", "n1"), ("d", "n1")):
            await given(cluster, slow("8", name, node=where))
        await given(cluster, held(cpu="16", labels=URGENT))
        assert await leaving(cluster) == ["a", "b"]
        if cheaper:
            await cluster.client.delete(PODS, "c", "default", grace_seconds=0)
        await cluster.restart()
        assert await leaving(cluster) == ["a", "b"]
        await cluster.advance(40)
        assert (await cluster.reservation("r")).status.node_name == "n2"
        assert await cluster.node_of("d") == "n1"


async def test_a_lost_answer_evicts_nobody_twice(tmp_path):
    fault = Fault("lost", method="DELETE", path="/pods/p0")

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with evicting(tmp_path, wrap=spoiled) as cluster:
        await given(cluster, node(), slow("8", "p0"), slow("8", "p1", labels=SPARED))
        await given(cluster, held(cpu="8", labels=URGENT))
        await cluster.advance(45)
        assert (await status(cluster))[0] == "Available"
        assert await cluster.node_of("p1") == "n1"


async def test_a_pod_more_important_takes_the_promise_over(tmp_path):
    async with evicting(tmp_path) as cluster:
        await given(cluster, a_priority_class("higher", 2000), node(), slow("16"))
        await given(cluster, held(cpu="16", labels=URGENT))
        await given(cluster, stranger("boss", cpu="16", priority_class_name="higher"))
        await cluster.advance(40)
        assert await cluster.node_of("boss") == "n1"
        assert (await status(cluster))[0] == "Pending"
