"""Which of the waiting jobs begin: the order of jobs, and the limits of pods that migrate at once.

New jobs wait in a pool. At intervals they are sorted and tried one after another; each that passes
counts for those after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.api.koordinator_names import PASSED_ARBITRATION
from holdfast.api.meta import controller_of
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PENDING, RUNNING, PodMigrationJob
from holdfast.api.timestamps import seconds_of
from holdfast.migration.limits import Limit
from holdfast.migration.pod_order import pod_rank


def is_migrating(job: PodMigrationJob) -> bool:
    """Return whether a job has begun: it runs, or has passed the arbitration."""
    return job.phase == RUNNING or (job.phase == PENDING and has_passed(job))


def has_passed(job: PodMigrationJob) -> bool:
    """Return whether a job has passed the arbitration."""
    return job.metadata.annotations.get(PASSED_ARBITRATION) == "true"


PodOf = Callable[[PodMigrationJob], Pod | None]


def sort_jobs(
    jobs: Iterable[PodMigrationJob],
    pod_of: PodOf,
    migrating: Iterable[PodMigrationJob],
    rank: Callable[[Pod], tuple[float, ...]] = pod_rank,
) -> list[PodMigrationJob]:
    """Return the waiting jobs in the order in which they are tried.

    Pods of low priority come first, of equal ones the job created last. Pods of one batch Job
    follow one another, those of the Job with the most pods that migrate already come first.
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
    """Sort by the rank of pods; jobs whose pod is gone come last."""

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
    """Sort by how many pods of the same batch Job migrate already, the most first."""
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
    """Why, by the name of the job."""
    waiting: dict[str, Limit] = field(default_factory=dict)


def arbitrate(
    jobs: Iterable[PodMigrationJob],
    pod_of: PodOf,
    find_obstacle: Callable[[Pod], str],
    find_limit: Callable[[Pod], Limit | None],
    passes: Callable[[Pod], None],
) -> Arbitration:
    """Try jobs in order: an obstacle is permanent, a limit is not.

    A job whose pod is gone passes; its first step says so. ``passes`` is called with each pod that
    begins to migrate, so that the limits count it for the jobs after it.
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
