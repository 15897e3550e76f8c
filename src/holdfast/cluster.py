"""The only place that wires rooms together: an API server, and components that live on it.

``EmbeddedServer`` is the API server with its store and its HTTPS front. ``Components`` is
everything that is a plain API client: scheduler, controllers, simulated nodes. ``Cluster`` is
both, in one process or with the server in a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.agent.fleet import Fleet
from holdfast.apiserver.credentials import Credentials, ensure_credentials, write_kubeconfig
from holdfast.apiserver.http import HttpsFront, serve_https
from holdfast.apiserver.inprocess import InProcessTransport
from holdfast.apiserver.server import ApiServer
from holdfast.apiserver.user import MASTERS, component
from holdfast.client.client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.kubeconfig import load
from holdfast.clock import Clock
from holdfast.controllers.group import ControllerGroup
from holdfast.errors import HoldfastError, Refused
from holdfast.plugins import default_profiles
from holdfast.scheduler.scheduler import Scheduler
from holdfast.settings import ClusterSettings, NodeSettings, SchedulerSettings, ServerSettings
from holdfast.store.store import Store

log = logging.getLogger(__name__)

ClientFor = Callable[[str], Client]
"""Give a component its client, by the component's user name."""


@dataclass(slots=True)
class EmbeddedServer:
    """A running API server on its own data directory."""

    server: ApiServer
    store: Store
    front: HttpsFront
    credentials: Credentials
    _compaction: asyncio.Task[None]

    @classmethod
    async def start(
        cls, data_dir: Path, kubeconfig: Path, settings: ServerSettings, clock: Clock
    ) -> EmbeddedServer:
        """Open the store, make certificates on first start, listen, write the kubeconfig."""
        store = Store.open(data_dir / "store", clock)
        try:
            credentials = ensure_credentials(data_dir / "pki", clock.now(), (settings.host,))
            server = ApiServer.create(store, clock)
            await server.start()
            front = await _listen(server, settings, credentials)
        except BaseException:
            await store.close()
            raise
        write_kubeconfig(credentials, kubeconfig, front.url)
        compaction = asyncio.create_task(store.run(), name="store: compact")
        return cls(server, store, front, credentials, compaction)

    def client(self, user: str) -> Client:
        """A client without a wire, as one of our own components."""
        return Client(InProcessTransport(self.server, component(user, MASTERS)), user)

    async def stop(self) -> None:
        """Stop listening, finish what runs, close the store."""
        self._compaction.cancel()
        await asyncio.gather(self._compaction, return_exceptions=True)
        await self.server.stop()
        await self.front.close()
        await self.store.close()


class Components:
    """Everything that is a client of the API server and nothing else."""

    def __init__(
        self,
        client_for: ClientFor,
        clock: Clock,
        scheduler: SchedulerSettings,
        nodes: NodeSettings,
    ) -> None:
        self.scheduler = Scheduler(
            client_for("system:kube-scheduler"), clock, default_profiles(),
            seed=scheduler.seed, check=scheduler.check_invariants,
        )  # fmt: skip
        self.controllers = ControllerGroup(client_for("system:kube-controller-manager"), clock)
        self.fleet = Fleet(client_for("system:nodes"), clock)
        self._nodes = nodes.count

    @property
    def healthy(self) -> bool:
        """Whether every part still runs."""
        return self.scheduler.healthy and self.controllers.healthy and self.fleet.healthy

    async def start(self) -> None:
        """Start the parts; nodes last, so that nothing runs before someone watches it."""
        await self.controllers.start()
        await self.scheduler.start()
        await self.fleet.start()
        await self.fleet.register(self._nodes)

    async def stop(self) -> None:
        """Stop in reverse."""
        await self.fleet.stop()
        await self.scheduler.stop()
        await self.controllers.stop()


class Cluster:
    """The embedded cluster of `holdfast up`."""

    def __init__(self, settings: ClusterSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.kubeconfig = settings.kubeconfig or settings.data_dir / "kubeconfig"
        self.url = ""
        self.components: Components | None = None
        self.server: EmbeddedServer | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._clients: list[Client] = []

    async def start(self) -> None:
        """Bring everything up; on failure nothing is left running."""
        try:
            client_for = await self._start_server()
            settings = self._settings
            self.components = Components(
                client_for, self._clock, settings.scheduler, settings.nodes
            )
            await self.components.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Take everything down in reverse; what was acknowledged is on disk."""
        if self.components is not None:
            await self.components.stop()
        for client in self._clients:
            await client.close()
        if self.server is not None:
            await self.server.stop()
        if self._child is not None and self._child.returncode is None:
            self._child.terminate()
            await self._child.wait()

    @property
    def healthy(self) -> bool:
        """Whether the server and every component still run."""
        alive = self._child is None or self._child.returncode is None
        return alive and self.components is not None and self.components.healthy

    async def _start_server(self) -> ClientFor:
        settings = self._settings
        if settings.single_process:
            self.server = await EmbeddedServer.start(
                settings.data_dir, self.kubeconfig, settings.server, self._clock
            )
            self.url = self.server.front.url
            return self.server.client
        self._child = await _spawn_server(settings, self.kubeconfig)
        endpoint = await load(self.kubeconfig)
        self.url = endpoint.url

        def client_for(user: str) -> Client:
            client = Client(HttpTransport(endpoint), user)
            self._clients.append(client)
            return client

        return client_for


async def _listen(
    server: ApiServer, settings: ServerSettings, credentials: Credentials
) -> HttpsFront:
    try:
        return await serve_https(server, settings.host, settings.port, credentials)
    except OSError as busy:
        raise Refused(
            f"cannot listen on {settings.host}:{settings.port} ({busy.strerror}): "
            "choose another with --port, or --port 0 for any free one"
        ) from busy


async def _spawn_server(settings: ClusterSettings, kubeconfig: Path) -> asyncio.subprocess.Process:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast", "apiserver",
        "--data-dir", str(settings.data_dir), "--kubeconfig", str(kubeconfig),
        "--host", settings.server.host, "--port", str(settings.server.port), "--announce",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    line = (await child.stdout.readline()).decode().strip()
    if line != "ready":
        await child.wait()
        raise HoldfastError("the API server did not start; its own message stands above")
    return child
