"""Scheduler and the kit's driver negotiate, on a virtual clock, with faults of the network."""

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from driverkit.classic_controller import CLAIMS, SCHEDULINGS, a_driver
from holdfast.api.node_inventory import NODE_INVENTORIES
from holdfast.api.scheme import NAMESPACES, PODS
from holdfast.apiserver.inprocess import InProcessTransport
from holdfast.client.client import Client
from holdfast.driverkit import Device
from holdfast.driverkit.classic.controller_process import ControllerProcess
from holdfast.driverkit.classic.inventory_objects import raw_spec
from holdfast.testing import Chances, FaultyTransport, a_node, a_pod
from holdfast.testing.classic_builders import a_classic_claim, a_classic_class, inline, named
from holdfast.testing.harness import Harness
from soak_size import TIMES

CHANCES = Chances(conflict=0.03, unavailable=0.03, unavailable_after=0.03, lost=0.03, cut=0.03)


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
        process = ControllerProcess(driver, Client(transport, driver.name), harness.clock)
        running = asyncio.create_task(process.run())
        await harness.create(a_classic_class(driver=driver.name))
        for name, count in nodes.items():
            await harness.create(a_node(name, pods=500))
            devices = [Device(f"g{i}", {}, {"memory": "8Gi"}) for i in range(count)]
            raw = {
                "metadata": {"name": name},
                "spec": raw_spec(driver.name, name, devices, ready=True),
            }
            await harness.client.create(NODE_INVENTORIES, raw, driver.namespace)
        await harness.settle()
        try:
            yield harness
        finally:
            running.cancel()
            await harness.clock.advance_until(running.done)
            await asyncio.gather(running, return_exceptions=True)


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


async def test_C032_a_claim_on_the_wrong_node_moves_to_the_other(tmp_path):
    released = []
    driver = a_driver()

    @driver.release
    async def release(handle):
        released.append(handle.node)

    async with cluster_with(tmp_path, driver, {"n1": 1, "n2": 2}) as harness:
        await harness.create(
            a_classic_claim("a"),
            a_classic_claim("b"),
            a_pod("before", claims=[named("a")], **on("n1")),
        )
        await harness.delete(PODS, "before", "default")
        await harness.advance(5)
        assert set((await bookings(harness)).values()) == {"n1"}
        await harness.create(a_pod("both", claims=[named("a"), named("b")]))
        await harness.advance(120)
        assert await harness.node_of("both") == "n2"
        assert list((await bookings(harness)).values()) == ["n2", "n2"]
        assert released == ["n1"]


@pytest.mark.parametrize("seed", range(1 * TIMES))
@pytest.mark.parametrize("chances", [None, CHANCES], ids=["calm", "faults"])
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
