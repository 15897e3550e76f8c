"""Preemption for devices while their users are being bound or terminate slowly."""

import pytest

from holdfast.api.scheme import NODES, PODS, RESOURCE_CLAIMS
from holdfast.cli.explanation_text import preemption_lines
from holdfast.node.agent.simulated_pod import STOP_AFTER
from holdfast.testing import (
    Fault,
    FaultyTransport,
    a_claim,
    a_device_class,
    a_node,
    a_pod,
    a_priority_class,
    a_slice,
)
from holdfast.testing.harness import Harness


def user(name, claim, priority, *, cpu="100m", stop_after="", **options):
    claims = [{"name": "dev", "resourceClaimName": claim}]
    pod = a_pod(name, cpu=cpu, resource_claims=claims, priority_class_name=priority, **options)
    if stop_after:
        pod["metadata"]["annotations"] = {STOP_AFTER: stop_after}
    return pod


@pytest.fixture
async def gpus(cluster):
    """Two nodes with two devices each, and two priorities."""
    await cluster.create(
        a_priority_class("low", 10), a_priority_class("high", 1000), a_device_class("gpu")
    )
    for node in ("n1", "n2"):
        await cluster.create(a_node(node, cpu="2"), a_slice(f"{node}-gpus", node=node, devices=2))
    return cluster


async def terminating(cluster):
    pods = (await cluster.client.list(PODS)).items
    return {pod.name for pod in pods if pod.metadata.deletion_timestamp is not None}


async def test_no_more_pods_are_evicted_while_victims_terminate_slowly(gpus):
    for name in "abcd":
        await gpus.create(a_claim(name), user(name, name, "low", stop_after="25s"))
    await gpus.create(a_claim("u", count=2), user("urgent", "u", "high"))
    victims = await terminating(gpus)
    assert len(victims) == 2
    node = (await gpus.pod("urgent")).status.nominated_node_name
    # A pod of low priority that comes meanwhile does not get their devices.
    await gpus.create(a_claim("l"), user("late", "l", "low"))
    for second in range(24):
        # Something else happens all the time, so that the pod is tried again.
        await gpus.create(a_node("other"), settle=True)
        await gpus.client.delete(NODES, "other")
        await gpus.advance(1)
        if second == 11:
            await gpus.restart_components()
            await gpus.settle()
        assert await terminating(gpus) == victims
        assert (await gpus.pod("urgent")).status.nominated_node_name == node
    assert not await gpus.node_of("urgent")
    await gpus.advance(20)
    assert await gpus.node_of("urgent") == node
    assert {pod.name for pod in (await gpus.client.list(PODS)).items} == {
        *(set("abcd") - victims), "urgent", "late",
    }  # fmt: skip
    assert not await gpus.node_of("late")


async def test_a_pod_that_lacks_cpu_first_preempts_when_the_user_of_its_device_is_bound(
    cluster, network
):
    await cluster.create(
        a_priority_class("low", 10), a_priority_class("high", 1000), a_device_class("gpu"),
        a_node("n1", cpu="2"), a_slice("n1-gpus", node="n1", devices=1),
    )  # fmt: skip
    network.add(Fault("delay", method="POST", path="/pods/holder/binding", seconds=20))
    await cluster.create(a_claim("h"), user("holder", "h", "low", cpu="1500m"))
    assert not await cluster.node_of("holder")
    await cluster.create(a_claim("u"), user("urgent", "u", "high", cpu="1500m"))
    assert "Insufficient cpu" in await cluster.why("urgent")
    await cluster.advance(15)
    assert not await cluster.node_of("holder")
    # It is bound now and evicted at once, not when the queue is flushed.
    await cluster.advance(10)
    assert await cluster.node_of("urgent") == "n1"


@pytest.mark.parametrize("trouble", ["delay", "unavailable", "lost"])
async def test_devices_in_flight_of_a_deleted_pod_are_free_after_its_binding(
    cluster, network, trouble
):
    await cluster.create(
        a_device_class("gpu"), a_node("n1"), a_slice("n1-gpus", node="n1", devices=1)
    )
    network.add(
        Fault("delay", method="PATCH", path="/resourceclaims/first", seconds=20),
        Fault(trouble, method="PATCH", path="/resourceclaims/first/status"),
    )
    await cluster.create(a_claim("first"), user("p", "first", ""))
    await cluster.create(a_claim("second"), user("q", "second", ""))
    assert "cannot allocate all claims" in await cluster.why("q")
    await cluster.delete(PODS, "p", "default")
    await cluster.advance(40)
    assert await cluster.node_of("q") == "n1"
    claim = await cluster.client.get(RESOURCE_CLAIMS, "first", "default")
    assert claim.status.allocation is None


async def test_a_claim_may_be_freed_when_its_more_important_user_is_gone(cluster):
    await cluster.create(
        a_priority_class("low", 10), a_priority_class("high", 1000), a_device_class("gpu"),
        a_node("n1"), a_slice("n1-gpus", node="n1", devices=1), a_claim("shared"),
        user("x", "shared", "low"), user("y", "shared", "high"),
        a_claim("u"), user("urgent", "u", "high"),
    )  # fmt: skip
    await cluster.advance(30)
    assert not await cluster.node_of("urgent")
    await cluster.delete(PODS, "y", "default")
    await cluster.advance(30)
    assert await cluster.node_of("urgent") == "n1"


