"""The embedded cluster: an API server and the components that are its clients.

``Components`` are the API clients: scheduler, controllers and nodes. ``Cluster`` adds the API
server (``embedded_server``), in the same process or in a child process.
"""
# ruff: noqa: PLC0415 - a process imports either the server or the components, seldom both

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.api.node_names import NODE_USER
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint
from holdfast.client.events import DRAIN_SECONDS
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import read_embedded_credentials
from holdfast.processes.api_server import ServerProcess
from holdfast.processes.embedded_server import PKI, EmbeddedServer
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, Unavailable
from holdfast.runtime.feature_gates import Feature
from holdfast.runtime.settings import (
    ClusterSettings,
    MigrationSettings,
    NodeSettings,
    SchedulerSettings,
)

if TYPE_CHECKING:
    from holdfast.controllers.descheduler.configuration import DeschedulerConfiguration
    from holdfast.controllers.descheduler.descheduler import Descheduler
    from holdfast.scheduling.configuration.reading import Configuration

ClientFor = Callable[[str], Client]
"""Returns the client of a component, by the component's user name."""
ReportProgress = Callable[[str], None]
"""Called with a text about the current step of a start."""
HEALTH_CHECK_SECONDS = 0.5
"""How often to check whether every part is still running."""
STOP_SECONDS, STOP_SECONDS_WITHOUT_SERVER = 15.0, 1.0
"""How long a stop may take, with and without a running API server."""
START_SECONDS = 600.0
"""How long the components may take to start if the server process does not respond."""
COMPONENT_STOP_SECONDS = STOP_SECONDS + DRAIN_SECONDS
"""How long the components may take to stop: they also write the last events."""


class Components:
    """Scheduler, controllers and nodes: clients of the API server.

    ``agents`` has the directory of each node that has its own agent; all other nodes are simulated
    together.
    """

    def __init__(
        self,
        client_for: ClientFor,
        clock: Clock,
        scheduler: SchedulerSettings,
        nodes: NodeSettings,
        configuration: Configuration | None = None,
        *,
        agents: Mapping[str, Path] | None = None,
        client_authority: Path | None = None,
        descheduler: DeschedulerConfiguration | None = None,
    ) -> None:
        from holdfast.controllers.controller_manager import ControllerManager
        from holdfast.controllers.profile_settings import controller_settings
        from holdfast.node.agent.node_setup import make_agents
        from holdfast.node.agent.simulated_nodes import SimulatedNodes
        from holdfast.processes.scheduler import scheduler_for
        from holdfast.scheduling.configuration.reading import Configuration

        chosen = configuration or Configuration()
        self.scheduler = scheduler_for(
            client_for("system:kube-scheduler"), clock, chosen, scheduler
        )
        self.controllers = ControllerManager(
            client_for("system:kube-controller-manager"), clock,
            settings=controller_settings(chosen, scheduler.feature_gates),
        )  # fmt: skip
        self.scheduler.metrics.registry.register(self.controllers.metrics)
        self.agents = make_agents(client_for, clock, nodes, agents or {}, client_authority)
        self.simulated_nodes = SimulatedNodes(
            client_for("system:holdfast:simulated-nodes"),
            clock,
            claims=scheduler.feature_gates.enabled(Feature.DYNAMIC_RESOURCE_ALLOCATION),
            others=frozenset(agent.name for agent in self.agents),
        )
        self.descheduler = _descheduler(client_for, clock, chosen, descheduler)
        if self.descheduler is not None:
            self.scheduler.metrics.registry.register(self.descheduler.metrics)
        self.nodes = 0
        """Number of nodes after the start."""
        self._wanted, self._shape = nodes.count, nodes.shape

    @property
    def healthy(self) -> bool:
        """Whether every component is running."""
        nodes = self.simulated_nodes.healthy and all(agent.healthy for agent in self.agents)
        rest = self.descheduler is None or self.descheduler.healthy
        return self.scheduler.healthy and self.controllers.healthy and nodes and rest

    async def start(self, report: ReportProgress = lambda _text: None) -> None:
        """Start the components, the nodes last: no pod runs before the controllers watch it.

        Nodes in the store are kept, regardless of the configured number: pods may run on them.
        """
        from holdfast.node.agent.nodes import node_name

        report("starting the controllers")
        await self.controllers.start()
        report("starting the scheduler")
        await self.scheduler.start()
        wanted = {node_name(ordinal) for ordinal in range(1, self._wanted + 1)}
        wanted |= {agent.name for agent in self.agents}
        self.nodes = len(wanted | self.scheduler.world.nodes.row_of.keys())
        report(f"starting {self.nodes} nodes")
        await self.simulated_nodes.start()
        await asyncio.gather(
            self.simulated_nodes.register(self._wanted, self._shape),
            *(agent.start() for agent in self.agents),
        )
        if self.descheduler is not None:
            await self.descheduler.start()

    async def stop(self) -> None:
        """Stop all components at the same time; none depends on another."""
        nodes = (self.simulated_nodes.stop(), *(agent.stop() for agent in self.agents))
        ends = [*nodes, self.scheduler.stop(), self.controllers.stop()]
        if self.descheduler is not None:
            ends.append(self.descheduler.stop())
        for end in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(end, BaseException):
                raise end

    async def failure_reason(self) -> str:
        """Return which component has died, with its error if there is one; "" while all run."""
        if not self.scheduler.healthy:
            try:
                await asyncio.wait_for(self.scheduler.wait(), STOP_SECONDS_WITHOUT_SERVER)
            except Exception as cause:
                return f"the scheduler has died: {type(cause).__name__}: {cause}"
            return "the scheduler has stopped"
        for part, name in (
            (self.controllers, "controllers"),
            (self.simulated_nodes, "simulated nodes"),
        ):
            if not part.healthy:
                return f"the {name} have died"
        if self.descheduler is not None and not self.descheduler.healthy:
            return "the descheduler has died"
        for agent in self.agents:
            if not agent.healthy:
                return f"the agent of node {agent.name} has died"
        return ""


