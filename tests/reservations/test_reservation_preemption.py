"""Reservations that preempt: only where it is enabled, and never a protected pod."""

from contextlib import asynccontextmanager

import pytest

from holdfast.api.scheme import DISRUPTION_BUDGETS, EVENTS, PODS, RESERVATIONS
from holdfast.client.client import PatchType
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.engine.profile import build_profile
from holdfast.scheduling.plugins import REGISTRY
from holdfast.testing import a_priority_class
from holdfast.testing.builders import an_object
from holdfast.testing.faults import Fault, FaultyTransport
from holdfast.testing.harness import Harness
from reservations.objects import (
    PREFIX,
    allocated_from,
    create_each,
    held,
    is_pending,
    node,
    non_owner,
    owner,
    running,
    status,
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
    """A pod that takes some seconds to terminate."""
    return running(cpu, name, annotations={"holdfast.dev/stop-after": f"{seconds}s"}, **more)


async def why(cluster, name="r"):
    (condition,) = (await cluster.reservation(name)).status.conditions
    assert (condition.type, condition.status) == ("Scheduled", "False")
    return condition.message


async def terminating(cluster):
    return sorted(p.name for p in (await cluster.client.list(PODS)).items if p.terminating)


async def test_R080_it_preempts_pods_of_lower_priority(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, node(), *[slow("4", f"p{i}") for i in range(4)])
        await create_each(cluster, held(cpu="16", labels=URGENT))
        assert await terminating(cluster) == ["p0", "p1", "p2", "p3"]
        assert await why(cluster) == SHORT
        assert (await status(cluster))[0] == "Pending"
        await cluster.advance(40)
        assert (await status(cluster))[0] == "Available"
        await create_each(cluster, non_owner(cpu="4"), owner(cpu="16"))
        assert await is_pending(cluster, "stranger")
        assert await allocated_from(cluster, "owner") == "r"


async def test_R080_a_protected_pod_is_not_evicted(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, node(), slow("8", "spared", labels=SPARED), slow("8", "other"))
        await create_each(cluster, held("large", cpu="16", labels=URGENT))
        assert await terminating(cluster) == []
        words = f"{SHORT} no new claims to deallocate, preemption: {SHORT}"
        assert await why(cluster, "large") == words
        await create_each(cluster, held(cpu="8", labels=URGENT))
        assert await terminating(cluster) == ["other"]
        await cluster.advance(40)
        assert (await status(cluster))[0] == "Available"


async def test_R080_where_all_pods_are_protected_there_are_no_victims(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(
            cluster, node(), running("16", labels=SPARED), held(cpu="8", labels=URGENT)
        )
        words = (
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        assert (await why(cluster)).endswith(words)


async def test_R080_protection_may_be_changed(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(
            cluster, node(), running("16", labels=SPARED), held(cpu="8", labels=URGENT)
        )
        body = {"metadata": {"labels": dict.fromkeys(SPARED)}}
        await cluster.client.patch(PODS, "used", body, "default", type=PatchType.MERGE)
        await create_each(cluster, held("second", cpu="8", labels=URGENT))
        await cluster.advance(5)
        assert (await status(cluster, "second"))[0] == "Available"


async def test_R080_without_enablePreemption_no_pod_is_evicted(cluster):
    await create_each(cluster, node(), running("16"), held(cpu="8", labels=URGENT))
    assert await terminating(cluster) == []
    assert await why(cluster) == f"{SHORT} no new claims to deallocate"
    await cluster.advance(60)
    assert await cluster.node_of("used") == "n1"


async def test_R081_a_reservation_is_never_evicted(cluster):
    await create_each(cluster, node(), held(cpu="16"), a_priority_class("highest", 10**9))
    await create_each(cluster, non_owner(cpu="4", priority_class_name="highest"))
    words = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert (await cluster.why("stranger")).endswith(words)
    critical = non_owner("critical", cpu="4", priority_class_name="system-node-critical")
    await create_each(cluster, critical)
    assert await is_pending(cluster, "critical")
    assert (await status(cluster))[0] == "Available"


async def test_without_a_priority_it_is_above_every_pod(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, a_priority_class("highest", 10**9), node())
        await create_each(cluster, running("16", priority_class_name="highest"), held(cpu="8"))
        await cluster.advance(5)
        assert (await status(cluster))[0] == "Available"


async def test_preemption_policy_Never_evicts_no_pod(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, node(), running("16"))
        await create_each(cluster, held(cpu="8", template={"preemption_policy": "Never"}))
        assert "preemption: not eligible due to preemptionPolicy=Never." in await why(cluster)


async def test_pods_of_a_disruption_budget_are_evicted_last(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, node())
        await create_each(cluster, slow("8", "guarded", labels={"app": "db"}), slow("8", "other"))
        selector = {"selector": {"matchLabels": {"app": "db"}}, "minAvailable": 1}
        await create_each(
            cluster, an_object(DISRUPTION_BUDGETS, "b", selector, namespace="default")
        )
        await create_each(cluster, held(cpu="8", labels=URGENT))
        assert await terminating(cluster) == ["other"]


async def test_the_event_of_a_victim_names_the_reservation(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, node(), slow("16"), held(cpu="8", labels=URGENT))
        uid = (await cluster.reservation("r")).uid
        assert ("Preempted", f"Preempted by pod {uid} on node n1") in await cluster.events("used")
        events = (await cluster.client.list(EVENTS, "default")).items
        (event,) = (e for e in events if e.reason == "Preempted")
        assert (event.related.kind, event.related.name) == ("Reservation", "r")
        assert cluster.metric("preemption_victims_sum") == 1


async def test_a_nominated_reservation_counts_for_other_pods(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(
            cluster, a_priority_class(), node(), slow("8", "quick", 5), slow("8", "lazy")
        )
        await create_each(cluster, held(cpu="16", labels=URGENT))
        await cluster.advance(10)
        await create_each(
            cluster, non_owner(cpu="4"), non_owner("rival", cpu="4", priority_class_name="high")
        )
        await cluster.advance(5)
        assert await is_pending(cluster, "stranger") and await is_pending(cluster, "rival")
        await cluster.advance(30)
        assert (await status(cluster))[0] == "Available"
        assert await is_pending(cluster, "stranger") and await is_pending(cluster, "rival")


async def test_the_nomination_ends_with_the_reservation(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, node(), slow("16"), held(cpu="16", labels=URGENT))
        await create_each(cluster, non_owner(cpu="4"))
        await cluster.delete(RESERVATIONS, "r")
        assert not cluster.world.nominations
        await cluster.advance(40)
        assert await cluster.node_of("stranger") == "n1"


@pytest.mark.parametrize("cheaper", [False, True])
async def test_after_a_restart_no_other_pod_is_evicted(tmp_path, cheaper):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, node("n2"), node("n1"))
        for name, where in (("a", "n2"), ("b", "n2"), ("c", "n1"), ("d", "n1")):
            await create_each(cluster, slow("8", name, node=where))
        await create_each(cluster, held(cpu="16", labels=URGENT))
        assert await terminating(cluster) == ["a", "b"]
        if cheaper:
            await cluster.client.delete(PODS, "c", "default", grace_seconds=0)
        await cluster.restart()
        assert await terminating(cluster) == ["a", "b"]
        await cluster.advance(40)
        assert (await cluster.reservation("r")).status.node_name == "n2"
        assert await cluster.node_of("d") == "n1"


async def test_a_lost_response_evicts_no_pod_twice(tmp_path):
    fault = Fault("lost", method="DELETE", path="/pods/p0")

    def spoiled(transport, clock):
        return FaultyTransport(transport, [fault], clock=clock)

    async with evicting(tmp_path, wrap=spoiled) as cluster:
        await create_each(cluster, node(), slow("8", "p0"), slow("8", "p1", labels=SPARED))
        await create_each(cluster, held(cpu="8", labels=URGENT))
        await cluster.advance(45)
        assert (await status(cluster))[0] == "Available"
        assert await cluster.node_of("p1") == "n1"


async def test_a_pod_of_higher_priority_takes_the_nominated_node(tmp_path):
    async with evicting(tmp_path) as cluster:
        await create_each(cluster, a_priority_class("higher", 2000), node(), slow("16"))
        await create_each(cluster, held(cpu="16", labels=URGENT))
        await create_each(cluster, non_owner("boss", cpu="16", priority_class_name="higher"))
        await cluster.advance(40)
        assert await cluster.node_of("boss") == "n1"
        assert (await status(cluster))[0] == "Pending"
