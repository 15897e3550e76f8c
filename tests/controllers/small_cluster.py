"""An API server with controllers and simulated nodes on a virtual clock, without a scheduler."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.scheme import PODS
from holdfast.client.client import Client
from holdfast.controllers.controller_manager import CONTROLLERS, ControllerManager
from holdfast.node.agent.simulated_nodes import SimulatedNodes
from holdfast.server.api_server import ApiServer
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store import Store
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from holdfast.testing.builders import resource_of
from holdfast.testing.clock import VirtualClock
from holdfast.testing.loop_writer import LoopWriter


@dataclass
class SmallCluster:
    client: Client
    clock: VirtualClock
    controllers: ControllerManager
    simulated_nodes: SimulatedNodes
    server: ApiServer

    def end_watches(self):
        """End all watches, as a restart of the server does."""
        for watching in tuple(self.server.context.watches):
            watching.close()

    async def create(self, *objects):
        for raw in objects:
            await self.client.create(resource_of(raw), raw, raw["metadata"].get("namespace", ""))
        await self.clock.settle()

    async def pods(self, namespace="default"):
        return (await self.client.list(PODS, namespace)).items

    async def bind_all(self, node, namespace="default"):
        """Bind all unassigned pods to ``node``, as a scheduler would."""
        for pod in await self.pods(namespace):
            if not pod.spec.node_name:
                binding = {
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": {"name": pod.name, "namespace": namespace},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": node},
                }  # fmt: skip
                await self.client.bind(namespace, pod.name, binding)
        await self.clock.settle()

    async def get(self, resource, name, namespace=""):
        return await self.client.get(resource, name, namespace)


@asynccontextmanager
async def start_small_cluster(
    directory: Path, wrap=lambda transport, clock: transport, kinds=CONTROLLERS
):
    clock = VirtualClock()
    store = Store.open(directory, clock, writer=LoopWriter)
    server = ApiServer.create(store, clock)
    await server.start(copy_bootstrap_objects)
    client = Client(InProcessTransport(server), "test")
    their_client = Client(wrap(InProcessTransport(server), clock), "components")
    controllers = ControllerManager(their_client, clock, kinds=kinds)
    simulated_nodes = SimulatedNodes(their_client, clock)
    await controllers.start()
    await simulated_nodes.start()
    await clock.settle()
    cluster = SmallCluster(client, clock, controllers, simulated_nodes, server)
    try:
        yield cluster
    finally:
        await simulated_nodes.stop()
        await cluster.controllers.stop()
        await client.close()
        await server.stop()
        await store.close()
