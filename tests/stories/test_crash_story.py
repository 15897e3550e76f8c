"""kill -9 of everything, several times over, while twenty pods a time look for their nodes.

What was acknowledged is there afterwards, every pod is bound once in its life, no node is given
more than it has, and the room of a reservation is still there for its owner.
"""

import asyncio
import os
import random
from collections import Counter
from contextlib import asynccontextmanager, suppress

import pytest

from cli.forked_program import ForkedProgram
from holdfast.api.quantity import milli
from holdfast.api.scheme import NODES, PODS, RESERVATIONS
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.informer import Informer
from holdfast.client.kubeconfig import load
from holdfast.clock import SystemClock
from holdfast.errors import AlreadyExists, Unavailable
from holdfast.testing import a_pod, a_reservation

SEED = int(os.environ.get("HOLDFAST_SEED", "20"))
"""``make soak`` gives others."""
ROUNDS = int(os.environ.get("HOLDFAST_ROUNDS", "5"))
PODS_A_ROUND = 20
SIZE = 7000 // ROUNDS
"""Millicores of a pod: all of them and the reservation nearly fill five nodes."""
HELD = 8000


class Town:
    """A data directory, the cluster that runs on it from time to time, and what is known of it."""

    def __init__(self, directory):
        self.directory = directory
        self.client = None
        self.process = None
        self.acknowledged = set()
        self.nodes_of = {}
        self.bound = asyncio.Event()

    @asynccontextmanager
    async def running(self, *, single_process=True):
        """Start the cluster and follow its pods; kill it in the end, whatever it is doing."""
        await self._start("--single-process" if single_process else "--two-processes")
        self.client = Client(HttpTransport(await load(self.directory / "kubeconfig")), "test")
        follower = Informer(self.client, PODS, clock=SystemClock(), on_event=self._on_pod)
        follower.start()
        try:
            yield
        finally:
            await self.kill()
            await follower.stop()
            await self.client.close()

    async def _start(self, mode):
        self.process = ForkedProgram(
            "up", "--data-dir", self.directory, "--port", "0", "--nodes", "5", mode,
            "--check-invariants", errors=self.directory / "errors.log",
        )  # fmt: skip
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert "Holdfast is up" in line, (self.directory / "errors.log").read_text()

    async def kill(self):
        """Kill the cluster and every process it has, once."""
        process, self.process = self.process, None
        if process is None:
            return
        assert process.returncode is None, (self.directory / "errors.log").read_text()
        process.kill()
        await asyncio.to_thread(process.communicate)

    def _on_pod(self, _kind, _old, new):
        if new is not None and new.spec.node_name:
            self.nodes_of.setdefault(new.uid, set()).add(new.spec.node_name)
            self.bound.set()

    async def create(self, pod):
        """Create a pod; one whose answer was lost may be there already."""
        with suppress(AlreadyExists):
            await self.client.create(PODS, pod, "default")
        self.acknowledged.add(pod["metadata"]["name"])

    async def all_bound(self, count):
        """Wait until so many pods have a node."""
        async with asyncio.timeout(60):
            while len(self.nodes_of) < count:
                self.bound.clear()
                await self.bound.wait()


async def populate(town, names, rng):
    """Create pods until somebody kills the cluster, at some moment after one of them."""
    last = rng.randrange(len(names))
    killing = None
    for number, name in enumerate(names):
        try:
            await town.create(a_pod(name, cpu=f"{SIZE}m"))
        except Unavailable:
            break
        if number == last:
            killing = asyncio.create_task(kill_after(town, rng.uniform(0, 0.1)))
    if killing is not None:
        await killing


async def kill_after(town, seconds):
    await asyncio.sleep(seconds)
    await town.kill()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_nothing_is_lost_or_promised_twice_however_often_everything_is_killed(tmp_path):
    rng, town = random.Random(SEED), Town(tmp_path)
    names = [f"p{number}" for number in range(ROUNDS * PODS_A_ROUND)]
    async with town.running():
        held = a_reservation("held", cpu=f"{HELD}m", allocate_once=False, ttl="0s")
        await town.client.create(RESERVATIONS, held)
    for number in range(ROUNDS):
        missing = [name for name in names if name not in town.acknowledged]
        async with town.running(single_process=number % 3 != 2):
            await populate(town, missing[:PODS_A_ROUND], rng)
    async with town.running():
        for name in names:
            if name not in town.acknowledged:
                await town.create(a_pod(name, cpu=f"{SIZE}m"))
        await town.all_bound(len(names))
        await every_promise_is_kept(town, names)
        await the_owner_gets_its_room(town)


async def every_promise_is_kept(town, names):
    pods = (await town.client.list(PODS)).items
    assert {pod.name for pod in pods} == set(names)
    assert {pod.uid: {pod.spec.node_name} for pod in pods} == town.nodes_of
    reservation = await town.client.get(RESERVATIONS, "held")
    assert reservation.phase == "Available"
    taken = Counter({reservation.status.node_name: HELD})
    for pod in pods:
        taken[pod.spec.node_name] += SIZE
    for node in (await town.client.list(NODES)).items:
        assert taken[node.name] <= milli(node.status.allocatable["cpu"]), node.name


async def the_owner_gets_its_room(town):
    await town.create(a_pod("owner", cpu=f"{HELD}m", labels={"app": "held"}))
    await town.all_bound(ROUNDS * PODS_A_ROUND + 1)
    owner = await town.client.get(PODS, "owner", "default")
    reservation = await town.client.get(RESERVATIONS, "held")
    assert owner.spec.node_name == reservation.status.node_name