def _descheduler(
    client_for: ClientFor,
    clock: Clock,
    scheduling: Configuration,
    configuration: DeschedulerConfiguration | None,
) -> Descheduler | None:
    """Return the descheduler; every scheduler of this cluster supports reservations."""
    if configuration is None:
        return None
    from holdfast.controllers.descheduler.descheduler import Descheduler

    migration = configuration.migration
    if migration.scheduler_names == MigrationSettings().scheduler_names:
        migration = replace(migration, scheduler_names=frozenset(scheduling.profiles))
    return Descheduler(
        client_for("system:holdfast:descheduler"), clock,
        replace(configuration, migration=migration), scheduling.profiles.values(),
    )  # fmt: skip


class Cluster:
    """The embedded cluster of ``holdfast up``."""

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock,
        configuration: Configuration | None = None,
        descheduler: DeschedulerConfiguration | None = None,
    ) -> None:
        self._settings = settings
        self._descheduler = descheduler
        self._configuration = configuration
        self._clock = clock
        self.kubeconfig = settings.kubeconfig or settings.data_dir / "kubeconfig"
        self.url = ""
        self.components: Components | None = None
        self.server: EmbeddedServer | None = None
        self._child: ServerProcess | None = None
        self._clients: list[Client] = []
        self._node_kubeconfigs: dict[str, Path] = {}

    async def start(self, report: ReportProgress = lambda _text: None) -> None:
        """Start server and components; if one fails, stop what was started."""
        from holdfast.node.agent.node_setup import agent_directories

        try:
            report("starting the API server")
            client_for = await self._start_server()
            settings = self._settings
            agents = agent_directories(settings.nodes, settings.data_dir / "nodes")
            self._write_node_kubeconfigs(agents)
            self.components = Components(
                client_for, self._clock, settings.scheduler, settings.nodes, self._configuration,
                agents=agents, client_authority=settings.data_dir / PKI / "ca.crt",
                descheduler=self._descheduler,
            )  # fmt: skip
            await self._while_server_runs(self.components.start(report))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop components and server; every acknowledged write is on disk."""
        if self.components is not None:
            timeout = COMPONENT_STOP_SECONDS if self._server_alive else STOP_SECONDS_WITHOUT_SERVER
            with suppress(TimeoutError):
                await asyncio.wait_for(self.components.stop(), timeout)
        for client in self._clients:
            await client.close()
        if self.server is not None:
            await self.server.stop()
        if self._child is not None:
            await self._child.stop()

    @property
    def nodes(self) -> int:
        """Number of nodes after the start."""
        return self.components.nodes if self.components is not None else 0

    @property
    def driver_nodes(self) -> list[str]:
        """The names of the nodes that have their own agent."""
        return [agent.name for agent in self.components.agents] if self.components else []

    @property
    def healthy(self) -> bool:
        """Whether the server and every component are running."""
        return self._server_alive and self.components is not None and self.components.healthy

    async def failure(self) -> str:
        """Wait until a part stops running, and return which one and why."""
        while self._server_alive and self.components is not None:
            if failure_reason := await self.components.failure_reason():
                return failure_reason
            await self._clock.sleep(HEALTH_CHECK_SECONDS)
        return "the API server has died"

    @property
    def _server_alive(self) -> bool:
        if self._child is not None:
            return self._child.alive
        return self.server is not None

    async def _while_server_runs(self, starting: Coroutine[Any, Any, None]) -> None:
        """Await a start; raises HoldfastError if the server process ends or hangs before."""
        if self._child is None:
            return await starting
        work = asyncio.create_task(starting)
        ending = asyncio.create_task(self._child.wait())
        try:
            await asyncio.wait(
                {work, ending}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if work.done() and isinstance(work.exception(), Unavailable):
                await asyncio.wait(
                    {ending}, timeout=STOP_SECONDS_WITHOUT_SERVER
                )  # the cause, if the server ended
        finally:
            for task in (work, ending):
                task.cancel()
            await asyncio.gather(work, ending, return_exceptions=True)
        if not self._child.alive:
            raise HoldfastError(
                f"the API server ended while the cluster started ({self._child.exit_description}); "
                "its own messages, if it wrote any, are above; the data is safe"
            )
        if work.cancelled():
            raise HoldfastError(f"the cluster was not up after {START_SECONDS:.0f} s")
        return work.result()

    def _write_node_kubeconfigs(self, agents: Mapping[str, Path]) -> None:
        """Write the kubeconfig of each node with an agent, for the agent and its drivers."""
        from holdfast.node.agent.node_agent import prepare_directory
        from holdfast.server.access.credentials import write_node_kubeconfig

        for name, directory in agents.items():
            prepare_directory(directory)
            path = directory / "kubeconfig"
            pki = self._settings.data_dir / PKI
            write_node_kubeconfig(pki, name, path, self.url, self._clock.now())
            self._node_kubeconfigs[name] = path

    async def _start_server(self) -> ClientFor:
        from holdfast.server.user import certificate_name

        settings = self._settings
        if settings.single_process:
            self.server = await EmbeddedServer.start(
                settings.data_dir, self.kubeconfig, settings.server, self._clock
            )
            self.url = self.server.url
            return self.server.client
        self._child = await ServerProcess.start(settings, self.kubeconfig)
        await self._child.wait_until_ready()
        self.url = self._child.url
        pki = settings.data_dir / PKI

        def client_for(user: str) -> Client:
            if user.startswith(NODE_USER):
                kubeconfig = self._node_kubeconfigs[user.removeprefix(NODE_USER)]
                credentials = read_embedded_credentials(str(kubeconfig), None)
                assert credentials is not None, kubeconfig
                endpoint = credentials
            else:
                name = certificate_name(user)
                endpoint = Endpoint(
                    self.url, ca=pki / "ca.crt", cert=pki / f"{name}.crt", key=pki / f"{name}.key"
                )
            client = Client(HttpTransport(endpoint), user)
            self._clients.append(client)
            return client

        return client_for
