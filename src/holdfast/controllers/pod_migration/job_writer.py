"""Write jobs, and keep the versions that were written last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.api.meta import is_newer, version_guard
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.scheme import POD_MIGRATION_JOBS
from holdfast.controllers.pod_migration.job_status import StatusChange
from holdfast.controllers.reconciler import ControllerContext
from holdfast.runtime.errors import Conflict


class JobWriter:
    """Writes jobs; remembers what was written until the informer has it.

    A step that is planned from an older version would repeat what is already done.
    """

    def __init__(self, context: ControllerContext, component: str) -> None:
        self._client, self._recorder = context.client, context.recorder
        self._cache = context.informers.get(POD_MIGRATION_JOBS).cache
        self._component = component
        self._written: dict[str, PodMigrationJob] = {}

    def get(self, name: str) -> PodMigrationJob | None:
        """Return the newest known version of a job."""
        cached: PodMigrationJob | None = self._cache.get(name)
        mine = self._written.get(name)
        if cached is None or mine is None or mine.uid != cached.uid or not is_newer(mine, cached):
            self._written.pop(name, None)
            return cached
        return mine

    def all(self) -> Iterator[PodMigrationJob]:
        """Return the newest known versions of all jobs."""
        jobs = (self.get(name) for name in tuple(self._cache))
        return (job for job in jobs if job is not None)

    async def patch(
        self, job: PodMigrationJob, *, annotations: dict[str, str] | None = None, **parts: Any
    ) -> PodMigrationJob:
        """Change annotations and other parts of a job; Conflict if it is not the newest version."""
        metadata = {**version_guard(job), **({"annotations": annotations} if annotations else {})}
        subresource = "status" if "status" in parts else ""
        try:
            stored = await self._client.patch(
                POD_MIGRATION_JOBS, job.name, {"metadata": metadata, **parts},
                subresource=subresource,
            )  # fmt: skip
        except Conflict:
            self._written.pop(job.name, None)
            raise
        self._written[job.name] = stored
        return stored

    async def write(self, job: PodMigrationJob, change: StatusChange) -> PodMigrationJob:
        """Write a change of the status, then its events; phase and step are never empty."""
        if change.fields:
            change.fill()
        if patch := change.patch():
            job = await self.patch(job, status=patch)
        for event in change.events:
            self.tell(job, event.type, event.reason, event.message)
        return job

    def tell(self, about: Any, type_: str, reason: str, message: str) -> None:
        """Record an event about a job or a pod."""
        self._recorder.record(
            about, type_, reason, message, action="Migrating", component=self._component
        )
