"""Preemption in a running cluster."""

import random

import pytest

from holdfast.api.quantity import milli
from holdfast.api.requests import pod_request
from holdfast.api.scheme import DISRUPTION_BUDGETS, NODES, PODS
from holdfast.runtime.errors import NotFound
from holdfast.testing import (
    Fault,
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_slice,
)
from holdfast.testing.builders import an_object
from holdfast.testing.harness import Harness
from scheduler.scheduler_network import SchedulerNetwork
from soak_size import SEED, TIMES

CLASSES = {"low": 1, "middle": 10, "high": 1000, "higher": 2000}
SHORT = "0/1 nodes are available: 1 Insufficient cpu."


def slow(name, seconds, **more):
    """Return a pod of low priority that takes some seconds to stop."""
    notes = {"holdfast.dev/stop-after": f"{seconds}s"}
    return a_pod(name, annotations=notes, priority_class_name="low", **more)


def of_class(name, priority_class="high", **more):
    return a_pod(name, priority_class_name=priority_class, **more)


async def start(cluster, *objects, cpu="4"):
    classes = [a_priority_class(name, value) for name, value in CLASSES.items()]
    await cluster.create(a_node("n", cpu=cpu), *classes)
    await cluster.create(*objects)


async def assigned(cluster):
    """Return the names of assigned pods that are not terminating."""
    pods = (await cluster.client.list(PODS)).items
    return sorted(p.name for p in pods if p.spec.node_name and not p.terminating)


async def reasons(cluster, name):
    return [reason for reason, _ in await cluster.events(name)]


def metric(cluster, line):
    page = cluster.components.scheduler.metrics_page().decode()
    return float(next(x for x in page.splitlines() if x.startswith(line)).rpartition(" ")[2])


async def test_the_preemptor_is_scheduled_when_its_victim_has_stopped(cluster):
    await start(cluster, a_pod("low", cpu="4"))
    await cluster.create(of_class("p", cpu="4"))
    await cluster.advance(3)
    assert await assigned(cluster) == ["p"]
    assert (await cluster.pod("p")).status.nominated_node_name == ""
    assert await reasons(cluster, "p") == ["FailedScheduling", "Scheduled"]
    assert ("FailedScheduling", SHORT) in await cluster.events("p")


async def test_the_preemptor_is_scheduled_to_its_nominated_node_after_the_grace_period(
    cluster,
):
    await start(cluster, slow("a", 5, cpu="2"), slow("b", 20, cpu="2"))
    await cluster.create(of_class("p", cpu="4"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, pod.status.nominated_node_name) == ("", "n")
    assert await cluster.why("p") == SHORT
    for name in ("a", "b"):
        victim = await cluster.pod(name)
        assert victim.terminating
        (target,) = (c for c in victim.status.conditions if c.type == "DisruptionTarget")
        assert (target.status, target.reason) == ("True", "PreemptionByScheduler")
        message = "default-scheduler: preempting to accommodate a higher priority pod"
        assert target.message == message
        event = f"Preempted by pod {pod.uid} on node n"
        assert ("Preempted", event) in await cluster.events(name)
    await cluster.advance(10)
    assert await cluster.node_of("p") == ""
    assert metric(cluster, "scheduler_preemption_victims_count") == 1
    await cluster.advance(25)
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, pod.status.nominated_node_name) == ("n", "")
    assert metric(cluster, "scheduler_preemption_victims_sum") == 2


async def test_S060_only_pods_of_higher_priority_use_a_nominated_node(cluster):
    await start(cluster, slow("a", 5, cpu="3"), slow("b", 60, cpu="1"))
    await cluster.create(of_class("m", "middle", cpu="3"))
    assert (await cluster.pod("m")).status.nominated_node_name == "n"
    await cluster.create(of_class("p", cpu="4"))
    # The nomination of lower priority is cleared; its victim is still deleted.
    assert (await cluster.pod("m")).status.nominated_node_name == ""
    assert (await cluster.pod("p")).status.nominated_node_name == "n"
    await cluster.advance(10)
    with pytest.raises(NotFound):
        await cluster.pod("a")
    await cluster.create(of_class("rival", cpu="1"))
    await cluster.advance(5)
    assert await assigned(cluster) == []
    await cluster.create(of_class("boss", "higher", cpu="1"))
    assert await cluster.node_of("boss") == "n"


