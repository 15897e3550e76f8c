"""The status of a Deployment: counts and conditions of its rollout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.api.meta import Condition
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.api.workloads import Deployment, ReplicaSet
from holdfast.controllers import conditions
from holdfast.controllers.deployment.rollout import ReplicaBounds

NO_DEADLINE = 2**31 - 1
CREATED, FOUND, UPDATED = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"
DONE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """The numbers of a Deployment's status."""

    replicas: int
    updated: int
    ready: int
    available: int
    unavailable: int

    @classmethod
    def of(cls, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaCounts:
        """Add up the statuses of the ReplicaSets."""
        replicasets = [*old, new] if new else list(old)
        available = sum(r.status.available_replicas for r in replicasets)
        return cls(
            replicas=sum(r.status.replicas for r in replicasets),
            updated=new.status.replicas if new else 0,
            ready=sum(r.status.ready_replicas for r in replicasets),
            available=available,
            unavailable=max(0, sum(r.spec.replicas for r in replicasets) - available),
        )

    def complete(self, deployment: Deployment) -> bool:
        """Return whether all replicas have the new template and are available."""
        wanted = deployment.spec.replicas
        return self.updated == self.replicas == self.available == wanted

    def progressed_since(self, deployment: Deployment) -> bool:
        """Return whether the rollout progressed since the status was written."""
        before = deployment.status
        return (
            self.updated > before.updated_replicas
            or self.replicas - self.updated < before.replicas - before.updated_replicas
            or self.ready > before.ready_replicas
            or self.available > before.available_replicas
        )


def status_of(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: float,
    *, created: str = "", rolling_out: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Return the complete status; ``created`` names a ReplicaSet created by this step."""
    counts = ReplicaCounts.of(new, old)
    kept = _set(
        list(deployment.status.conditions), _available(counts, ReplicaBounds.of(deployment)), now
    )
    if has_deadline(deployment):
        progress = _progress(deployment, counts, new, now) if rolling_out else None
        if created:
            progress = "True", CREATED, f'Created new replica set "{created}"', "Progressing"
        progress = progress or _pause(deployment)
        if progress is not None:
            moved = progress[1] == UPDATED
            kept = _set(kept, progress, now, refresh=moved)
    else:
        kept = [c for c in kept if c.type != "Progressing"]
    kept = _with_failure(kept, [new, *old] if new else old, now)
    status: dict[str, Any] = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": counts.replicas, "updatedReplicas": counts.updated,
        "readyReplicas": counts.ready, "availableReplicas": counts.available,
        "unavailableReplicas": counts.unavailable, "conditions": conditions.to_raw(kept),
    }  # fmt: skip
    return status


def has_deadline(deployment: Deployment) -> bool:
    """Return whether the Deployment has a progress deadline."""
    return deployment.spec.progress_deadline_seconds not in (None, NO_DEADLINE)


def seconds_until_deadline(
    deployment: Deployment, counts: ReplicaCounts, now: float
) -> float | None:
    """Return the seconds until the progress deadline, or None if it does not apply."""
    current = conditions.find(deployment.status.conditions, "Progressing")
    if current is None or not has_deadline(deployment) or current.reason == TIMED_OUT:
        return None
    if counts.complete(deployment) or current.last_update_time is None:
        return None
    deadline = deployment.spec.progress_deadline_seconds or 0
    return max(0.0, parse_rfc3339(current.last_update_time) + deadline - now) + 1.0


ConditionText = tuple[str, str, str, str]  # status, reason, message, type


def _available(counts: ReplicaCounts, bounds: ReplicaBounds) -> ConditionText:
    if counts.available >= bounds.min_available:
        return (
            "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", "Available",
        )  # fmt: skip
    return (
        "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.",
        "Available",
    )  # fmt: skip


def _progress(
    deployment: Deployment, counts: ReplicaCounts, new: ReplicaSet | None, now: float
) -> ConditionText | None:
    """Return the Progressing condition, or None if it stays as it is."""
    current = conditions.find(deployment.status.conditions, "Progressing")
    reason = current.reason if current else ""
    if deployment.spec.paused or (reason == DONE and counts.replicas == counts.updated):
        return None  # the rollout is complete: scaling or unready pods do not exceed the deadline
    subject = f'ReplicaSet "{new.name}"' if new else f'Deployment "{deployment.name}"'
    if counts.complete(deployment):
        return "True", DONE, f"{subject} has successfully progressed.", "Progressing"
    if counts.progressed_since(deployment):
        return "True", UPDATED, f"{subject} is progressing.", "Progressing"
    if current is not None and _timed_out(deployment, current, now):
        return "False", TIMED_OUT, f"{subject} has timed out progressing.", "Progressing"
    if current is None and new is not None:
        return "True", FOUND, f'Found new replica set "{new.name}"', "Progressing"
    return None


def _pause(deployment: Deployment) -> ConditionText | None:
    current = conditions.find(deployment.status.conditions, "Progressing")
    reason = current.reason if current else ""
    if deployment.spec.paused and reason not in (PAUSED, TIMED_OUT):
        return "Unknown", PAUSED, "Deployment is paused", "Progressing"
    if not deployment.spec.paused and reason == PAUSED:
        return "Unknown", RESUMED, "Deployment is resumed", "Progressing"
    return None


def _timed_out(deployment: Deployment, current: Condition, now: float) -> bool:
    if current.reason in (DONE, TIMED_OUT, PAUSED):
        return current.reason == TIMED_OUT
    since = parse_rfc3339(current.last_update_time) if current.last_update_time else now
    return since + (deployment.spec.progress_deadline_seconds or 0) < now


def _set(
    kept: list[Condition], condition: ConditionText, now: float, *, refresh: bool = False
) -> list[Condition]:
    """Set a condition; without ``refresh``, one with the same status and reason is kept."""
    status, reason, message, type_ = condition
    old = conditions.find(kept, type_)
    if old is not None and not refresh and (old.status, old.reason) == (status, reason):
        return kept
    same = old is not None and old.status == status
    since = old.last_transition_time if old is not None and same else rfc3339(now)
    new = Condition(
        type=type_, status=status, reason=reason, message=message, last_transition_time=since,
        last_update_time=rfc3339(now),
    )  # fmt: skip
    return [new if c.type == type_ else c for c in kept] if old else [*kept, new]


def _with_failure(
    kept: list[Condition], replicasets: Iterable[ReplicaSet], now: float
) -> list[Condition]:
    """Copy the first ReplicaFailure condition of the ReplicaSets, or remove it."""
    failures = (conditions.find(r.status.conditions, "ReplicaFailure") for r in replicasets)
    failure = next((c for c in failures if c is not None), None)
    if failure is None:
        return [c for c in kept if c.type != "ReplicaFailure"]
    condition = (failure.status, failure.reason, failure.message, "ReplicaFailure")
    return _set(kept, condition, now)
