"""An embedded cluster whose nodes run a driver, with real scheduler, controllers and agents.

A driver of classic DRA also has a controller, which can be killed between two of its writes.
Containers are simulated; ``edits`` shows what they get. With ``FaultyDriver`` the driver fails,
blocks or is killed while the agent calls it::

    async with DriverCluster(driver) as cluster:
        await cluster.create(a_device_class("gpu"), a_claim("c"), a_pod("p", claims=[...]))
        pod = await cluster.until_pod("p", lambda pod: pod.status.phase == "Running")
        assert cluster.edits(pod)["main"]["env"] == {"GPU": "gpu-0"}
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.api.pod import Pod
from holdfast.api.scheme import EVENTS, PODS
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.driver import Driver
from holdfast.node.agent.container_status import DEVICE_EDITS
from holdfast.node.driverkit.process import DriverProcess, DriverSettings
from holdfast.node.kubelet_api import PLUGINS_DIRECTORY, REGISTRY_DIRECTORY
from holdfast.processes.cluster import Cluster
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.settings import ClusterSettings, NodeSettings, ServerSettings
from holdfast.server.inprocess import InProcessTransport
from holdfast.testing.builders import resource_of
from holdfast.testing.kill_points import KillTransport

NODE = "node-0001"


class DriverCluster:
    """A cluster with a driver on its nodes, which uses the credential of each node."""

    def __init__(self, driver: Driver, nodes: int = 1) -> None:
        self.driver = driver
        # Sockets have short paths, so the directory of a test is often too long.
        self._temporary = tempfile.TemporaryDirectory(prefix="hf-")
        data = Path(self._temporary.name)
        self._cluster = Cluster(
            ClusterSettings(
                data_dir=data,
                single_process=True,
                server=ServerSettings(port=0),
                nodes=NodeSettings(count=nodes, driver_nodes=nodes),
            ),
            SystemClock(),
        )
        self.kubeconfig = data / "kubeconfig"
        """The admin's credential."""
        names = [f"node-{number:04}" for number in range(1, nodes + 1)]
        self._nodes = {name: _settings(data / "nodes" / name) for name in names}
        self.settings = self._nodes[NODE]
        self.client: Client
        self.process: DriverProcess
        """The driver on the first node."""
        self.processes: dict[str, DriverProcess] = {}
        self._clients: dict[str, Client] = {}
        self._controlling: asyncio.Task[None] | None = None
        self._transport: KillTransport

    async def __aenter__(self) -> Self:
        await self._cluster.start()
        try:
            assert self._cluster.server is not None
            self.client = Client(InProcessTransport(self._cluster.server.server), "test")
            for name, settings in self._nodes.items():
                endpoint = await load(settings.registry_dir.parent / "kubeconfig")
                self._clients[name] = Client(HttpTransport(endpoint), self.driver.name)
            if self.driver.classic:
                self.start_controller()
            await self.start_driver()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop_controller()
        await self.stop_driver()
        await self._stop()

    async def start_driver(self) -> None:
        """Start the driver on all nodes and wait until it is registered and has published."""
        for name, settings in self._nodes.items():
            client = self._clients[name]
            process = DriverProcess(self.driver, settings, client, SystemClock())
            self.processes[name] = process
            await process.start()
        self.process = self.processes[NODE]
        for process in self.processes.values():
            await process.wait_until_published()

    async def stop_driver(self) -> None:
        """Stop the driver on all nodes; running calls are cancelled."""
        for process in self.processes.values():
            await process.stop(grace=0)

    def start_controller(self) -> None:
        """Start the controller of a classic driver."""
        assert self._cluster.server is not None
        self._transport = KillTransport(InProcessTransport(self._cluster.server.server))
        client = Client(self._transport, self.driver.name)
        process = self.driver.classic.parts(self.driver).controller(client, SystemClock())
        self._controlling = asyncio.create_task(process.run())

    async def stop_controller(self) -> None:
        """Stop the controller at whatever point it has reached."""
        if self._controlling is not None:
            self._transport.killed.set()
            self._controlling.cancel()
            await asyncio.gather(self._controlling, return_exceptions=True)
            self._controlling = None

    async def kill(self, part: str, *, after: str) -> None:
        """Wait until the controller has made a write of ``KILL_POINTS``, and stop it there."""
        if part != "controller":
            raise ValueError(f"only the controller can be killed, not {part}")
        self._transport.kill(after=after)
        await self._transport.killed.wait()
        await self.stop_controller()

    async def restart_driver(self) -> None:
        """Stop the driver and start it again; after ``Kill`` this is a restart after a crash."""
        await self.stop_driver()
        await self.start_driver()

    async def create(self, *objects: Mapping[str, Any]) -> None:
        """Create raw objects in order."""
        for raw in objects:
            await self.client.create(resource_of(raw), raw, raw["metadata"].get("namespace", ""))

    async def until_pod(self, name: str, holds: Callable[[Pod], bool]) -> Pod:
        """Wait until a condition holds for a pod of the namespace default."""
        matching_pod = await self._until(name, lambda kind, pod: kind != "DELETED" and holds(pod))
        assert matching_pod is not None
        return matching_pod

    async def delete_pod(self, name: str) -> None:
        """Delete a pod and wait until it does not exist."""
        await self.client.delete(PODS, name, "default")
        await self._until(name, lambda kind, _pod: kind == "DELETED")

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Return (reason, message) of an object's events, oldest first."""
        listing = await self.client.list(EVENTS, "default")
        return [(e.reason, e.message) for e in listing.items if e.involved_object.name == name]

    def edits(self, pod: Pod) -> dict[str, dict[str, Any]]:
        """Return the edits of a pod's containers for their devices, from its annotation."""
        text = pod.metadata.annotations.get(DEVICE_EDITS, "{}")
        return msgspec.json.decode(text, type=dict[str, dict[str, Any]])

    async def _until(self, name: str, holds: Callable[[str, Pod], bool]) -> Pod | None:
        fields = f"metadata.name={name}"
        listing = await self.client.list(PODS, "default", fields=fields)
        for pod in listing.items:
            if holds("ADDED", pod):
                return pod
        if not listing.items and holds("DELETED", Pod()):
            return None
        watch = self.client.watch(
            PODS, "default", fields=fields, resource_version=listing.resource_version
        )
        async with aclosing(watch) as events:
            async for event in events:
                if event.type != "BOOKMARK" and holds(event.type, event.object):
                    return event.object
        raise AssertionError(f"the watch of pod {name} has ended")

    async def _stop(self) -> None:
        for client in self._clients.values():
            await client.close()
        await self._cluster.stop()
        self._temporary.cleanup()


def _settings(node_dir: Path) -> DriverSettings:
    return DriverSettings(
        node_name=node_dir.name,
        registry_dir=node_dir / REGISTRY_DIRECTORY,
        plugins_dir=node_dir / PLUGINS_DIRECTORY,
        cdi_dir=node_dir / "cdi",
    )