async def test_cpu_is_freed_where_that_costs_less_than_devices(gpus):
    """One node lacks devices, the other one cpu: the cheaper victims are evicted."""
    await gpus.create(
        a_priority_class("lowest", 1),
        a_claim("a", count=2), user("holder", "a", "low", node_selector={"x": "1"}),
    )  # fmt: skip
    await gpus.client.patch(NODES, "n1", {"metadata": {"labels": {"x": "1"}}})
    await gpus.client.patch(NODES, "n2", {"metadata": {"labels": {"x": "2"}}})
    await gpus.advance(2)
    assert await gpus.node_of("holder") == "n1"
    busy = a_pod("busy", cpu="1950m", priority_class_name="lowest", node_selector={"x": "2"})
    await gpus.create(busy)
    await gpus.create(a_claim("u"), user("urgent", "u", "high"))
    await gpus.advance(10)
    assert await gpus.node_of("urgent") == "n2"
    assert {pod.name for pod in (await gpus.client.list(PODS)).items} == {"holder", "urgent"}


async def test_devices_are_freed_where_that_costs_less_than_cpu(gpus):
    await gpus.client.patch(NODES, "n1", {"metadata": {"labels": {"x": "1"}}})
    await gpus.client.patch(NODES, "n2", {"metadata": {"labels": {"x": "2"}}})
    busy = a_pod("busy", cpu="1950m", priority_class_name="low", node_selector={"x": "2"})
    await gpus.create(
        a_priority_class("lowest", 1), busy,
        a_claim("a", count=2), user("holder", "a", "lowest", node_selector={"x": "1"}),
    )  # fmt: skip
    await gpus.create(a_claim("u"), user("urgent", "u", "high"))
    await gpus.advance(10)
    assert await gpus.node_of("urgent") == "n1"
    assert {pod.name for pod in (await gpus.client.list(PODS)).items} == {"busy", "urgent"}


async def test_while_victims_terminate_for_cpu_no_pod_is_evicted_for_devices(gpus):
    await gpus.client.patch(NODES, "n1", {"metadata": {"labels": {"x": "1"}}})
    await gpus.client.patch(NODES, "n2", {"metadata": {"labels": {"x": "2"}}})
    busy = a_pod(
        "busy", cpu="1950m", priority_class_name="lowest", node_selector={"x": "2"},
        metadata={"annotations": {STOP_AFTER: "25s"}},
    )  # fmt: skip
    await gpus.create(
        a_priority_class("lowest", 1), busy,
        a_claim("a", count=2), user("holder", "a", "low", node_selector={"x": "1"}),
    )  # fmt: skip
    await gpus.create(a_claim("u"), user("urgent", "u", "high"))
    assert await terminating(gpus) == {"busy"}
    for _ in range(10):
        await gpus.create(a_node("other"), settle=True)
        await gpus.client.delete(NODES, "other")
        await gpus.advance(1)
        assert await terminating(gpus) == {"busy"}
    await gpus.advance(30)
    assert await gpus.node_of("urgent") == "n2"
    assert await gpus.node_of("holder") == "n1"


async def test_each_preemptor_evicts_once_while_the_claims_of_victims_are_freed_slowly(tmp_path):
    """Victims that are gone count, also for the other preemptors, until their claims are freed."""
    transports = []

    def wrap(inner, clock):
        transports.append(FaultyTransport(inner, clock=clock))
        return transports[-1]

    async with Harness(tmp_path / "store", wrap=wrap) as cluster:
        await cluster.create(
            a_priority_class("low", 10), a_priority_class("high", 1000), a_device_class("gpu")
        )
        for node in ("n1", "n2"):
            gpus = a_slice(f"{node}-gpus", node=node, devices=3)
            await cluster.create(a_node(node, cpu="9"), gpus)
        for name in "abcdef":
            await cluster.create(a_claim(name), user(name, name, "low"))
        for number, name in enumerate("abcdef"):
            path, seconds = f"/resourceclaims/{name}/status", 5 + 3 * number
            for transport in transports:
                transport.add(Fault("delay", method="PATCH", path=path, seconds=seconds))
        for name in "uvw":
            await cluster.create(a_claim(name), user(name, name, "high"))
        for _ in range(25):
            # Something else happens all the time, so that the pods are tried again.
            await cluster.create(a_node("other"), settle=True)
            await cluster.client.delete(NODES, "other")
            await cluster.advance(1)
        assert all([await cluster.node_of(name) for name in "uvw"])
        assert len((await cluster.client.list(PODS)).items) == 6


async def test_devices_of_a_pod_that_terminates_already_are_waited_for(gpus):
    for name in "abcd":
        await gpus.create(a_claim(name), user(name, name, "low", stop_after="25s"))
    node = await gpus.node_of("a")
    await gpus.client.delete(PODS, "a", "default")
    await gpus.create(a_claim("u"), user("urgent", "u", "high"))
    assert (await gpus.pod("urgent")).status.nominated_node_name == node
    assert await terminating(gpus) == {"a"}
    await gpus.advance(30)
    assert await gpus.node_of("urgent") == node
    pods = (await gpus.client.list(PODS)).items
    assert {pod.name for pod in pods} == {"b", "c", "d", "urgent"}


def test_without_victims_the_text_names_none():
    found = {"nominatedNode": "n1", "victims": []}
    [line] = preemption_lines(found)
    assert line == "  n1 becomes feasible when the pods that terminate are gone"
