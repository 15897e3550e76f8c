"""A driver that runs on a node: inventory, slices, sockets and health page."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from holdfast.client.client import Client
from holdfast.node.driverkit.checkpoint import Checkpoint
from holdfast.node.driverkit.driver import Driver
from holdfast.node.driverkit.plugin_service import STOP_SECONDS, PluginSockets
from holdfast.node.driverkit.preparation import ClaimPreparation
from holdfast.node.driverkit.slice_publisher import Publisher, SlicePublisher
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError, Refused
from holdfast.runtime.health_checks import page
from holdfast.runtime.private_files import open_private
from holdfast.runtime.repeated_log import Repeats

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """The node and the directories of a driver."""

    node_name: str
    registry_dir: Path
    plugins_dir: Path
    cdi_dir: Path
    health_port: int = 0
    """Port of the health page on all addresses; 0: none."""


class DriverProcess:
    """Runs one driver; ``start`` raises if the inventory is wrong, later errors are only logged."""

    def __init__(
        self, driver: Driver, settings: DriverSettings, client: Client, clock: Clock
    ) -> None:
        driver.check()
        self._driver = driver
        self._settings = settings
        self._clock = clock
        self._directory = settings.plugins_dir / driver.name
        self._sockets = PluginSockets(driver.name, settings.registry_dir, self._directory)
        self._classic = driver.classic.parts(driver)
        node = settings.node_name
        self.publisher: Publisher = self._classic.publisher(node, client, clock) or SlicePublisher(
            client, clock, driver.name, node
        )
        self._client = client
        self._preparation: ClaimPreparation | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._lock = -1
        self._runner: web.AppRunner | None = None
        self._inventory_problem = ""
        self._registration_problem = "the kubelet has not registered this driver yet"
        self._repeats = Repeats(now=clock.monotonic)
        self.registered = asyncio.Event()
        """Set when the kubelet has registered the driver."""

    async def start(self) -> None:
        """Ask for the inventory and serve the kubelet; slices are published when it registers."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._lock = self._locked()
        try:
            await self._refresh()
            checkpoint = Checkpoint(self._directory / "checkpoint.json")
            preparation = self._classic.preparation(
                self._client, checkpoint, self._settings.cdi_dir
            )
            self._preparation = preparation
            services = self._classic.services(preparation)
            await self._sockets.start(preparation, self._on_status, services)
            await self._serve_health()
            self._tasks = [
                asyncio.create_task(self._publish(), name="publisher"),
                asyncio.create_task(self._keep_refreshing(), name="inventory"),
            ]
            node = self._settings.node_name
            classic = self._classic.tasks(node, self._client, self._clock)
            self._tasks += [asyncio.create_task(run, name=name) for name, run in classic.items()]
        except BaseException:
            await self.stop()
            raise

    async def stop(self, grace: float = STOP_SECONDS) -> None:
        """Stop serving, wait for handlers that run, and remove the sockets; slices stay."""
        await self._sockets.stop(grace)
        if self._preparation is not None:
            await self._preparation.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def wait_until_published(self) -> None:
        """Wait until the slices are published; raises the error of a part that fails."""
        published = asyncio.create_task(self.publisher.published.wait())
        try:
            await asyncio.wait({published, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            self._raise_failure()
        finally:
            published.cancel()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; raises the error of a part that fails."""
        await self.start()
        stopping = asyncio.create_task(stop.wait())
        try:
            waiting = {stopping, *self._tasks}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            self._raise_failure()
        finally:
            stopping.cancel()
            await self.stop()

    def problems(self) -> dict[str, str]:
        """Return the problem of each part of the driver, "" for none."""
        return {
            "inventory": self._inventory_problem,
            "registration": self._registration_problem,
            "inventory object" if self._driver.classic else "slices": self.publisher.problem,
        }

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    def _locked(self) -> int:
        descriptor = open_private(self._directory / "lock", os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise Refused(
                f"driver {self._driver.name} already runs with directory {self._directory}"
            ) from error
        return descriptor

    def _on_status(self, registered: bool, error: str) -> None:
        self._registration_problem = "" if registered else f"the kubelet rejects it: {error}"
        if registered:
            self.registered.set()
            # A kubelet that starts deletes the slices of its node.
            self.publisher.resync()
        else:
            log.error("driver %s: %s", self._driver.name, self._registration_problem)

    async def _publish(self) -> None:
        """Publish from the first registration on: before that, no pod with a claim can start."""
        await self.registered.wait()
        await self.publisher.run()

    async def _refresh(self) -> None:
        self.publisher.publish(await self._driver.pools(self._settings.node_name))
        self._inventory_problem = ""

    async def _keep_refreshing(self) -> None:
        while True:
            await self._clock.sleep(self._driver.refresh_seconds)
            try:
                await self._refresh()
            except Exception as error:
                # The author's code: the last inventory stays published.
                known = isinstance(error, HoldfastError)
                problem = str(error) if known else f"{type(error).__name__}: {error}"
                self._inventory_problem = problem
                line = f"the inventory of {self._driver.name} cannot be read: {problem}"
                self._repeats.log(log, logging.ERROR, line)

    async def _serve_health(self) -> None:
        if not self._settings.health_port:
            return
        app = web.Application()
        app.add_routes([web.get(f"/{name}", self._page) for name in ("healthz", "livez", "readyz")])
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        port = self._settings.health_port
        try:
            await web.TCPSite(self._runner, port=port).start()
        except OSError as error:
            raise Refused(
                f"cannot serve health checks on port {port} ({error.strerror}): choose another "
                "with --health-port"
            ) from error

    async def _page(self, request: web.Request) -> web.Response:
        """Answer a probe; only /readyz reports problems: a restart would not solve them."""
        name = request.path.strip("/")
        problems = self.problems() if name == "readyz" else {}
        checks = {part: (lambda text=text: text) for part, text in problems.items()}
        status, text = page(name, checks, verbose="verbose" in request.query)
        return web.Response(status=status, text=text)
