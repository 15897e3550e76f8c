"""Run all controllers with shared informers."""

from __future__ import annotations

import asyncio
import logging

from holdfast.client.backoff import Backoff, retry
from holdfast.client.client import Client
from holdfast.client.events import EventRecorder
from holdfast.client.informer_set import InformerSet
from holdfast.controllers.classic_dra.controller import (
    ClassicClaimController,
    InstalledClassicClaimController,
)
from holdfast.controllers.deployment.controller import DeploymentController
from holdfast.controllers.device_taint_eviction.controller import DeviceTaintEvictionController
from holdfast.controllers.discovery import ServedResources, discover
from holdfast.controllers.disruption import DisruptionController
from holdfast.controllers.garbage_collector import GarbageCollector
from holdfast.controllers.metrics import ControllerMetrics
from holdfast.controllers.namespace import NamespaceController
from holdfast.controllers.node_lifecycle.controller import NodeLifecycleController
from holdfast.controllers.pod_garbage_collector import PodGarbageCollector
from holdfast.controllers.pod_migration.controller import PodMigrationController
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.controllers.replicaset import ReplicaSetController
from holdfast.controllers.reservation.controller import ReservationController
from holdfast.controllers.reservation.device_controller import ReservationDeviceController
from holdfast.controllers.resource_claim import ResourceClaimController
from holdfast.controllers.resource_policy.controller import ResourcePolicyController
from holdfast.controllers.resource_quota import ResourceQuotaController
from holdfast.controllers.taint_eviction import TaintEvictionController
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.repeated_log import Repeats
from holdfast.runtime.settings import ControllerSettings

CONTROLLERS: tuple[type[Reconciler], ...] = (
    NamespaceController,
    NodeLifecycleController,
    TaintEvictionController,
    ReplicaSetController,
    DeploymentController,
    DisruptionController,
    PodGarbageCollector,
    ResourceClaimController,
    ClassicClaimController,
    DeviceTaintEvictionController,
    ResourceQuotaController,
    ReservationController,
    ReservationDeviceController,
    ResourcePolicyController,
    PodMigrationController,
)
BESIDE_KUBERNETES: tuple[type[Reconciler], ...] = (
    ReservationController,
    ReservationDeviceController,
    ResourcePolicyController,
    PodMigrationController,
    InstalledClassicClaimController,
)
"""The controllers to run on a cluster that has its own kube-controller-manager."""
REDISCOVER_SECONDS = 30.0
DISCOVERY_BACKOFF = Backoff(first=1.0, limit=1.0)
HEALTH_CHECK_SECONDS = 1.0
"""The interval of the check whether a controller has ended."""

log = logging.getLogger(__name__)


class ControllerManager:
    """Run each controller as soon as the server serves its resources.

    ``informers`` may be shared with another component of the process, which starts and stops them.
    ``start`` returns when all informers have synced; ``run`` also waits for ``stop``.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorder: EventRecorder | None = None,
        *,
        kinds: tuple[type[Reconciler], ...] = CONTROLLERS,
        settings: ControllerSettings | None = None,
        informers: InformerSet | None = None,
    ) -> None:
        self._own_recorder = recorder is None
        self._own_informers = informers is None
        self._recorder = recorder or EventRecorder(client, clock, component="holdfast-controllers")
        self.metrics = ControllerMetrics(clock.monotonic)
        self._context = ControllerContext(
            client, informers or InformerSet(client, clock=clock), clock, self._recorder,
            self.metrics, settings or ControllerSettings(),
        )  # fmt: skip
        self._running: dict[Reconciler, asyncio.Task[None]] = {}
        gates = self._context.settings.feature_gates
        self._not_started = [k for k in kinds if k.feature is None or gates.enabled(k.feature)]
        self._runs_garbage_collector = kinds is CONTROLLERS
        self._rediscovery: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._repeats = Repeats(now=clock.monotonic)
        self.ready = False

    @property
    def informers(self) -> InformerSet:
        """The informers of the controllers."""
        return self._context.informers

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the controllers that were started."""
        return tuple(each.name for each in self._running)

    async def start(self) -> None:
        """Start the controllers; the garbage collector last, because it shares their informers."""
        if self._own_recorder:
            self._recorder.start()
        if self._not_started:
            await self._start_served(await self._discover_resources())
        if self._runs_garbage_collector:
            shared = {resource for each in self._running for resource in each.required_resources}
            self._start_one(GarbageCollector(self._context, shared))
        await self._context.informers.start()
        self._rediscovery = asyncio.create_task(
            self._rediscover_forever(), name="controllers: look again"
        )
        self.ready = True

    async def run(self) -> None:
        """Start and wait until stopped."""
        await self.start()
        await self._stopped.wait()

    async def stop(self) -> None:
        """Stop all controllers and informers."""
        self.ready = False
        if self._rediscovery is not None:
            self._rediscovery.cancel()
        if self._own_informers:
            await self._context.informers.stop()
        for controller in self._running:
            controller.stop()
        for task in self._running.values():
            task.cancel()
        tasks = [*self._running.values(), *([self._rediscovery] if self._rediscovery else [])]
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._own_recorder:
            await self._recorder.stop()
        self._stopped.set()

    @property
    def healthy(self) -> bool:
        """Whether every started controller is running."""
        return self.ready and all(each.healthy for each in self._running)

    @property
    def failure_reason(self) -> str:
        """Which of its controllers or own informers has failed and why, "" while all run."""
        try:
            self._raise_failure()
        except HoldfastError as stopped:
            return str(stopped)
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"
        return ""

    async def failure(self) -> None:
        """Wait until one of its controllers or own informers fails, and raise the exception."""
        while True:
            self._raise_failure()
            await self._context.clock.sleep(HEALTH_CHECK_SECONDS)

    def _raise_failure(self) -> None:
        if self._own_informers:
            self._context.informers.raise_failure()
        for task in self._running.values():
            if task.done():
                task.result()
                raise HoldfastError(f"the {task.get_name()} has stopped")

    async def _discover_resources(self) -> ServedResources:
        def on_failure(failure: HoldfastError) -> None:
            self._log_discovery_failure(failure)

        context = self._context
        return await retry(
            lambda: discover(context.client),
            context.clock,
            DISCOVERY_BACKOFF,
            on_failure=on_failure,
        )

    async def _start_served(self, served: ServedResources) -> None:
        for kind in list(self._not_started):
            if all(resource in served for resource in kind.required_resources):
                self._not_started.remove(kind)
                self._start_one(kind(self._context))

    def _start_one(self, controller: Reconciler) -> None:
        task = asyncio.create_task(controller.run(), name=controller.name)
        self._running[controller] = task

    async def _rediscover_forever(self) -> None:
        """Start the controllers of custom resources that are installed later."""
        for kind in self._not_started:
            log.log(
                logging.DEBUG if kind.optional else logging.WARNING,
                "the %s waits until %s are served here: install deploy/crds",
                kind.name,
                " and ".join(resource.plural for resource in kind.required_resources),
            )
        while self._not_started:
            await self._context.clock.sleep(REDISCOVER_SECONDS)
            waiting = tuple(self._not_started)
            try:
                await self._start_served(await discover(self._context.client))
                await self._context.informers.start()
            except HoldfastError as failure:
                self._log_discovery_failure(failure)
            for kind in waiting:
                if kind not in self._not_started:
                    log.info("the %s runs now", kind.name)

    def _log_discovery_failure(self, failure: HoldfastError) -> None:
        self._repeats.log(log, logging.WARNING, f"discovery failed: {failure}; trying again")
