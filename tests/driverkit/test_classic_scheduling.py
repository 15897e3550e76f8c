"""Scheduler and the kit's driver negotiate, on a virtual clock, with faults of the network."""

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from driverkit.classic_controller import CLAIMS, SCHEDULINGS, a_driver
from holdfast.api.classic_dra.node_inventory import NODE_INVENTORIES
from holdfast.api.node_names import FAILED_ANNOTATION
from holdfast.api.scheme import NAMESPACES, NODES, PODS
from holdfast.client.client import Client
from holdfast.driver import Device
from holdfast.node.driverkit.classic_dra.controller_process import ControllerProcess
from holdfast.node.driverkit.classic_dra.inventory_conversion import raw_spec
from holdfast.runtime.errors import NotFound
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing import Chances, FaultyTransport, a_node, a_pod
from holdfast.testing.classic_dra.builders import a_classic_claim, a_classic_class, inline, named
from holdfast.testing.harness import Harness
from soak_size import SEED, TIMES

CHANCES = Chances(conflict=0.03, unavailable=0.03, unavailable_after=0.03, lost=0.03, cut=0.03)

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}


@asynccontextmanager
async def cluster_with(directory, driver, nodes, *, chances=None, seed=0):
    """A cluster whose nodes have so many devices each, and the controller of their driver."""
    wrap = None
    if chances is not None:

        def wrap(inner, clock):
            return FaultyTransport(inner, chances=chances, rng=random.Random(seed), clock=clock)

    async with Harness(directory, wrap=wrap, seed=seed) as harness:
        await harness.client.create(NAMESPACES, {"metadata": {"name": driver.namespace}})
        transport = InProcessTransport(harness.server)
        if wrap is not None:
            transport = wrap(transport, harness.clock)
        async with controller_of(driver, harness, transport):
            await harness.create(a_classic_class(driver=driver.name))
            for name, count in nodes.items():
                await harness.create(a_node(name, pods=500))
                await publish(harness, driver, name, count)
            await harness.settle()
            yield harness


@asynccontextmanager
async def controller_of(driver, harness, transport=None):
    """Run the controller of a driver."""
    client = Client(transport or InProcessTransport(harness.server), driver.name)
    process = ControllerProcess(driver, client, harness.clock)
    running = asyncio.create_task(process.run())
    try:
        yield
    finally:
        running.cancel()
        await harness.clock.advance_until(running.done)
        await asyncio.gather(running, return_exceptions=True)


async def publish(harness, driver, node, count):
    """Publish devices of a node, as the driver does there."""
    devices = [Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(count)]
    spec = raw_spec(driver.name, node, devices, ready=True)
    raw = {"metadata": {"name": node}, "spec": spec}
    await harness.client.create(NODE_INVENTORIES, raw, driver.namespace)


async def bookings(harness):
    """Return (node, device) of the claims, by uid; no device is booked twice."""
    listing = await harness.client.list(NODE_INVENTORIES, "gpu-example-com")
    found = {}
    used = Counter()
    for inventory in listing.items:
        for uid, claim in inventory.status.allocated.items():
            assert uid not in found
            found[uid] = inventory.name
            used.update((inventory.name, device) for device in claim.devices)
    assert all(count == 1 for count in used.values()), used
    return found


def on(node):
    return {"node_selector": {"kubernetes.io/hostname": node}}


FAULTS = pytest.mark.parametrize("chances", [None, CHANCES], ids=["calm", "faults"])


@FAULTS
async def test_C032_a_claim_on_the_wrong_node_moves_to_the_other(tmp_path, chances):
    released = []
    driver = a_driver()

    @driver.release
    async def release(handle):
        released.append(handle.node)

    nodes = {"n1": 1, "n2": 2}
    async with cluster_with(tmp_path, driver, nodes, chances=chances, seed=SEED) as harness:
        await harness.create(
            a_classic_claim("a"),
            a_classic_claim("b"),
            a_pod("before", claims=[named("a")], **on("n1")),
        )
        await until(harness, lambda: harness.node_of("before"))
        await harness.delete(PODS, "before", "default")
        await harness.advance(60)
        assert set((await bookings(harness)).values()) == {"n1"}
        await harness.create(a_pod("both", claims=[named("a"), named("b")]))
        await until(harness, lambda: harness.node_of("both"))
        assert await harness.node_of("both") == "n2"
        assert list((await bookings(harness)).values()) == ["n2", "n2"]
        # A release whose end could not be written is repeated: that is the same deallocation.
        assert set(released) == {"n1"} and (chances or len(released) == 1)


async def until(harness, holds):
    """Let time pass until something holds; pods are tried again after five minutes at most."""
    for _ in range(120):
        await harness.advance(5)
        if await holds():
            return
    raise AssertionError("not within ten minutes")


