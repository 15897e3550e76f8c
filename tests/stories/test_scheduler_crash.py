"""kill -9 of the scheduler alone, again and again, while a thousand pods are scheduled.

The API server keeps running. Every scheduler starts from the API objects alone: wherever between
two writes the last one was killed, each pod is bound once, no node is overcommitted, and no device
is allocated twice.
"""

import asyncio
import os
import random
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from cli.forked_program import ForkedProgram
from holdfast.api.scheme import NODES, PODS, RESOURCE_CLAIMS
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.informer import Informer
from holdfast.client.kubeconfig import load
from holdfast.clock import SystemClock
from holdfast.testing import a_device, a_device_class, a_node, a_pod, a_slice
from holdfast.testing.builders import resource_of

GPU = "example.com/gpu"
SIZE = 100
"""Millicores of a pod. All pods together fill all nodes."""
PODS_A_NODE = 40


class KilledScheduler:
    """An API server in a process of its own, and an informer that counts every bind."""

    def __init__(self, directory):
        self.directory = directory
        self.binds = Counter()
        self.nodes_of = {}
        self._bound = asyncio.Event()

    @asynccontextmanager
    async def running(self):
        config = self.directory / "kubeconfig"
        server = ForkedProgram("apiserver", "--data-dir", self.directory, "--port", "0")
        assert (await asyncio.to_thread(server.stdout.readline)).startswith("serving")
        self.client = Client(HttpTransport(await load(config)), "test")
        observer = Informer(self.client, PODS, clock=SystemClock(), on_event=self._on_pod)
        observer.start()
        try:
            yield self
        finally:
            await observer.stop()
            await self.client.close()
            server.kill()
            server.communicate()

    def _on_pod(self, _kind, old, new):
        before, after = (pod.spec.node_name if pod else "" for pod in (old, new))
        if after and after != before:
            self.binds[new.name] += 1
            self.nodes_of[new.name] = after
            self._bound.set()

    def scheduler(self):
        return ForkedProgram(
            "scheduler", "--kubeconfig", self.directory / "kubeconfig", "--no-leader-elect",
            "--health-port", "0", "--check-invariants", errors=self.directory / "scheduler.log",
        )  # fmt: skip

    async def until_bound(self, count, process):
        """Wait until ``count`` pods have a node."""
        try:
            async with asyncio.timeout(90):
                while len(self.nodes_of) < count:
                    assert process.returncode is None, (
                        self.directory / "scheduler.log"
                    ).read_text()
                    self._bound.clear()
                    await self._bound.wait()
        except TimeoutError:
            raise AssertionError(await self.problem()) from None

    async def problem(self):
        """Return which pods are pending and why, and the end of the schedulers' log."""
        waiting = [pod for pod in (await self.client.list(PODS)).items if not pod.spec.node_name]
        words = [f"{pod.name}: {[c.message for c in pod.status.conditions]}" for pod in waiting]
        said = (self.directory / "scheduler.log").read_text()
        return "\n".join([f"{len(waiting)} pods wait", *words[:5], said[-4000:]])

    async def create(self, objects, at_once=32):
        left = iter(objects)

        async def work():
            for raw in left:
                await self.client.create(
                    resource_of(raw), raw, raw["metadata"].get("namespace", "")
                )

        await asyncio.gather(*(work() for _ in range(at_once)))


def nodes_and_devices(pods):
    """Return nodes with exactly the CPU that the pods need, and a device for each pod."""
    count = pods // PODS_A_NODE
    cpu = f"{PODS_A_NODE * SIZE}m"
    for n in range(count):
        yield a_node(f"n{n}", cpu=cpu)
    yield a_device_class("gpu", driver="gpu.example.com", extended_resource_name=GPU)
    for n in range(count):
        devices = [a_device(f"gpu-{i}") for i in range(PODS_A_NODE)]
        yield a_slice(f"n{n}-gpus", driver="gpu.example.com", node=f"n{n}", devices=devices)


def pods_to_schedule(pods):
    for n in range(pods):
        more = {"requests": {GPU: "1"}, "limits": {GPU: "1"}} if n % 10 == 0 else {}
        yield a_pod(f"p{n}", cpu=f"{SIZE}m", **more)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("rounds", "pods"),
    [(5, 200), pytest.param(30, 1000, marks=pytest.mark.real)],
)
async def test_every_pod_is_bound_once_however_often_the_scheduler_is_killed(
    tmp_path, rounds, pods
):
    rng = random.Random(int(os.environ.get("HOLDFAST_SEED", rounds)))
    async with KilledScheduler(tmp_path).running() as cluster:
        await cluster.create(nodes_and_devices(pods), at_once=1)
        for n in range(pods // PODS_A_NODE):
            # No controller removes the not-ready taint of a new node here.
            await cluster.client.patch(NODES, f"n{n}", {"spec": {"taints": None}})
        await cluster.create(pods_to_schedule(pods))
        for number in range(rounds):
            process = cluster.scheduler()
            target = len(cluster.nodes_of) + rng.randint(
                0, 2 * (pods - len(cluster.nodes_of)) // (rounds - number + 1)
            )
            await cluster.until_bound(target, process)
            await asyncio.sleep(rng.uniform(0, 0.01))
            process.kill()
            process.communicate()
        last = cluster.scheduler()
        try:
            await cluster.until_bound(pods, last)
            await assert_consistent(cluster, pods)
        finally:
            last.kill()
            last.communicate()


async def assert_consistent(cluster, pods):
    found = (await cluster.client.list(PODS)).items
    assert cluster.binds == Counter({f"p{n}": 1 for n in range(pods)})
    assert {pod.name: pod.spec.node_name for pod in found} == cluster.nodes_of
    assert set(Counter(cluster.nodes_of.values()).values()) == {PODS_A_NODE}
    claims = (await cluster.client.list(RESOURCE_CLAIMS)).items
    served = Counter(
        (result.pool, result.device)
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    )
    assert max(served.values()) == 1
    holders = {consumer.uid for claim in claims for consumer in claim.status.reserved_for}
    asking = {pod.uid for pod in found if int(pod.name[1:]) % 10 == 0}
    assert asking <= holders
