"""Somebody less important has to go: preemption, carried out."""

import random

import pytest

from holdfast.api.quantity import milli
from holdfast.api.requests import pod_request
from holdfast.api.scheme import DISRUPTION_BUDGETS, NODES, PODS
from holdfast.errors import NotFound
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
from scheduler.schedulers_line import SchedulersLine

CLASSES = {"low": 1, "middle": 10, "high": 1000, "higher": 2000}
SHORT = "0/1 nodes are available: 1 Insufficient cpu."


def slow(name, seconds, **more):
    """A pod of no importance that takes its time to stop."""
    notes = {"holdfast.dev/stop-after": f"{seconds}s"}
    return a_pod(name, annotations=notes, priority_class_name="low", **more)


def of_class(name, importance="high", **more):
    return a_pod(name, priority_class_name=importance, **more)


async def begin(cluster, *objects, cpu="4"):
    classes = [a_priority_class(name, value) for name, value in CLASSES.items()]
    await cluster.create(a_node("n", cpu=cpu), *classes)
    await cluster.create(*objects)


async def there(cluster):
    """Pods that stand somewhere and stay."""
    pods = (await cluster.client.list(PODS)).items
    return sorted(p.name for p in pods if p.spec.node_name and not p.terminating)


async def reasons(cluster, name):
    return [reason for reason, _ in await cluster.events(name)]


def metric(cluster, line):
    page = cluster.components.scheduler.metrics_page().decode()
    return float(next(x for x in page.splitlines() if x.startswith(line)).rpartition(" ")[2])


async def test_a_victim_that_stops_at_once_makes_room_at_once(cluster):
    await begin(cluster, a_pod("low", cpu="4"))
    await cluster.create(of_class("p", cpu="4"))
    await cluster.advance(3)
    assert await there(cluster) == ["p"]
    assert (await cluster.pod("p")).status.nominated_node_name == ""
    assert await reasons(cluster, "p") == ["FailedScheduling", "Scheduled"]
    assert ("FailedScheduling", SHORT) in await cluster.events("p")


async def test_victims_leave_within_their_grace_and_the_preemptor_lands_where_it_was_promised(
    cluster,
):
    await begin(cluster, slow("a", 5, cpu="2"), slow("b", 20, cpu="2"))
    await cluster.create(of_class("p", cpu="4"))
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, pod.status.nominated_node_name) == ("", "n")
    assert await cluster.why("p") == SHORT
    for name in ("a", "b"):
        victim = await cluster.pod(name)
        assert victim.terminating
        (target,) = (c for c in victim.status.conditions if c.type == "DisruptionTarget")
        assert (target.status, target.reason) == ("True", "PreemptionByScheduler")
        words = "default-scheduler: preempting to accommodate a higher priority pod"
        assert target.message == words
        told = f"Preempted by pod {pod.uid} on node n"
        assert ("Preempted", told) in await cluster.events(name)
    await cluster.advance(10)
    assert await cluster.node_of("p") == ""
    assert metric(cluster, "scheduler_preemption_victims_count") == 1
    await cluster.advance(25)
    pod = await cluster.pod("p")
    assert (pod.spec.node_name, pod.status.nominated_node_name) == ("n", "")
    assert metric(cluster, "scheduler_preemption_victims_sum") == 2


async def test_S060_the_room_is_kept_for_the_preemptor_unless_somebody_is_more_important(cluster):
    await begin(cluster, slow("a", 5, cpu="3"), slow("b", 60, cpu="1"))
    await cluster.create(of_class("m", "middle", cpu="3"))
    assert (await cluster.pod("m")).status.nominated_node_name == "n"
    await cluster.create(of_class("p", cpu="4"))
    # The less important pod loses its promise, and what it made leave goes on leaving.
    assert (await cluster.pod("m")).status.nominated_node_name == ""
    assert (await cluster.pod("p")).status.nominated_node_name == "n"
    await cluster.advance(10)
    with pytest.raises(NotFound):
        await cluster.pod("a")
    await cluster.create(of_class("rival", cpu="1"))
    await cluster.advance(5)
    assert await there(cluster) == []
    await cluster.create(of_class("boss", "higher", cpu="1"))
    assert await cluster.node_of("boss") == "n"


