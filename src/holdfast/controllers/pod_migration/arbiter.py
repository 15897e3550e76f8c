"""The pool of jobs that wait for their arbitration, and its rounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from holdfast.api.koordinator_names import PASSED_ARBITRATION
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PENDING, PodMigrationJob
from holdfast.api.scheme import PODS
from holdfast.controllers.pod_migration import job_status
from holdfast.controllers.pod_migration.arbitration import (
    Arbitration,
    arbitrate,
    has_passed,
    is_migrating,
    sort_jobs,
)
from holdfast.controllers.pod_migration.job_fields import pod_name, ttl_begins_at
from holdfast.controllers.pod_migration.job_index import Workloads, pod_key
from holdfast.controllers.pod_migration.job_status import StatusChange
from holdfast.controllers.pod_migration.job_writer import JobWriter
from holdfast.controllers.reconciler import ControllerContext
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.migration.limits import Limit, MigratingPods
from holdfast.migration.pod_filters import Candidate, find_obstacle, has_local_volumes
from holdfast.migration.pod_order import pod_rank

WAITING = "WaitForArbitration"
AT_ONCE = 100
"""Jobs tried at once; then other tasks get their turn."""

log = logging.getLogger(__name__)


class Arbiter:
    """Lets waiting jobs begin, in rounds, as the limits allow."""

    def __init__(self, context: ControllerContext, workloads: Workloads, writer: JobWriter) -> None:
        self._client, self._clock = context.client, context.clock
        self._settings = context.settings.migration
        self._pods = context.informers.get(PODS)
        self._workloads = workloads
        self._writer = writer
        self._pool: set[str] = set()
        self._filled = asyncio.Event()
        self._told: dict[str, str] = {}
        """What an event has said about a waiting job."""
        self._ranks: dict[str, tuple[Pod, tuple[float, ...]]] = {}
        """Pods and their ranks, by uid, as long as jobs wait."""
        self._local_storage: dict[str, bool] = {}
        """Whether a pod has local storage, by uid, as long as its job waits."""

    def is_waiting(self, job: PodMigrationJob) -> bool:
        """Return whether a job may not begin yet."""
        return self._settings.arbitrate and job.phase == PENDING and not has_passed(job)

    def update(self, old: PodMigrationJob | None, new: PodMigrationJob | None) -> None:
        """Put a job into the pool, or remove it."""
        either = new or old
        assert either is not None
        if new is not None and self.is_waiting(new) and not new.spec.paused:
            self._pool.add(new.name)
            self._filled.set()
        else:
            self._pool.discard(either.name)
            self._told.pop(either.name, None)

    async def run(self) -> None:
        """Hold rounds at intervals while jobs wait."""
        while True:
            await self._filled.wait()
            await self._clock.sleep(self._settings.arbitration_interval_seconds)
            try:
                await self._hold_round()
            except HoldfastError as failure:
                log.warning("the arbitration of migration jobs failed: %s; trying again", failure)
            except Exception:
                log.exception("the arbitration of migration jobs failed; trying again")
            if not self._pool:
                self._local_storage.clear()
                self._ranks.clear()
                self._filled.clear()

    async def _hold_round(self) -> None:
        known = {job.name: job for job in self._writer.all()}
        waiting = [job for name in self._pool if (job := known.get(name)) and self.is_waiting(job)]
        migrating = [job for job in known.values() if is_migrating(job)]
        for job in waiting:
            if (pod := self._pod_of(job)) is not None and pod.uid not in self._local_storage:
                self._local_storage[pod.uid] = await self._has_local_storage(pod)
        counted = MigratingPods(self._settings)
        for job in migrating:
            if (pod := self._pod_of(job)) is not None:
                counted.add(pod)
        jobs = sort_jobs(waiting, self._pod_of, migrating, self._rank)
        for first in range(0, len(jobs), AT_ONCE):
            some = jobs[first : first + AT_ONCE]
            result = arbitrate(
                some,
                self._pod_of,
                self._find_obstacle,
                lambda pod: self._find_limit(pod, counted),
                counted.add,
            )
            await self._carry_out(result, {job.name: job for job in some})
            await asyncio.sleep(0)

    def _rank(self, pod: Pod) -> tuple[float, ...]:
        known, rank = self._ranks.get(pod.uid, (None, ()))
        if known is not pod:
            rank = pod_rank(pod)
            self._ranks[pod.uid] = pod, rank
        return rank

    def _find_obstacle(self, pod: Pod) -> str:
        local = self._local_storage.get(pod.uid, False)
        return find_obstacle(Candidate(pod, self._workloads.of(pod), local), self._settings)

    def _find_limit(self, pod: Pod, counted: MigratingPods) -> Limit | None:
        if pod.uid in counted.pods:
            return Limit("AnotherJob", "another job moves it already")
        return counted.find_limit(pod, self._workloads.of(pod))

    async def _carry_out(self, result: Arbitration, jobs: dict[str, PodMigrationJob]) -> None:
        for name, obstacle in result.forbidden.items():
            await self._ignore_conflict(self._forbid(jobs[name], obstacle))
        for name in result.passed:
            await self._ignore_conflict(self._let_begin(jobs[name]))
        for name, limit in result.waiting.items():
            change = StatusChange.of(jobs[name], self._clock.now())
            change.limit(limit, pod_name(jobs[name]))
            if self._told.get(name) != limit.message:
                self._told[name] = limit.message
                message = f"Pod {pod_name(jobs[name])} waits to migrate: {limit.message}"
                change.tell(WAITING, message)
            if change.fields or change.events:
                await self._ignore_conflict(self._writer.write(jobs[name], change))

    async def _forbid(self, job: PodMigrationJob, obstacle: str) -> None:
        change = StatusChange.of(job, self._clock.now())
        change.end_limit(ttl_begins_at(job))
        message = (
            f"Pod {pod_name(job)} is forbidden to migrate because it does not meet the requirements"
        )
        change.fail(job_status.FORBIDDEN, message)
        change.tell(
            job_status.FORBIDDEN, f"Pod {pod_name(job)} cannot migrate: {obstacle}", type_="Warning"
        )
        await self._writer.write(job, change)

    async def _let_begin(self, job: PodMigrationJob) -> None:
        await self._writer.patch(job, annotations={PASSED_ARBITRATION: "true"})
        self._pool.discard(job.name)

    async def _ignore_conflict(self, write: Awaitable[object]) -> None:
        """Leave a job that has changed, or is gone, to the next round."""
        try:
            await write
        except (Conflict, NotFound):
            return

    def _pod_of(self, job: PodMigrationJob) -> Pod | None:
        """Return the pod of a job; None if it is gone, or another one has its name."""
        ref = job.spec.pod_ref
        pod: Pod | None = self._pods.cache.get(pod_key(ref))
        if pod is None or ref is None or ref.uid not in ("", pod.uid):
            return None
        return pod

    async def _has_local_storage(self, pod: Pod) -> bool:
        if self._settings.evict_local_storage_pods:
            return False
        try:
            raw: dict[str, Any] = await self._client.get(PODS.untyped, pod.name, pod.namespace)
        except NotFound:
            return False
        return has_local_volumes(raw)
