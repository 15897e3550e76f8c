"""Read a PodMigrationJob: its mode, pod and reservation, and when its time is over."""

from __future__ import annotations

from holdfast.api.durations import parse_seconds
from holdfast.api.meta import ObjectReference
from holdfast.api.pod_migration_job import MODES, PodMigrationJob
from holdfast.api.timestamps import seconds_of
from holdfast.controllers.pod_migration import job_status
from holdfast.runtime.errors import BadRequest

EVICTING_POD = "scheduling.holdfast.dev/evicting"
"""Annotation of a job whose pod is about to be evicted, with the uid of the pod.

It is written before the eviction. If the controller stops between the eviction and the status that
records it, the missing pod is thus the result of the job, not a reason to fail.
"""
KEEP_SECONDS, KEEP_WITHOUT_TTL_SECONDS = 300.0, 1800.0
"""How long a job is kept after its ttl, and how long after its creation if it has no ttl."""


def mode_of(job: PodMigrationJob, default: str) -> str:
    """Return the mode of a job; an unknown one counts as none."""
    return job.spec.mode if job.spec.mode in MODES else default


def pod_name(job: PodMigrationJob) -> str:
    """Return namespace and name of a job's pod in quotes, as in messages."""
    ref = job.spec.pod_ref or ObjectReference()
    return f'"{ref.namespace}/{ref.name}"'


def reservation_ref(job: PodMigrationJob) -> ObjectReference | None:
    """Return the reference to the reservation of a job, or None."""
    options = job.spec.reservation_options
    return options.reservation_ref if options is not None else None


def has_attempted_eviction(job: PodMigrationJob) -> bool:
    """Return whether the pod of a job has been evicted, or may have been."""
    known = EVICTING_POD in job.metadata.annotations
    return known or job.condition(job_status.EVICTION) is not None


def is_limited(job: PodMigrationJob) -> bool:
    """Return whether a limit delays a job."""
    condition = job.condition(job_status.LIMITED)
    return condition is not None and condition.status == "True" and not job.finished


def ttl_begins_at(job: PodMigrationJob) -> float | None:
    """Return the time from which the ttl counts: the creation, plus the time under a limit."""
    condition = job.condition(job_status.LIMITED)
    later = seconds_of(condition.last_probe_time) if condition is not None else None
    return seconds_of(job.metadata.creation_timestamp) if later is None else later


def ends_at(job: PodMigrationJob) -> float | None:
    """Return when the time of a job is over, in seconds since the epoch.

    None means never, or that a limit delays the job.
    """
    begin, ttl = ttl_begins_at(job), _ttl(job)
    return None if begin is None or ttl <= 0 or is_limited(job) else begin + ttl


def deleted_at(job: PodMigrationJob) -> float | None:
    """Return when a job is deleted, finished or not, in seconds since the epoch.

    None while a limit delays it.
    """
    begin, ttl = ttl_begins_at(job), _ttl(job)
    keep = ttl + KEEP_SECONDS if ttl > 0 else KEEP_WITHOUT_TTL_SECONDS
    return None if begin is None or is_limited(job) else begin + keep


def _ttl(job: PodMigrationJob) -> float:
    try:
        return parse_seconds(job.spec.ttl) if job.spec.ttl else 0.0
    except BadRequest:
        return 0.0