async def test_S060_the_preemptor_is_gated_until_its_victims_are_being_deleted(tmp_path):
    network = SchedulerNetwork()
    async with Harness(tmp_path / "store", wrap=network.wrap) as cluster:
        await start(cluster, slow("a", 0, cpu="2"), slow("b", 0, cpu="2"))
        network.add(Fault("delay", method="DELETE", path="/pods/a", seconds=7))
        network.add(Fault("delay", method="DELETE", path="/pods/b", seconds=7))
        await cluster.create(of_class("p", cpu="4"))
        assert (await cluster.pod("p")).status.nominated_node_name == "n"
        # Events that might help do not end the gate.
        await cluster.create(a_node("small", cpu="2"), of_class("x", cpu="100m"))
        await cluster.delete(PODS, "x", "default")
        await cluster.advance(3)
        assert metric(cluster, 'scheduler_pending_pods{queue="gated"}') == 1
        assert await assigned(cluster) == ["a", "b"]
        await cluster.advance(7)
        assert len(await assigned(cluster)) == 1
        assert metric(cluster, 'scheduler_pending_pods{queue="gated"}') == 1
        await cluster.advance(10)
        assert await cluster.node_of("p") == "n"
        assert metric(cluster, "scheduler_preemption_victims_count") == 1


async def test_a_failed_deletion_of_a_victim_is_retried_in_the_next_attempt(tmp_path):
    network = SchedulerNetwork()
    async with Harness(tmp_path / "store", wrap=network.wrap) as cluster:
        await start(cluster, a_pod("a", cpu="4"))
        network.add(Fault("unavailable", method="DELETE", path="/pods/a", times=4))
        await cluster.create(of_class("p", cpu="4"))
        await cluster.advance(30)
        assert await cluster.node_of("p") == "n"


async def test_a_lost_response_does_not_evict_another_pod(tmp_path):
    network = SchedulerNetwork()
    async with Harness(tmp_path / "store", wrap=network.wrap) as cluster:
        await start(cluster, *(slow(f"v{i}", 10, cpu="2") for i in range(4)), cpu="8")
        network.add(Fault("lost", method="DELETE", path="/pods/v"))
        await cluster.create(of_class("p", cpu="2"))
        await cluster.advance(30)
        assert await cluster.node_of("p") == "n"
        assert len([name for name in await assigned(cluster) if name != "p"]) == 3


async def test_a_pod_being_bound_is_evicted_after_its_binding(tmp_path):
    network = SchedulerNetwork()
    async with Harness(tmp_path / "store", wrap=network.wrap) as cluster:
        await start(cluster)
        network.add(Fault("delay", method="POST", path="/pods/a/binding", seconds=3))
        await cluster.create(a_pod("a", cpu="4"))
        await cluster.create(of_class("p", cpu="4"))
        await cluster.advance(20)
        assert await assigned(cluster) == ["p"]
        with pytest.raises(NotFound):
            await cluster.pod("a")


async def test_the_binding_of_an_assumed_victim_is_cancelled_and_the_pod_kept(tmp_path):
    network = SchedulerNetwork()
    async with Harness(tmp_path / "store", wrap=network.wrap) as cluster:
        await start(cluster, a_device_class("gpu"), a_slice("s", node="n"), a_claim("a"))
        network.add(Fault("delay", method="PATCH", path="/resourceclaims/a/status", seconds=3))
        claims = [{"name": "dev", "resourceClaimName": "a"}]
        await cluster.create(a_pod("a", cpu="4", claims=claims))
        assert (await cluster.pod("a")).status.nominated_node_name == "n"
        await cluster.create(of_class("p", cpu="4"))
        await cluster.advance(20)
        assert await assigned(cluster) == ["p"]
        assert not (await cluster.pod("a")).terminating
        events = dict(await cluster.events("a"))
        assert events["Preempted"].endswith("on node n (in kube-scheduler memory).")
        assert "Scheduled" not in events
        assert (await cluster.pod("a")).status.nominated_node_name == ""