async def test_S060_the_preemptor_is_gated_until_its_victims_were_asked_to_leave(tmp_path):
    line = SchedulersLine()
    async with Harness(tmp_path / "store", wrap=line.wrap) as cluster:
        await begin(cluster, slow("a", 0, cpu="2"), slow("b", 0, cpu="2"))
        line.add(Fault("delay", method="DELETE", path="/pods/a", seconds=7))
        line.add(Fault("delay", method="DELETE", path="/pods/b", seconds=7))
        await cluster.create(of_class("p", cpu="4"))
        assert (await cluster.pod("p")).status.nominated_node_name == "n"
        # News that might help makes somebody knock at the gate; it stays closed.
        await cluster.create(a_node("small", cpu="2"), of_class("x", cpu="100m"))
        await cluster.delete(PODS, "x", "default")
        await cluster.advance(3)
        assert metric(cluster, 'scheduler_pending_pods{queue="gated"}') == 1
        assert await there(cluster) == ["a", "b"]
        await cluster.advance(7)
        assert len(await there(cluster)) == 1
        assert metric(cluster, 'scheduler_pending_pods{queue="gated"}') == 1
        await cluster.advance(10)
        assert await cluster.node_of("p") == "n"
        assert metric(cluster, "scheduler_preemption_victims_count") == 1


async def test_a_victim_that_cannot_be_asked_is_asked_again_with_the_next_try(tmp_path):
    line = SchedulersLine()
    async with Harness(tmp_path / "store", wrap=line.wrap) as cluster:
        await begin(cluster, a_pod("a", cpu="4"))
        line.add(Fault("unavailable", method="DELETE", path="/pods/a", times=4))
        await cluster.create(of_class("p", cpu="4"))
        await cluster.advance(30)
        assert await cluster.node_of("p") == "n"


async def test_an_answer_that_was_lost_evicts_nobody_else(tmp_path):
    line = SchedulersLine()
    async with Harness(tmp_path / "store", wrap=line.wrap) as cluster:
        await begin(cluster, *(slow(f"v{i}", 10, cpu="2") for i in range(4)), cpu="8")
        line.add(Fault("lost", method="DELETE", path="/pods/v"))
        await cluster.create(of_class("p", cpu="2"))
        await cluster.advance(30)
        assert await cluster.node_of("p") == "n"
        assert len([name for name in await there(cluster) if name != "p"]) == 3


async def test_a_pod_whose_binding_is_being_written_is_evicted_once_that_is_known(tmp_path):
    line = SchedulersLine()
    async with Harness(tmp_path / "store", wrap=line.wrap) as cluster:
        await begin(cluster)
        line.add(Fault("delay", method="POST", path="/pods/a/binding", seconds=3))
        await cluster.create(a_pod("a", cpu="4"))
        await cluster.create(of_class("p", cpu="4"))
        await cluster.advance(20)
        assert await there(cluster) == ["p"]
        with pytest.raises(NotFound):
            await cluster.pod("a")


async def test_a_pod_on_its_way_to_a_node_is_recalled_and_keeps_its_life(tmp_path):
    line = SchedulersLine()
    async with Harness(tmp_path / "store", wrap=line.wrap) as cluster:
        await begin(cluster, a_device_class("gpu"), a_slice("s", node="n"), a_claim("a"))
        line.add(Fault("delay", method="PATCH", path="/resourceclaims/a/status", seconds=3))
        claims = [{"name": "dev", "resourceClaimName": "a"}]
        await cluster.create(a_pod("a", cpu="4", claims=claims))
        assert (await cluster.pod("a")).status.nominated_node_name == "n"
        await cluster.create(of_class("p", cpu="4"))
        await cluster.advance(20)
        assert await there(cluster) == ["p"]
        assert not (await cluster.pod("a")).terminating
        told = dict(await cluster.events("a"))
        assert told["Preempted"].endswith("on node n (in kube-scheduler memory).")
        assert "Scheduled" not in told
        assert (await cluster.pod("a")).status.nominated_node_name == ""


