"""Decide which waiting jobs begin, by their order and the limits on pods that migrate at once.

New jobs wait in a pool. At intervals they are sorted and tried one after another; each job that
passes counts for those after it. Jobs are tried in rounds because their order decides which of them
begin: jobs that were tried on arrival would begin in the order of events.

A round may have thousands of jobs, and may run in the process of the scheduler. So it yields after
every 100 of them, and ranks of pods are kept for the next round.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.koordinator_names import PASSED_ARBITRATION
from holdfast.api.meta import controller_of
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PENDING, RUNNING, PodMigrationJob
from holdfast.api.scheme import PODS
from holdfast.api.timestamps import seconds_of
from holdfast.controllers.pod_migration import job_status
from holdfast.controllers.pod_migration.job_fields import pod_name, ttl_begins_at
from holdfast.controllers.pod_migration.job_index import Workloads, pod_key
from holdfast.controllers.pod_migration.job_status import StatusChange
from holdfast.controllers.pod_migration.job_writer import JobWriter
from holdfast.controllers.reconciler import ControllerContext
from holdfast.runtime.errors import Conflict, HoldfastError, NotFound
from holdfast.state.migration.limits import Limit, MigratingPods
from holdfast.state.migration.pod_selection import (
    MigrationCandidate,
    find_obstacle,
    has_local_volumes,
    pod_rank,
)

WAITING = "WaitForArbitration"
AT_ONCE = 100
"""Jobs that are tried before other tasks run."""

log = logging.getLogger(__name__)

PodOf = Callable[[PodMigrationJob], Pod | None]


def is_migrating(job: PodMigrationJob) -> bool:
    """Return whether a job has begun: it runs, or has passed the arbitration."""
    return job.phase == RUNNING or (job.phase == PENDING and has_passed(job))


def has_passed(job: PodMigrationJob) -> bool:
    """Return whether a job has passed the arbitration."""
    return job.metadata.annotations.get(PASSED_ARBITRATION) == "true"


def sort_jobs(
    jobs: Iterable[PodMigrationJob],
    pod_of: PodOf,
    migrating: Iterable[PodMigrationJob],
    rank: Callable[[Pod], tuple[float, ...]] = pod_rank,
) -> list[PodMigrationJob]:
    """Return the waiting jobs in the order in which they are tried.

    Jobs for pods of low priority come first; among jobs for equal pods, the newest comes first.
    Jobs for pods of one batch Job are adjacent, and the batch Job with the most migrating pods
    comes first.
    """
    newest_first = sorted(jobs, key=_created, reverse=True)
    listed = sort_by_pod(newest_first, pod_of, rank)
    listed = sort_by_batch_job(listed, pod_of)
    return sort_by_migrating(listed, pod_of, migrating)


def _created(job: PodMigrationJob) -> float:
    return seconds_of(job.metadata.creation_timestamp) or 0.0


def sort_by_pod(
    jobs: Iterable[PodMigrationJob], pod_of: PodOf, rank: Callable[[Pod], tuple[float, ...]]
) -> list[PodMigrationJob]:
    """Sort by the rank of pods; jobs whose pod no longer exists come last."""

    def key(job: PodMigrationJob) -> tuple[bool, tuple[float, ...]]:
        pod = pod_of(job)
        return pod is None, rank(pod) if pod is not None else ()

    return sorted(jobs, key=key)


def sort_by_batch_job(jobs: Sequence[PodMigrationJob], pod_of: PodOf) -> list[PodMigrationJob]:
    """Move the jobs of pods of one batch Job behind the first of them."""
    first: dict[str, int] = {}
    owners = [_batch_job(pod_of(job)) for job in jobs]
    for index, owner in enumerate(owners):
        if owner:
            first.setdefault(owner, index)
    places = [first[owner] if owner else index for index, owner in enumerate(owners)]
    return [jobs[index] for index in sorted(range(len(jobs)), key=places.__getitem__)]


def sort_by_migrating(
    jobs: Iterable[PodMigrationJob], pod_of: PodOf, migrating: Iterable[PodMigrationJob]
) -> list[PodMigrationJob]:
    """Sort by how many pods of the same batch Job already migrate, the largest number first."""
    counts = Counter(owner for job in migrating if (owner := _batch_job(pod_of(job))))
    return sorted(jobs, key=lambda job: -counts[_batch_job(pod_of(job))])


def _batch_job(pod: Pod | None) -> str:
    owner = controller_of(pod) if pod is not None else None
    return owner.uid if owner is not None and owner.kind == "Job" else ""


@dataclass(slots=True)
class Arbitration:
    """The result: jobs that begin, jobs that never may, and jobs that wait, by name."""

    passed: list[str] = field(default_factory=list)
    forbidden: dict[str, str] = field(default_factory=dict)
    """The reason, by the name of the job."""
    waiting: dict[str, Limit] = field(default_factory=dict)


def arbitrate(
    jobs: Iterable[PodMigrationJob],
    pod_of: PodOf,
    find_obstacle: Callable[[Pod], str],
    find_limit: Callable[[Pod], Limit | None],
    passes: Callable[[Pod], None],
) -> Arbitration:
    """Try jobs in order; an obstacle is permanent and a limit is temporary.

    A job whose pod no longer exists passes; its first step reports that. ``passes`` is called with
    each pod that begins to migrate, so that the limits count it for the jobs after it.
    """
    result = Arbitration()
    for job in jobs:
        pod = pod_of(job)
        if pod is not None and (obstacle := find_obstacle(pod)):
            result.forbidden[job.name] = obstacle
        elif pod is not None and (limit := find_limit(pod)):
            result.waiting[job.name] = limit
        else:
            result.passed.append(job.name)
            if pod is not None:
                passes(pod)
    return result


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
        """The message of the last event about a waiting job, by name."""
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
        return find_obstacle(
            MigrationCandidate(pod, self._workloads.of(pod), local), self._settings
        )

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
        """Leave a job that has changed or was deleted to the next round."""
        try:
            await write
        except (Conflict, NotFound):
            return

    def _pod_of(self, job: PodMigrationJob) -> Pod | None:
        """Return the pod of a job; None if it does not exist or another pod has its name."""
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
