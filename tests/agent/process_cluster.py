"""A cluster whose only node runs pods as processes, and what tests ask of it."""

import asyncio
import json
import tempfile
from contextlib import contextmanager
from pathlib import Path

from holdfast.api.scheme import EVENTS
from holdfast.client.client import Client
from holdfast.node.agent.node_pod import NODE_PODS
from holdfast.processes.cluster import Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.errors import NotFound
from holdfast.runtime.settings import ClusterSettings, NodeSettings, ServerSettings
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing import a_pod

SECONDS = 90.0


class ProcessCluster:
    """A cluster with one node that runs processes."""

    def __init__(self, directory, **nodes):
        self.directory = directory
        self.node_directory = directory / "nodes/node-0001"
        self._settings = ClusterSettings(
            data_dir=directory, single_process=True, server=ServerSettings(port=0),
            nodes=NodeSettings(1, driver_nodes=1, **nodes),
        )  # fmt: skip

    async def start(self):
        self.cluster = Cluster(self._settings, SystemClock())
        await self.cluster.start()
        self.client = Client(InProcessTransport(self.cluster.server.server), "test")
        return self

    async def stop(self):
        await self.cluster.stop()

    @property
    def agent(self):
        return self.cluster.components.agents[0]

    async def run(
        self, name, command, *, node="node-0001", annotations=None, init=(), spec=None, **more
    ):
        """Create a pod on a node with a container ``c``; ``more`` are fields of the container."""
        pod = a_pod(name, node=node, annotations=annotations or {})
        pod["spec"] |= {"restartPolicy": "Never", "initContainers": list(init), **(spec or {})}
        pod["spec"]["containers"] = [a_container("c", command, **more)]
        return await self.client.create(NODE_PODS, pod, "default")

    async def until(self, name, reached):
        """Return the pod when something is true of it."""
        pod = None
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    pod = await self.client.get(NODE_PODS, name, "default")
                    if reached(pod):
                        return pod
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"not reached: {pod and pod.status}") from None

    async def ended(self, name):
        return await self.until(name, lambda pod: pod.finished)

    async def running(self, name):
        return await self.until(name, lambda p: p.status.phase == "Running")

    async def delete(self, name, grace=None):
        """Delete a pod and wait until it is gone, with its files."""
        pod = await self.client.get(NODE_PODS, name, "default")
        await self.client.delete(NODE_PODS, name, "default", grace_seconds=grace)
        async with asyncio.timeout(SECONDS):
            while await self._exists(name) or self.pod_directory(pod).exists():
                await asyncio.sleep(0.02)

    async def _exists(self, name):
        try:
            await self.client.get(NODE_PODS, name, "default")
        except NotFound:
            return False
        return True

    async def event(self, name, reason):
        """Return the message of an event when it is there."""
        async with asyncio.timeout(SECONDS):
            while True:
                for e in (await self.client.list(EVENTS, "default")).items:
                    if (e.involved_object.name, e.reason) == (name, reason):
                        return e.message
                await asyncio.sleep(0.02)

    def pod_directory(self, pod):
        return self.node_directory / "pods" / pod.uid

    def state(self, pod, attempt=0):
        """Return what is recorded of the process of container ``c``."""
        path = self.pod_directory(pod) / "containers/c" / f"{attempt}.json"
        return json.loads(path.read_text())

    def log(self, pod, container="c", attempt=0):
        """Return the text of a container's log."""
        path = self.pod_directory(pod) / "logs" / container / f"{attempt}.log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]

    async def logged(self, pod, line, **where):
        """Wait until a container has written a line."""
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    if line in self.log(pod, **where):
                        return
                except FileNotFoundError:
                    pass
                await asyncio.sleep(0.02)


@contextmanager
def short_directory():
    """Yield a directory with a short path, for the sockets of a node."""
    with tempfile.TemporaryDirectory(prefix="hf-", ignore_cleanup_errors=True) as path:
        yield Path(path)


def a_container(name, command, **more):
    words = ["sh", "-c", command] if isinstance(command, str) else command
    return {"name": name, "image": "none", "command": words, **more}


def states(pod):
    everything = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return {s.name: s.state for s in everything}


def exit_codes(pod):
    return {name: s["terminated"]["exitCode"] for name, s in states(pod).items()}


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def ended(*pids):
    """Wait until processes have ended: a killed one may take a moment."""
    async with asyncio.timeout(SECONDS):
        while any(map(alive, pids)):
            await asyncio.sleep(0.02)