async def test_a_budget_decides_who_goes(cluster):
    await begin(
        cluster,
        a_pod("guarded", cpu="2", labels={"app": "web"}, priority_class_name="low"),
        a_pod("dear", cpu="2", priority_class_name="middle"),
    )
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    await cluster.create(an_object(DISRUPTION_BUDGETS, "pdb", spec, namespace="default"))
    await cluster.create(of_class("p", cpu="2"))
    await cluster.advance(3)
    assert await there(cluster) == ["guarded", "p"]


async def test_a_preemptor_that_is_deleted_gives_its_promise_back(cluster):
    await begin(cluster, slow("a", 20, cpu="4"))
    await cluster.create(of_class("p", cpu="4"), of_class("q", cpu="4"))
    assert (await cluster.pod("p")).status.nominated_node_name == "n"
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(40)
    assert await there(cluster) == ["q"]
    assert not cluster.world.nominations


async def test_the_promise_outlives_a_restart(cluster):
    await begin(cluster, slow("a", 20, cpu="4"))
    await cluster.create(of_class("p", cpu="4"))
    await cluster.restart()
    await cluster.create(of_class("rival", cpu="4"))
    await cluster.advance(40)
    assert await there(cluster) == ["p"]


async def test_a_preemptor_that_finds_room_elsewhere_frees_its_node_for_others(cluster):
    await begin(cluster, slow("a", 20, cpu="4"))
    await cluster.create(of_class("p", cpu="4"))
    await cluster.create(a_node("other", cpu="4"))
    await cluster.advance(5)
    assert await cluster.node_of("p") == "other"
    await cluster.create(of_class("q", cpu="4"))
    await cluster.advance(40)
    assert await cluster.node_of("q") == "n"


@pytest.mark.parametrize("seed", range(6))
async def test_a_rival_of_equal_priority_never_takes_promised_room(tmp_path, seed):
    """While a pod is nominated, everything else that stays on the node leaves room for it."""
    rng = random.Random(seed)
    async with Harness(tmp_path / "store", seed=seed) as cluster:
        await begin(cluster)
        await cluster.create(a_node("m", cpu="4"))
        await cluster.create(
            *(slow(f"v{i}", rng.choice((1, 5, 15, 25)), cpu="1") for i in range(8))
        )
        promised = 0
        for step in range(25):
            size = rng.choice(("500m", "1", "2", "3"))
            await cluster.create(of_class(f"p{step}", cpu=size))
            assert not await broken_nominations(cluster)
            promised += bool(cluster.world.nominations)
            await cluster.advance(rng.choice((0.5, 2.0, 7.0)))
            assert not await broken_nominations(cluster)
            if rng.random() < 0.3:
                await gone(cluster, rng)
        await cluster.advance(120)
        assert not await broken_nominations(cluster)
        assert promised > 2


async def gone(cluster, rng):
    names = sorted(pod.name for pod in (await cluster.client.list(PODS)).items)
    await cluster.delete(PODS, rng.choice(names), "default")


async def broken_nominations(cluster):
    """Nodes where pods that stay leave too little for the pods promised to land there."""
    pods = (await cluster.client.list(PODS)).items
    found = []
    for node in (await cluster.client.list(NODES)).items:
        stay = [p for p in pods if p.spec.node_name == node.name and not p.terminating]
        promised = [
            p for p in pods if not p.spec.node_name and p.status.nominated_node_name == node.name
        ]
        used = sum(pod_request(p).amounts.get("cpu", 0) for p in (*stay, *promised))
        if promised and used > milli(node.status.allocatable["cpu"]):
            found.append((node.name, [p.name for p in stay], [p.name for p in promised]))
    return found
