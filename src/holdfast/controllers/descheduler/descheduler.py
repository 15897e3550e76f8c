"""The component: plans a cycle at intervals from its informers, and writes the jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.api import scheme
from holdfast.api.meta import Object
from holdfast.api.object_interner import ObjectInterner
from holdfast.api.resource import Resource
from holdfast.client.client import Client
from holdfast.client.discovery import is_served
from holdfast.client.informer_set import InformerSet
from holdfast.controllers.descheduler.configuration import DeschedulerConfiguration
from holdfast.controllers.descheduler.plan import PlannedMove, job_body, plan_moves
from holdfast.controllers.descheduler.simulation import (
    ClusterObjects,
    Simulation,
    predicting_profiles,
)
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import AlreadyExists, HoldfastError, NotFound
from holdfast.runtime.metric_types import (
    CounterMetric,
    Histogram,
    MetricCollector,
    exponential_buckets,
)
from holdfast.scheduling.engine.profile import Profile
from holdfast.state.migration.pod_selection import has_local_volumes

OTHERS: tuple[Resource[Any], ...] = (
    scheme.NAMESPACES, scheme.NODES, scheme.NODE_RESOURCE_TOPOLOGIES, scheme.SHARED_DEVICES,
    scheme.SERVICES, scheme.REPLICATION_CONTROLLERS, scheme.RESERVATIONS,
)  # fmt: skip
"""The objects that decide where pods fit, in the order in which a world is built."""
REQUIRED: tuple[Resource[Any], ...] = (scheme.POD_MIGRATION_JOBS, scheme.RESERVATIONS)
OPTIONAL: tuple[Resource[Any], ...] = (scheme.NODE_RESOURCE_TOPOLOGIES, scheme.SHARED_DEVICES)
STEP_SECONDS = 0.002
"""A plan is computed for this long before other tasks run."""
PLANS = 5
"""A cycle is planned at most this often because of pods with local storage."""
WAIT_FOR_CRDS_SECONDS = 30.0

log = logging.getLogger(__name__)


class DeschedulerMetrics(MetricCollector):
    """Cycles and moves."""

    def __init__(self) -> None:
        self.moves = CounterMetric(
            "holdfast_descheduler_moves_total",
            "Pods that should move, by policy and what was done: created, exists, dry-run.",
            ("policy", "result"),
        )
        self.cycles = CounterMetric(
            "holdfast_descheduler_cycles_total", "Cycles, by result: success, error.", ("result",)
        )
        self.seconds = Histogram(
            "holdfast_descheduler_cycle_duration_seconds",
            "Time from the start of a cycle to its last write.",
            exponential_buckets(0.001, 4, 8),
        )
        super().__init__(self.moves, self.cycles, self.seconds)


class Descheduler:
    """Writes PodMigrationJobs at intervals; between two cycles it keeps only caches.

    ``profiles`` are those of the scheduler, which predict the targets.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        configuration: DeschedulerConfiguration,
        profiles: Iterable[Profile] = (),
    ) -> None:
        self._client, self._clock = client, clock
        self._configuration = configuration
        self._profiles = predicting_profiles(profiles)
        self.informers = InformerSet(
            client, clock=clock, transforms={scheme.NODES: ObjectInterner().node}
        )
        self.metrics = DeschedulerMetrics()
        self._served: set[Resource[Any]] = set()
        self._local_storage: dict[str, bool] = {}
        """Whether a pod has local storage, by uid."""
        self._task: asyncio.Task[None] | None = None
        self.ready = False

    @property
    def dry_run(self) -> bool:
        """Whether moves are only reported."""
        return self._configuration.dry_run or self._configuration.migration.dry_run

    @property
    def healthy(self) -> bool:
        """Whether it runs."""
        return self._task is not None and not self._task.done()

    async def start(self, started: Callable[[], None] = lambda: None) -> None:
        """Run from now on; ``started`` is called when the informers have synced."""
        self._task = asyncio.create_task(self._run(started), name="descheduler")

    async def stop(self) -> None:
        """Stop; a job that is being written may be written or not."""
        self.ready = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.informers.stop()

    async def wait(self) -> None:
        """Wait until it ends, and raise the error that ended it."""
        assert self._task is not None
        await self._task

    async def sync(self) -> None:
        """Start the informers, as soon as the resources that they need are served."""
        for resource in REQUIRED:
            while not await is_served(self._client, resource, self._clock):
                log.warning("waiting until %s are served: install deploy/crds", resource.plural)
                await self._clock.sleep(WAIT_FOR_CRDS_SECONDS)
        resources: list[Resource[Any]] = [
            *OTHERS,
            scheme.REPLICASETS,
            scheme.STATEFULSETS,
            scheme.PODS,
            scheme.POD_MIGRATION_JOBS,
        ]
        for resource in OPTIONAL:
            if not await is_served(self._client, resource, self._clock):
                resources.remove(resource)
        self._served = set(resources)
        for resource in resources:
            self.informers.get(resource)
        await self.informers.start()
        self.ready = True

    async def _run(self, started: Callable[[], None]) -> None:
        await self.sync()
        started()
        while True:
            self.informers.raise_failure()
            try:
                await self.run_cycle()
            except HoldfastError as failure:
                self.metrics.cycles.add("error")
                log.warning("descheduling failed: %s; trying again", failure)
            await self._clock.sleep(self._configuration.interval_seconds)

    async def run_cycle(self) -> list[PlannedMove]:
        """Plan a cycle and write its jobs; return the moves."""
        began = self._clock.monotonic()
        moves = await self.plan()
        for move in moves:
            await self._write(move)
        self.metrics.cycles.add("success")
        self.metrics.seconds.observe(self._clock.monotonic() - began)
        return moves

    async def plan(self) -> list[PlannedMove]:
        """Plan a cycle, without pods that have local storage."""
        moves = await self._plan_once()
        for _ in range(PLANS):
            if not await self._find_local_storage(moves):
                return moves
            moves = await self._plan_once()
        return [move for move in moves if not self._local_storage.get(move.pod.uid, False)]

    async def _plan_once(self) -> list[PlannedMove]:
        simulation = Simulation(
            self._objects(), self._configuration.migration, self._profiles, self._clock.now()
        )
        moves, began = [], self._clock.monotonic()
        for move in plan_moves(simulation, self._configuration):
            if move is not None:
                moves.append(move)
            if self._clock.monotonic() - began > STEP_SECONDS:
                await asyncio.sleep(0)
                began = self._clock.monotonic()
        return moves

    def _objects(self) -> ClusterObjects:
        pods = self._cached(scheme.PODS)
        alive = {pod.uid for pod in pods}
        self._local_storage = {
            u: has_volumes for u, has_volumes in self._local_storage.items() if u in alive
        }
        return ClusterObjects(
            others=[obj for resource in OTHERS for obj in self._cached(resource)],
            replicasets=self._cached(scheme.REPLICASETS),
            statefulsets=self._cached(scheme.STATEFULSETS),
            pods=pods,
            jobs=self._cached(scheme.POD_MIGRATION_JOBS),
            local_storage=frozenset(
                u for u, has_volumes in self._local_storage.items() if has_volumes
            ),
        )

    def _cached(self, resource: Resource[Any]) -> list[Any]:
        objects: list[Object] = []
        if resource in self._served:
            objects = list(self.informers.get(resource).cache.values())
        return objects

    async def _find_local_storage(self, moves: list[PlannedMove]) -> bool:
        """Read the volumes of pods that are to move; return whether some are local."""
        if self._configuration.migration.evict_local_storage_pods:
            return False
        for move in moves:
            pod = move.pod
            if pod.uid not in self._local_storage:
                try:
                    raw = await self._client.get(scheme.PODS.untyped, pod.name, pod.namespace)
                except NotFound:
                    raw = {}
                self._local_storage[pod.uid] = has_local_volumes(raw)
        return any(self._local_storage[move.pod.uid] for move in moves)

    async def _write(self, move: PlannedMove) -> None:
        result = "dry-run"
        if not self.dry_run and not move.dry_run:
            body = job_body(move, self._configuration.migration)
            try:
                await self._client.create(scheme.POD_MIGRATION_JOBS, body)
                result = "created"
            except AlreadyExists:
                result = "exists"
        self.metrics.moves.add(move.policy, result)
        log.info(
            "%s: pod %s should leave node %s: %s (%s)",
            move.policy, move.pod.key, move.node, move.reason, result,
        )  # fmt: skip
