"""A scheduler process that is killed while an informer counts every bind."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

from cli.forked_program import ForkedProgram
from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.informer import Informer
from holdfast.client.kubeconfig import load
from holdfast.runtime.clock import SystemClock
from holdfast.testing.builders import resource_of


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
