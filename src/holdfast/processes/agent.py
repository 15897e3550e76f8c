"""The process of ``holdfast agent``: the agent of one node, with any API server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from holdfast.api.node_names import STANDALONE
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.http import HttpTransport
from holdfast.node.agent.node_agent import NodeIdentity
from holdfast.node.agent.node_setup import make_agent
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.settings import AgentSettings, NodeShape

HEALTH_CHECK_SECONDS = 0.5
"""How often to check whether the agent is still running."""


class AgentProcess:
    """One node's agent with its connection. Containers outlive it, as with a kubelet."""

    def __init__(self, endpoint: Endpoint, settings: AgentSettings, clock: Clock) -> None:
        self._clock = clock
        self._client = Client(HttpTransport(endpoint), "holdfast-agent")
        shape = settings.nodes.shape
        if shape is None:
            shape = machine_shape() if settings.nodes.runtime == "process" else NodeShape()
        identity = NodeIdentity(
            settings.node, settings.node_dir, shape=shape, agent=STANDALONE,
            client_authority=endpoint.ca,
        )  # fmt: skip
        self._agent = make_agent(identity, self._client, clock, settings.nodes)
        self.stopping = False

    @property
    def problem(self) -> str:
        """Why the agent does not work; "" if it works, or still waits for its API server."""
        dead = self._agent.started and not self._agent.healthy
        return "the agent is not running" if dead else ""

    @property
    def not_ready(self) -> str:
        """Why the node cannot run pods; "" if it can."""
        return self.problem if self._agent.started else "the node is not registered yet"

    def metrics_page(self) -> bytes:
        """Render the metrics, under a kubelet's names."""
        registry = CollectorRegistry()
        running = [pod for pod in self._agent.pods if not pod.finished]
        Gauge("kubelet_running_pods", "Pods of the node", registry=registry).set(len(running))
        return generate_latest(registry)

    async def start(self, stop: asyncio.Event) -> bool:
        """Register the node and continue with its pods; return False if stopped before."""
        starting = asyncio.create_task(self._agent.start())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            return starting.done()
        finally:
            for task in (starting, stopped):
                task.cancel()
            await asyncio.gather(starting, stopped, return_exceptions=True)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set; raise HoldfastError if the agent ends before."""
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                if self.problem:
                    raise HoldfastError(f"the agent of node {self._agent.name} has died")
                tick = asyncio.create_task(self._clock.sleep(HEALTH_CHECK_SECONDS))
                await asyncio.wait({stopped, tick}, return_when=asyncio.FIRST_COMPLETED)
                tick.cancel()
        finally:
            stopped.cancel()

    async def close(self) -> None:
        """Stop; containers keep running, and the next agent finds them."""
        self.stopping = True
        await self._agent.stop(stop_containers=False)
        await self._client.close()


def machine_shape() -> NodeShape:
    """Return the processors and the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = os.statvfs(Path.cwd().anchor)
    return NodeShape(
        cpu=str(os.cpu_count() or 1),
        memory=f"{memory // 1024}Ki",
        ephemeral_storage=f"{disk.f_frsize * disk.f_blocks // 1024}Ki",
    )