async def test_a_disruption_budget_decides_the_victim(cluster):
    await start(
        cluster,
        a_pod("guarded", cpu="2", labels={"app": "web"}, priority_class_name="low"),
        a_pod("dear", cpu="2", priority_class_name="middle"),
    )
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    await cluster.create(an_object(DISRUPTION_BUDGETS, "pdb", spec, namespace="default"))
    await cluster.create(of_class("p", cpu="2"))
    await cluster.advance(3)
    assert await assigned(cluster) == ["guarded", "p"]


async def test_the_nomination_of_a_deleted_preemptor_is_cleared(cluster):
    await start(cluster, slow("a", 20, cpu="4"))
    await cluster.create(of_class("p", cpu="4"), of_class("q", cpu="4"))
    assert (await cluster.pod("p")).status.nominated_node_name == "n"
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(40)
    assert await assigned(cluster) == ["q"]
    assert not cluster.world.nominations


async def test_a_nomination_survives_a_restart(cluster):
    await start(cluster, slow("a", 20, cpu="4"))
    await cluster.create(of_class("p", cpu="4"))
    await cluster.restart()
    await cluster.create(of_class("rival", cpu="4"))
    await cluster.advance(40)
    assert await assigned(cluster) == ["p"]


async def test_a_preemptor_scheduled_elsewhere_clears_its_nomination(cluster):
    await start(cluster, slow("a", 20, cpu="4"))
    await cluster.create(of_class("p", cpu="4"))
    await cluster.create(a_node("other", cpu="4"))
    await cluster.advance(5)
    assert await cluster.node_of("p") == "other"
    await cluster.create(of_class("q", cpu="4"))
    await cluster.advance(40)
    assert await cluster.node_of("q") == "n"


@pytest.mark.parametrize("seed", range(SEED, SEED + 2 * TIMES))
async def test_a_pod_of_equal_priority_never_uses_resources_of_a_nominated_pod(tmp_path, seed):
    """Assigned and nominated pods together never exceed a node."""
    rng = random.Random(seed)
    async with Harness(tmp_path / "store", seed=seed) as cluster:
        await start(cluster)
        await cluster.create(a_node("m", cpu="4"))
        await cluster.create(
            *(slow(f"v{i}", rng.choice((1, 5, 15, 25)), cpu="1") for i in range(8))
        )
        nominated = 0
        for step in range(25):
            size = rng.choice(("500m", "1", "2", "3"))
            await cluster.create(of_class(f"p{step}", cpu=size))
            assert not await broken_nominations(cluster)
            nominated += bool(cluster.world.nominations)
            await cluster.advance(rng.choice((0.5, 2.0, 7.0)))
            assert not await broken_nominations(cluster)
            if rng.random() < 0.3:
                await delete_one(cluster, rng)
        await cluster.advance(120)
        assert not await broken_nominations(cluster)
        assert nominated > 2


async def delete_one(cluster, rng):
    names = sorted(pod.name for pod in (await cluster.client.list(PODS)).items)
    await cluster.delete(PODS, rng.choice(names), "default")


async def broken_nominations(cluster):
    """Return the nodes whose assigned and nominated pods exceed the allocatable CPU."""
    pods = (await cluster.client.list(PODS)).items
    found = []
    for node in (await cluster.client.list(NODES)).items:
        stay = [p for p in pods if p.spec.node_name == node.name and not p.terminating]
        nominated = [
            p for p in pods if not p.spec.node_name and p.status.nominated_node_name == node.name
        ]
        used = sum(pod_request(p).amounts.get("cpu", 0) for p in (*stay, *nominated))
        if nominated and used > milli(node.status.allocatable["cpu"]):
            found.append((node.name, [p.name for p in stay], [p.name for p in nominated]))
    return found
