"""A whole cluster in one process, on a virtual clock.

Store, API server, scheduler, controllers and nodes are the real code. Only time is simulated, and
faults if a test adds them. ``await harness.settle()`` returns when nothing more happens until time
passes, so a test can assert without waiting::

    async with Harness(tmp_path) as cluster:
        await cluster.create(a_node("n"), a_pod("p"))
        assert (await cluster.pod("p")).spec.node_name == "n"
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.resource import Resource
from holdfast.api.scheme import EVENTS, PODS, RESERVATIONS
from holdfast.client import handler_dispatcher
from holdfast.client.client import Client
from holdfast.client.transport import Transport
from holdfast.controllers.descheduler.configuration import DeschedulerConfiguration
from holdfast.processes.cluster import Components
from holdfast.runtime.feature_gates import FeatureGates
from holdfast.runtime.settings import NodeSettings, SchedulerSettings
from holdfast.scheduling.configuration.reading import Configuration
from holdfast.scheduling.engine.invariants import check_invariants
from holdfast.scheduling.engine.profile import Profile
from holdfast.scheduling.framework.extender import ExtenderConfig
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.server.api_server import ApiServer
from holdfast.server.inprocess import InProcessTransport
from holdfast.server.store.store import Store
from holdfast.server.user import own_user
from holdfast.testing.bootstrap_copy import copy_bootstrap_objects
from holdfast.testing.builders import resource_of
from holdfast.testing.clock import VirtualClock
from holdfast.testing.loop_writer import LoopWriter

T = TypeVar("T")
Wrap = Callable[[Transport, VirtualClock], Transport]


class _FailureLog(logging.Handler):
    """Collects the failures of event handlers from the log."""

    def __init__(self, failures: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        """Collect records with a traceback; other records report invalid objects, not defects."""
        if record.exc_info:
            self._failures.append(self.format(record))


class Harness:
    """A cluster in which time passes only on request.

    ``wrap`` adds a transport (such as a FaultyTransport) between the components and the server; the
    test's own ``client`` is not wrapped. Node objects that the test creates get a simulated
    kubelet. ``profiles`` replace the built-in ones; ``configuration`` replaces all settings. With
    ``descheduler`` a descheduler runs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        profiles: Mapping[str, Profile] | None = None,
        extenders: Sequence[ExtenderConfig] = (),
        clock: VirtualClock | None = None,
        wrap: Wrap | None = None,
        seed: int = 0,
        configuration: Configuration | None = None,
        feature_gates: FeatureGates | None = None,
        descheduler: DeschedulerConfiguration | None = None,
    ) -> None:
        self._directory = directory
        self.feature_gates = feature_gates or FeatureGates()
        """The gates of all components; a change takes effect with ``restart``."""
        self.clock = clock or VirtualClock()
        self._wrap = wrap
        self._seed = seed
        self._configuration = configuration or Configuration(
            profiles or default_profiles(), tuple(extenders)
        )
        self._descheduler = descheduler
        self.failures: list[str] = []
        """Failures of event handlers; a test that causes them on purpose must clear the list."""
        self.store: Store
        self.server: ApiServer
        self.client: Client
        self.components: Components

    async def __aenter__(self) -> Self:
        self._failure_log = _FailureLog(self.failures)
        logging.getLogger(handler_dispatcher.__name__).addHandler(self._failure_log)
        await self._start_server()
        await self._start_components()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        logging.getLogger(handler_dispatcher.__name__).removeHandler(self._failure_log)
        await self._stop_components()
        await self._stop_server()

    @property
    def world(self) -> World:
        """The scheduler's world."""
        return self.components.scheduler.world

    async def create(self, *objects: Mapping[str, Any], settle: bool = True) -> None:
        """Create raw objects in order, then settle."""
        for raw in objects:
            await self.client.create(resource_of(raw), raw, raw["metadata"].get("namespace", ""))
        if settle:
            await self.settle()

    async def delete(self, resource: Resource[Any], name: str, namespace: str = "") -> None:
        """Delete an object, then settle."""
        await self.client.delete(resource, name, namespace)
        await self.settle()

    async def settle(self) -> None:
        """Run until nothing more happens without time passing, then check the invariants."""
        await self.clock.settle()
        self._check()

    async def advance(self, seconds: float) -> None:
        """Let time pass, then check the invariants."""
        await self.clock.advance(seconds)
        self._check()

    def _check(self) -> None:
        # If the auditor stopped the scheduling loop, pods would only stay pending.
        reason = self.components.scheduler.failure_reason
        stopped_by_test = reason.endswith(": None")
        assert "schedule pods" not in reason or stopped_by_test, reason
        check_invariants(self.world)
        assert not self.failures, "\n".join(self.failures)

    async def pod(self, name: str, namespace: str = "default") -> Pod:
        """Read a pod from the API."""
        return await self.client.get(PODS, name, namespace)

    async def reservation(self, name: str) -> Reservation:
        """Read a reservation from the API."""
        return await self.client.get(RESERVATIONS, name)

    async def node_of(self, name: str, namespace: str = "default") -> str:
        """Return the node of a pod, or ""."""
        return (await self.pod(name, namespace)).spec.node_name

    async def why(self, name: str, namespace: str = "default") -> str:
        """Return the message of a pod's PodScheduled condition, or ""."""
        condition = (await self.pod(name, namespace)).condition("PodScheduled")
        return "" if condition is None else condition.message

    async def events(self, name: str, namespace: str = "default") -> list[tuple[str, str]]:
        """Return (reason, message) of an object's events, oldest first."""
        listing = await self.client.list(EVENTS, namespace)
        return [(e.reason, e.message) for e in listing.items if e.involved_object.name == name]

    async def skip(self, seconds: float) -> None:
        """Let time pass while the components are stopped, then start them again."""
        async with self.components_stopped():
            self.clock.skip(seconds)

    def metric(self, name: str, /, **labels: str) -> float:
        """Return a sample of the scheduler's metrics, or 0."""
        listed = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        start = f"scheduler_{name}{{{listed}}} " if listed else f"scheduler_{name} "
        lines = self.components.scheduler.metrics_page().decode().splitlines()
        return next((float(x[len(start) :]) for x in lines if x.startswith(start)), 0.0)

    async def restart_components(self) -> None:
        """Stop scheduler, controllers and nodes, and start them again; they read the API."""
        async with self.components_stopped():
            pass

    async def restart(self) -> None:
        """Stop everything and start it again from the database."""
        async with self.components_stopped(), self.server_stopped():
            pass

    @asynccontextmanager
    async def components_stopped(self) -> AsyncIterator[None]:
        """Stop scheduler, controllers and nodes inside the block, then start them and settle."""
        await self._stop_components()
        try:
            yield
        finally:
            await self._start_components()
        await self.settle()

    @asynccontextmanager
    async def server_stopped(self) -> AsyncIterator[None]:
        """Stop the API server inside the block; the components must be stopped already."""
        await self._stop_server()
        try:
            yield
        finally:
            await self._start_server()

    async def as_time_passes(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that may sleep, and let time pass."""
        task = asyncio.create_task(work)
        try:
            await self.clock.advance_until(task.done)
            await task
        finally:
            task.cancel()

    def server_transport(self, user: str) -> Transport:
        """Return a component's transport to the server, before faults are added."""
        return InProcessTransport(self.server, own_user(user))

    async def _start_server(self) -> None:
        self.store = Store.open(self._directory, self.clock, writer=LoopWriter)
        self.server = ApiServer.create(self.store, self.clock, feature_gates=self.feature_gates)
        await self.server.start(copy_bootstrap_objects)
        self.client = Client(InProcessTransport(self.server), "test")

    async def _stop_server(self) -> None:
        await self.server.stop()
        await self.store.close()

    async def _start_components(self) -> None:
        settings = SchedulerSettings(
            seed=self._seed, check_invariants=True, feature_gates=self.feature_gates
        )
        self.components = Components(
            self._component_client, self.clock, settings, NodeSettings(0), self._configuration,
            descheduler=self._descheduler,
        )  # fmt: skip
        await self.as_time_passes(self.components.start())

    async def _stop_components(self) -> None:
        await self.as_time_passes(self.components.stop())

    def _component_client(self, user: str) -> Client:
        transport = self.server_transport(user)
        if self._wrap is not None:
            transport = self._wrap(transport, self.clock)
        return Client(transport, user)
