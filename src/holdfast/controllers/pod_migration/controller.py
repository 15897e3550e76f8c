"""The pod migration controller: takes PodMigrationJobs through their steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from holdfast.api.meta import ObjectReference
from holdfast.api.names import path_segment
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import RUNNING, SUCCEEDED, PodMigrationJob
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import POD_MIGRATION_JOBS, PODS, REPLICASETS, RESERVATIONS, STATEFULSETS
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.planned_writes import Delete, execute_writes
from holdfast.controllers.pod_migration import job_status
from holdfast.controllers.pod_migration.arbitration import Arbiter
from holdfast.controllers.pod_migration.evictor import evict
from holdfast.controllers.pod_migration.job_fields import (
    EVICTING_POD,
    deleted_at,
    ends_at,
    has_attempted_eviction,
    pod_name,
    reservation_ref,
    ttl_begins_at,
)
from holdfast.controllers.pod_migration.job_index import (
    JobIndex,
    Workloads,
    pod_key,
    reservation_names,
)
from holdfast.controllers.pod_migration.job_reservations import ReservationMaker, has_turn
from holdfast.controllers.pod_migration.job_status import StatusChange
from holdfast.controllers.pod_migration.job_writer import JobWriter
from holdfast.controllers.pod_migration.metrics import MigrationMetrics
from holdfast.controllers.pod_migration.plan import (
    Action,
    Facts,
    evicting,
    is_left_over,
    not_created,
    paused,
    plan_step,
    took_another_node,
)
from holdfast.controllers.pod_migration.rate_limits import JobRetries, ObjectLimits, TokenBucket
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import Conflict, HoldfastError, NotFound
from holdfast.state.migration.limits import EVICT, Limit

GONE_SECONDS = 1.0
"""The delay before a job whose pod has just disappeared is reconciled again."""
LIMITED_SECONDS = 3.0
"""How often a limited job checks whether the limit has ended."""
TOO_MANY_EVICTIONS = Limit("evictQPS", "as many pods as allowed were evicted lately")
LONGEST_WAIT_SECONDS = 600.0
"""Reconcile at least this often: a suspended machine does not count the seconds."""


class PodMigrationController(Reconciler):
    """Moves pods: reserves room on another node, evicts, and waits for the pod that takes it.

    The state of a job is the job itself, so a restart continues at any step.
    """

    name = "podmigrationjob-controller"
    queue_name = "MigrationController"
    required_resources = (POD_MIGRATION_JOBS, RESERVATIONS, PODS, REPLICASETS, STATEFULSETS)
    optional = True

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._settings = context.settings.migration
        self.workers = self._settings.workers
        self._index = JobIndex()
        self._workloads = Workloads(context.informers)
        self._writer = JobWriter(context, self.name)
        self._arbiter = Arbiter(context, self._workloads, self._writer)
        self._limits = ObjectLimits(self._settings)
        self._evictions = TokenBucket(
            self._settings.evict_qps, self._settings.evict_burst, context.clock.monotonic()
        )
        self._maker = ReservationMaker(context)
        self._retries = JobRetries()
        """Refusals of evictions and reservations."""
        self._jobs = context.informers.get(POD_MIGRATION_JOBS)
        self._reservations = context.informers.get(RESERVATIONS)
        self._pods = context.informers.get(PODS)
        self._migration_metrics = MigrationMetrics(self._jobs.cache)
        context.metrics.add(*self._migration_metrics.all)
        for handler in self._index.handlers:
            self._jobs.add_handler(handler)
        self._jobs.add_handler(self._on_job)
        self._reservations.add_handler(self._on_reservation)
        self._pods.add_handler(self._on_pod)

    def _on_job(
        self, kind: ChangeType, old: PodMigrationJob | None, new: PodMigrationJob | None
    ) -> None:
        self._arbiter.update(old, new)
        if new is not None:
            self.queue.add(new.key)
        elif old is not None:
            self._retries.forget(old.uid)

    def _on_reservation(
        self, kind: ChangeType, old: Reservation | None, new: Reservation | None
    ) -> None:
        either = new or old
        assert either is not None
        for job in self._index.of_reservation(either.name):
            self.queue.add(job)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        either = new or old
        assert either is not None
        for job in self._index.of_pod(either.key):
            self.queue.add(job)

    async def run(self) -> None:
        """Run the workers, and the rounds of the arbitration."""
        arbitration = asyncio.create_task(self._arbitrate(), name=f"{self.name}: arbitration")
        try:
            await super().run()
        finally:
            arbitration.cancel()
            await asyncio.gather(arbitration, return_exceptions=True)

    async def _arbitrate(self) -> None:
        await self.wait_for_sync()
        await self._arbiter.run()

    async def reconcile(self, key: str) -> None:
        """Execute as many steps of a job as are possible now."""
        job = self._writer.get(key)
        if job is None:
            return
        now, end = self.clock.now(), deleted_at(job)
        if end is not None and now >= end:
            gone = Delete(POD_MIGRATION_JOBS, job.name, uid=job.uid)
            await execute_writes(self.client, [gone])
            return
        limit = ends_at(job)
        overdue = limit is not None and now >= limit
        if not (job.finished or job.spec.paused) and (overdue or not self._arbiter.is_waiting(job)):
            job = await self._take_steps(job)
        elif job.spec.paused and not job.status.phase:
            await self._writer.write(job, paused(job, now))
        if job.finished:
            await self._clean_up(job)
        self._requeue(job, now)

    def _requeue(self, job: PodMigrationJob, now: float) -> None:
        times = [deleted_at(job), None if job.finished or job.spec.paused else ends_at(job)]
        future = [at - now for at in times if at is not None and at > now]
        if future:
            self.queue.add_after(job.key, min(*future, LONGEST_WAIT_SECONDS))

    async def _take_steps(self, job: PodMigrationJob) -> PodMigrationJob:
        while True:
            facts = await self._facts(job)
            step = plan_step(job, facts, self._settings.default_mode, self.clock.now())
            if step.action is Action.EVICT and facts.reservation is not None:
                # Evict only if there is room: only the server can say so.
                live = await self._live(RESERVATIONS, facts.reservation.name)
                facts = replace(facts, reservation=live)
                step = plan_step(job, facts, self._settings.default_mode, self.clock.now())
            if step.action is Action.EVICT and not self._has_turn(facts):
                self.queue.add_after(job.key, LIMITED_SECONDS)
                return await self._writer.write(job, step.change)
            if wait := self._seconds_to_wait(job, facts.pod, step.action):
                self.queue.add_after(job.key, wait)
                return job
            if limit := self._find_limit(job, facts.pod, step.action):
                self.queue.add_after(job.key, LIMITED_SECONDS)
                return await self._write_limit(job, limit)
            if step.action is not Action.EVICT:  # otherwise a limit of evictions may still delay it
                step.change.end_limit(ttl_begins_at(job))
            if self._settings.dry_run:
                return await self._writer.write(job, step.change)
            job = await self._write_step(job, facts, step.change)
            if step.action is Action.EVICT and facts.pod is not None:
                return await self._evict(job, facts.pod)
            created = await self._create(job) if step.action is Action.CREATE else None
            if created is None:
                return job
            job = created

    async def _write_step(
        self, job: PodMigrationJob, facts: Facts, change: StatusChange
    ) -> PodMigrationJob:
        # A job that fails changes nothing of a reservation that others have made.
        begins = change.is_new(job_status.RESERVATION_CREATED) and not change.failed
        if facts.reservation is not None and begins:
            await self._maker.complete(facts.reservation)
        return await self._writer.write(await self._remember_uid(job, facts, change), change)

    async def _facts(self, job: PodMigrationJob) -> Facts:
        ref, named = job.spec.pod_ref, reservation_ref(job)
        pod = await self._pod(ref)
        if named is None:
            return Facts(pod)
        reservation: Reservation | None = self._reservations.cache.get(named.name)
        if reservation is None:
            reservation = await self._live(RESERVATIONS, named.name)
        owners = reservation.status.current_owners if reservation is not None else ()
        return Facts(pod, reservation, await self._pod(owners[0]) if owners else None)

    async def _pod(self, ref: ObjectReference | None) -> Pod | None:
        """Return the pod of a reference, or another pod with its name.

        The cache may be stale: only the server can say that a pod does not exist.
        """
        key = pod_key(ref)
        if ref is None or not key:
            return None
        pod: Pod | None = self._pods.cache.get(key)
        if pod is not None and ref.uid in ("", pod.uid):
            return pod
        live: Pod | None = await self._live(PODS, ref.name, ref.namespace)
        return live

    async def _live(self, resource: Any, name: str, namespace: str = "") -> Any:
        if path_segment(name) or path_segment(namespace):
            return None  # a user wrote it; no object has such a name
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None

    def _has_turn(self, facts: Facts) -> bool:
        """Return whether a pod may be evicted before the pods of other jobs of its workload."""
        own, pod = facts.reservation, facts.pod
        workload = self._workloads.of(pod) if pod is not None else None
        if own is None or workload is None:
            return True
        named = (name for each in workload.pods for name in self._index.of_pod(each.key))
        jobs = [job for name in named if (job := self._writer.get(name)) is not None]
        reserved = ((job, self._reservations.cache.get(name))
                for job in jobs for name in reservation_names(job))  # fmt: skip
        return has_turn(own, ((job, each) for job, each in reserved if each is not None))

    def _seconds_to_wait(self, job: PodMigrationJob, pod: Pod | None, action: Action) -> float:
        """Return the seconds that a refused action has to wait."""
        if action is Action.WAIT or pod is None:
            return 0.0
        return self._retries.seconds_to_wait(job.uid, self.clock.monotonic())

    def _find_limit(self, job: PodMigrationJob, pod: Pod | None, action: Action) -> Limit | None:
        """Return the limit that delays an action.

        It applies before a job reserves room or evicts without a reservation: too many pods of the
        same workload or namespace may have been evicted lately.
        """
        if action is Action.WAIT or pod is None:
            return None
        begins = action is Action.CREATE or (
            reservation_ref(job) is None and not has_attempted_eviction(job)
        )
        if not begins or EVICT in job.metadata.annotations:
            return None
        return self._limits.find_limit(pod, self.clock.monotonic())

    async def _end_limit(self, job: PodMigrationJob) -> PodMigrationJob:
        change = StatusChange.of(job, self.clock.now())
        change.end_limit(ttl_begins_at(job))
        return await self._writer.write(job, change)

    async def _write_limit(self, job: PodMigrationJob, limit: Limit) -> PodMigrationJob:
        change = StatusChange.of(job, self.clock.now())
        change.limit(limit, pod_name(job))
        return await self._writer.write(job, change)

    async def _remember_uid(
        self, job: PodMigrationJob, facts: Facts, change: StatusChange
    ) -> PodMigrationJob:
        """Write the uid of the pod into a job that begins, so that no other pod is moved."""
        ref, pod = job.spec.pod_ref, facts.pod
        if change.fields.get("phase") != RUNNING or pod is None or ref is None or ref.uid:
            return job
        return await self._writer.patch(job, spec={"podRef": {"uid": pod.uid}})

    async def _create(self, job: PodMigrationJob) -> PodMigrationJob | None:
        """Create the reservation of a job, and return the job with its name; None if refused."""
        ref = job.spec.pod_ref
        assert ref is not None
        pod = await self._live(PODS.untyped, ref.name, ref.namespace)
        if pod is None or ref.uid not in ("", pod["metadata"].get("uid")):
            self.queue.add_after(job.key, GONE_SECONDS)  # the pod is gone: the next step reports it
            return None
        try:
            options = await self._maker.create(job, pod)
        except Conflict:
            raise
        except HoldfastError as failure:
            await self._writer.write(job, not_created(job, str(failure), self.clock.now()))
            self._retry_later(job)
            return None
        job = await self._writer.patch(job, spec={"reservationOptions": options})
        self._retries.forget(job.uid)
        change = StatusChange.of(job, self.clock.now())
        name = options["reservationRef"]["name"]
        change.tell(job_status.RESERVATION_CREATED, f'Successfully create Reservation "{name}"')
        return await self._writer.write(job, change)

    async def _evict(self, job: PodMigrationJob, pod: Pod) -> PodMigrationJob:
        """Evict the pod of a job, unless there are too many evictions."""
        if EVICTING_POD not in job.metadata.annotations:
            job = await self._writer.patch(job, annotations={EVICTING_POD: pod.uid})
        now = self.clock.monotonic()
        if self._settings.evict_qps > 0 and not self._evictions.take(now):
            self._tell_refusal(job, "TooManyEvictions")
            self.queue.add_after(job.key, max(self._evictions.wait(now), 0.05))
            return await self._write_limit(job, TOO_MANY_EVICTIONS)
        job = await self._end_limit(job)
        try:
            await evict(self.client, job, pod, self._settings, self.clock.now())
        except Conflict:
            raise  # another pod has its name, or it has changed: read it again
        except HoldfastError as failure:
            self._migration_metrics.evicted(job, pod, refused=True)
            self._tell_refusal(job, str(failure))
            self._retry_later(job)
            return job
        self._retries.forget(job.uid)
        self._migration_metrics.evicted(job, pod)
        workload = self._workloads.of(pod)
        self._limits.evicted(pod, workload.replicas if workload is not None else 1, now)
        change = evicting(job, pod, self.clock.now())
        for event in change.events:
            self._writer.tell(pod, "Normal", "Descheduled", event.message)
        return await self._writer.write(job, change)

    def _tell_refusal(self, job: PodMigrationJob, cause: str) -> None:
        message = f"Failed evict Pod {pod_name(job)} caused by {cause}"
        self._writer.tell(job, "Warning", job_status.FAILED_EVICT, message)

    def _retry_later(self, job: PodMigrationJob) -> None:
        self.queue.add_after(job.key, self._retries.refused(job.uid, self.clock.monotonic()))

    async def _clean_up(self, job: PodMigrationJob) -> None:
        """Delete the reservation that a finished job has made, if no pod uses it."""
        self._retries.forget(job.uid)
        for name in reservation_names(job):
            reservation = self._reservations.cache.get(name)
            if reservation is None:
                continue
            failed = job.phase != SUCCEEDED and is_left_over(job, reservation)
            pod = self._pods.cache.get(pod_key(job.spec.pod_ref))
            if failed or took_another_node(job, pod, reservation):
                version = reservation.metadata.resource_version
                gone = Delete(
                    RESERVATIONS, reservation.name, uid=reservation.uid, resource_version=version
                )
                await execute_writes(self.client, [gone])