@FAULTS
async def test_C036_two_pods_with_the_same_two_claims_run_one_after_the_other(tmp_path, chances):
    async with cluster_with(tmp_path, a_driver(), {"n1": 2}, chances=chances, seed=SEED) as harness:
        both = [named("a"), named("b")]
        await harness.create(a_classic_claim("a"), a_classic_claim("b"), settle=False)
        await harness.create(a_pod("p", claims=both), a_pod("q", claims=both[::-1]))
        ended = []

        async def one_runs():
            [*placed] = [name for name in "pq" if name not in ended and await harness.node_of(name)]
            assert len(placed) <= 1
            ended.extend(placed)
            return placed

        for _ in range(2):
            await until(harness, one_runs)
            if ended == ["p"] or ended == ["q"]:
                await harness.client.delete(PODS, ended[0], "default", grace_seconds=0)
        assert sorted(ended) == ["p", "q"]
        assert len(await bookings(harness)) == 2


async def test_C079_the_claim_of_a_dead_node_moves_to_another(tmp_path):
    released = []
    driver = a_driver()
    driver.release(lambda handle: released.append(handle.node))
    async with cluster_with(tmp_path, driver, {"n1": 1, "n2": 1}) as harness:
        await harness.create(a_classic_claim("c"), a_pod("lost", claims=[named("c")], **on("n1")))
        await harness.advance(5)
        assert (await harness.pod("lost")).status.phase == "Running"
        dead = {"metadata": {"annotations": {FAILED_ANNOTATION: "true"}}}
        await harness.client.patch(NODES, "n1", dead)
        await harness.advance(60)
        await harness.client.patch(NODES, "n1", {"spec": {"taints": [OUT_OF_SERVICE]}})
        await harness.advance(120)
        assert not (await harness.client.list(PODS, "default")).items
        claim = await harness.client.get(CLAIMS, "c", "default")
        assert claim.is_allocated and not claim.status.reserved_for
        await harness.create(a_pod("next", claims=[named("c")]))
        await until(harness, lambda: harness.node_of("next"))
        assert (await harness.pod("next")).status.phase == "Running"
        assert (await harness.node_of("next"), released) == ("n2", ["n1"])
        assert list((await bookings(harness)).values()) == ["n2"]


async def test_C078_running_pods_survive_the_gate_and_it_works_again(tmp_path):
    driver = a_driver()
    async with Harness(tmp_path) as harness:
        await harness.client.create(NAMESPACES, {"metadata": {"name": driver.namespace}})

        async with controller_of(driver, harness):
            await harness.create(a_classic_class(driver=driver.name), a_node("n1"))
            await publish(harness, driver, "n1", 2)
            await harness.create(a_pod("old", claims=[inline("gpu")]))
            await harness.advance(5)
            assert (await harness.pod("old")).status.phase == "Running"
            [booked] = await bookings(harness)

        harness.feature_gates = FeatureGates.parse("DynamicResourceAllocation=false")
        await harness.restart()
        with pytest.raises(NotFound):
            await harness.client.list(CLAIMS, "default")
        await harness.create(a_pod("without", claims=[inline("gpu")]))
        await harness.advance(70)
        old, without = await harness.pod("old"), await harness.pod("without")
        assert {pod.status.phase for pod in (old, without)} == {"Running"}
        assert [len(pod.spec.resource_claims) for pod in (old, without)] == [1, 0]

        harness.feature_gates = FeatureGates.parse("DynamicResourceAllocation=true")
        await harness.restart()
        async with controller_of(driver, harness):
            await harness.create(a_pod("new", claims=[inline("gpu")]))
            await harness.advance(60)
            for name in ("old", "new"):
                pod = await harness.pod(name)
                claim = await harness.client.get(CLAIMS, f"{name}-gpu", "default")
                assert pod.status.phase == "Running" and claim.is_reserved_for(pod.uid)
            assert booked in await bookings(harness) and len(await bookings(harness)) == 2


@pytest.mark.parametrize("seed", range(1 * TIMES))
@FAULTS
async def test_C077_many_pods_race_for_few_devices(tmp_path, chances, seed):
    pods, nodes = (200, 10) if TIMES > 1 else (30, 3)
    devices = {f"n{i}": 5 if TIMES > 1 else 2 for i in range(nodes)}
    rng = random.Random(seed)
    async with cluster_with(tmp_path, a_driver(), devices, chances=chances, seed=seed) as harness:
        for number in range(pods):
            await harness.create(
                a_pod(f"p{number}", claims=[inline("gpu")]), settle=rng.random() < 0.3
            )
        finished = set()
        for _ in range(pods * 20):
            await harness.advance(rng.choice([0.1, 1, 5]))
            held = await bookings(harness)
            assert len(held) <= sum(devices.values())
            listing = await harness.client.list(PODS, "default")
            placed = [pod.name for pod in listing.items if pod.spec.node_name]
            assert len(placed) <= sum(devices.values())
            for name in rng.sample(placed, k=(len(placed) + 1) // 2):
                await harness.client.delete(PODS, name, "default", grace_seconds=0)
                finished.add(name)
            if len(finished) == pods:
                break
        assert len(finished) == pods, f"{pods - len(finished)} pods never got a device"
        await harness.advance(120)
        assert await bookings(harness) == {}
        assert not (await harness.client.list(CLAIMS, "default")).items
        assert not (await harness.client.list(SCHEDULINGS, "default")).items
