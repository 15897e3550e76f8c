"""kill -9 of the whole cluster, several times, while twenty pods at a time are scheduled.

Afterwards every acknowledged object exists, every pod was bound once, no node is overcommitted,
and the resources of a reservation are still free for its owner.
"""

import asyncio
import fcntl
import os
import random
import signal
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
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import AlreadyExists, Unavailable
from holdfast.testing import a_pod, a_reservation

SEED = int(os.environ.get("HOLDFAST_SEED", "20"))
"""``make soak`` sets other seeds."""
ROUNDS = int(os.environ.get("HOLDFAST_ROUNDS", "5"))
PODS_A_ROUND = 20
SIZE = 7000 // ROUNDS
"""Millicores of a pod: all of them and the reservation nearly fill five nodes."""
HELD = 8000


class KilledCluster:
    """A data directory, the cluster that is started on it, and the binds that were observed."""

    def __init__(self, directory):
        self.directory = directory
        self.client = None
        self.process = None
        self.acknowledged = set()
        self.nodes_of = {}
        self.bound = asyncio.Event()

    @asynccontextmanager
    async def running(self, *, single_process=True):
        """Start the cluster and watch its pods; kill it in the end."""
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
        """Kill the cluster with all its processes, once."""
        process, self.process = self.process, None
        if process is None:
            return
        died = process.returncode is not None
        process.kill()
        await asyncio.to_thread(self._kill_server)
        await asyncio.to_thread(process.communicate)
        assert not died, (self.directory / "errors.log").read_text()

    def _kill_server(self):
        """Kill the process that uses the store, and wait until it is gone.

        With two processes the API server has a session of its own, and would only stop.
        """
        with (self.directory / "store" / "store.lock").open() as lock:
            with suppress(ProcessLookupError):
                os.kill(int(lock.read()), signal.SIGKILL)
            fcntl.flock(lock, fcntl.LOCK_SH)

    def _on_pod(self, _kind, _old, new):
        if new is not None and new.spec.node_name:
            self.nodes_of.setdefault(new.uid, set()).add(new.spec.node_name)
            self.bound.set()

    async def create(self, pod):
        """Create a pod; it may exist already if the last response was lost."""
        with suppress(AlreadyExists):
            await self.client.create(PODS, pod, "default")
        self.acknowledged.add(pod["metadata"]["name"])

    async def all_bound(self, count):
        """Wait until ``count`` pods have a node."""
        async with asyncio.timeout(120):
            while len(self.nodes_of) < count:
                self.bound.clear()
                await self.bound.wait()


async def populate(cluster, names, rng):
    """Create pods; kill the cluster at a random moment after a random one."""
    last = rng.randrange(len(names))
    killing = None
    for number, name in enumerate(names):
        try:
            await cluster.create(a_pod(name, cpu=f"{SIZE}m"))
        except Unavailable:
            break
        if number == last:
            killing = asyncio.create_task(kill_after(cluster, rng.uniform(0, 0.1)))
    if killing is not None:
        await killing


async def kill_after(cluster, seconds):
    await asyncio.sleep(seconds)
    await cluster.kill()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_nothing_is_lost_or_bound_twice_however_often_the_cluster_is_killed(tmp_path):
    rng, cluster = random.Random(SEED), KilledCluster(tmp_path)
    names = [f"p{number}" for number in range(ROUNDS * PODS_A_ROUND)]
    async with cluster.running():
        held = a_reservation("held", cpu=f"{HELD}m", allocate_once=False, ttl="0s")
        await cluster.client.create(RESERVATIONS, held)
    for number in range(ROUNDS):
        missing = [name for name in names if name not in cluster.acknowledged]
        async with cluster.running(single_process=number % 3 != 2):
            await populate(cluster, missing[:PODS_A_ROUND], rng)
    async with cluster.running():
        for name in names:
            if name not in cluster.acknowledged:
                await cluster.create(a_pod(name, cpu=f"{SIZE}m"))
        await cluster.all_bound(len(names))
        await assert_consistent(cluster, names)
        await assert_owner_uses_the_reservation(cluster)


async def assert_consistent(cluster, names):
    pods = (await cluster.client.list(PODS)).items
    assert {pod.name for pod in pods} == set(names)
    assert {pod.uid: {pod.spec.node_name} for pod in pods} == cluster.nodes_of
    async with asyncio.timeout(120):
        # A status that was lost by a kill is written again, perhaps after the last bind.
        while (reservation := await cluster.client.get(RESERVATIONS, "held")).phase != "Available":
            await asyncio.sleep(0.02)
    requested = Counter({reservation.status.node_name: HELD})
    for pod in pods:
        requested[pod.spec.node_name] += SIZE
    for node in (await cluster.client.list(NODES)).items:
        assert requested[node.name] <= milli(node.status.allocatable["cpu"]), node.name


async def assert_owner_uses_the_reservation(cluster):
    await cluster.create(a_pod("owner", cpu=f"{HELD}m", labels={"app": "held"}))
    await cluster.all_bound(ROUNDS * PODS_A_ROUND + 1)
    owner = await cluster.client.get(PODS, "owner", "default")
    reservation = await cluster.client.get(RESERVATIONS, "held")
    assert owner.spec.node_name == reservation.status.node_name
