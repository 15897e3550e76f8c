"""A search for devices that takes long does not hold up the pods behind it."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.api.scheme import PODS
from holdfast.scheduling.framework.plugin import Plugin, Reserver
from holdfast.scheduling.plugins import default_profiles
from holdfast.testing import a_node, a_pod
from holdfast.testing.clock import VirtualClock
from holdfast.testing.harness import Harness

STEP = 0.01


class NoteReserved(Reserver):
    def __init__(self, reserved):
        self.reserved = reserved

    def reserve(self, placement):
        self.reserved.append(placement.pod.name)

    def unreserve(self, placement):
        pass


class SlowPreparation(Plugin):
    """Prepares the cycle of one pod, while virtual time passes, until the test ends it."""

    name = "SlowPreparation"
    plan_classes = (NoteReserved,)

    def __init__(self, clock):
        self.clock = clock
        self.ends = False
        self.reserved = []

    def prepare(self, pod, view, rows):
        while pod.pod.name == "slow" and not self.ends:
            self.clock._passed += STEP
            yield

    def pre_filter(self, pod, view):
        return NoteReserved(self.reserved)


@pytest.fixture
def slow():
    return SlowPreparation(VirtualClock())


@pytest.fixture
async def cluster(tmp_path, slow):
    stock = default_profiles()["default-scheduler"]
    profiles = {stock.name: replace(stock, plugins=(*stock.plugins, slow))}
    async with Harness(tmp_path, profiles=profiles, clock=slow.clock) as harness:
        yield harness


async def preparing(cluster, slow):
    """Create a pod whose preparation does not end, and wait until it is in the background."""
    await cluster.create(a_node("n"))
    await cluster.create(a_pod("slow"), settle=False)
    while slow.clock.monotonic() < 1:
        await asyncio.sleep(0)


async def test_pods_are_scheduled_while_another_one_is_prepared(cluster, slow):
    await preparing(cluster, slow)
    await cluster.create(a_pod("a"), a_pod("b"), settle=False)
    while len(slow.reserved) < 2:
        await asyncio.sleep(0)
    slow.ends = True
    await cluster.settle()
    assert slow.reserved == ["a", "b", "slow"]


async def test_a_pod_that_is_deleted_meanwhile_is_not_prepared_to_the_end(cluster, slow):
    await preparing(cluster, slow)
    await cluster.delete(PODS, "slow", "default")
    await cluster.create(a_pod("a"))
    assert slow.reserved == ["a"]


async def test_a_pod_whose_preparation_was_stopped_is_scheduled_after_a_restart(cluster, slow):
    await preparing(cluster, slow)
    async with cluster.components_stopped():
        slow.ends = True
    assert slow.reserved == ["slow"]
