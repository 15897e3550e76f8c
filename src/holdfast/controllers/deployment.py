"""Roll a Deployment from one ReplicaSet to the next, and keep its scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.pod import Pod
from holdfast.api.scheme import DEPLOYMENTS, REPLICASETS
from holdfast.api.workloads import Deployment, DeploymentStatus, ReplicaSet
from holdfast.controllers import revisions, rollout
from holdfast.controllers.deployment_status import Counts, status_of, until_late
from holdfast.controllers.ownership import claimed, controller_of, owner_reference
from holdfast.controllers.rollout import Bounds, Sizes
from holdfast.controllers.writes import Create, Delete, Patch, Write


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What one look at a Deployment asks for; ``notes`` are the words of its events."""

    writes: tuple[Write, ...] = ()
    creation: Create | None = None
    notes: tuple[str, ...] = ()
    again_after: float | None = None


def plan_deployment(
    deployment: Deployment, replicasets: Iterable[ReplicaSet], pods: Iterable[Pod], now: float
) -> DeploymentPlan:
    """Plan the next step of one Deployment from its namespace's ReplicaSets and pods."""
    reference = owner_reference("apps/v1", "Deployment", deployment)
    nearby = [r for r in replicasets if r.namespace == deployment.namespace]
    mine, claims = claimed(
        REPLICASETS, reference, deployment, deployment.spec.selector, nearby
    )
    new = revisions.current(deployment, mine)
    old = [r for r in mine if new is None or r.uid != new.uid]
    if deployment.metadata.deletion_timestamp is not None:
        return _finish(deployment, new, old, now, claims, rolling_out=False)
    bounds = Bounds.of(deployment)
    labels = _label_changes(deployment, new, old)
    if deployment.spec.paused or rollout.scaled(bounds, mine):
        had = deployment.status.replicas
        sizes = rollout.rescale(bounds, new, old, had)
        # Every ReplicaSet that runs pods learns the new scale, or this would never end.
        sizes = {r.name: r.spec.replicas for r in mine if r.spec.replicas > 0} | sizes
        resizes, notes = _resizes(bounds, mine, sizes)
        spent = _spent(deployment, old) if deployment.spec.paused else ()
        writes = (*claims, *labels, *resizes, *spent)
        return _finish(deployment, new, old, now, writes, notes=notes, rolling_out=False)
    return _roll_out(deployment, bounds, new, old, pods, now, (*claims, *labels))


def _roll_out(
    deployment: Deployment, bounds: Bounds, new: ReplicaSet | None, old: Sequence[ReplicaSet],
    pods: Iterable[Pod], now: float, writes: tuple[Write, ...],
) -> DeploymentPlan:  # fmt: skip
    sizes: Sizes = {}
    if not bounds.rolling:
        sizes = {r.name: 0 for r in old if r.spec.replicas > 0}
        if sizes or _still_running(old, pods):
            resizes, notes = _resizes(bounds, old, sizes)
            return _finish(deployment, new, old, now, (*writes, *resizes), notes=notes)
    if new is None:
        return _create(deployment, bounds, old, now, writes)
    if bounds.rolling:
        sizes = rollout.roll(bounds, new, old)
    elif new.spec.replicas != bounds.replicas:
        sizes = {new.name: bounds.replicas}
    resizes, notes = _resizes(bounds, [new, *old], sizes)
    complete = not sizes and Counts.of(new, old).complete(deployment)
    spent = _spent(deployment, old) if complete else ()
    return _finish(deployment, new, old, now, (*writes, *resizes, *spent), notes=notes)


def _create(
    deployment: Deployment, bounds: Bounds, old: Sequence[ReplicaSet], now: float,
    writes: tuple[Write, ...],
) -> DeploymentPlan:  # fmt: skip
    replicas = rollout.grown(bounds, sum(r.spec.replicas for r in old), 0)
    revision = max(map(revisions.revision_of, old), default=0) + 1
    body = revisions.new_replicaset(deployment, replicas, revision)
    name = body["metadata"]["name"]
    status = status_of(deployment, None, old, now, created=name)
    return DeploymentPlan(
        (*writes, _annotate(deployment, revision), _status_patch(deployment, status)),
        Create(REPLICASETS, body, deployment.namespace),
        (f"Scaled up replica set {name} from 0 to {replicas}",) if replicas else (),
    )


def _finish(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: float,
    writes: tuple[Write, ...], *, notes: tuple[str, ...] = (), rolling_out: bool = True,
) -> DeploymentPlan:  # fmt: skip
    """Add the status, where it changed."""
    status = status_of(deployment, new, old, now, rolling_out=rolling_out)
    if not _says(deployment, status):
        writes = (*writes, _status_patch(deployment, status))
    again_after = until_late(deployment, Counts.of(new, old), now) if rolling_out else None
    return DeploymentPlan(writes, None, notes, again_after)


def _says(deployment: Deployment, status: dict[str, Any]) -> bool:
    """Tell whether the Deployment's status says all this already."""
    said = msgspec.structs.replace(deployment.status, collision_count=None)
    return bool(msgspec.convert(status, DeploymentStatus) == said)


def _status_patch(deployment: Deployment, status: dict[str, Any]) -> Patch:
    return Patch(
        DEPLOYMENTS, deployment.name, {"status": status}, deployment.namespace, "status"
    )


def _annotate(deployment: Deployment, revision: int) -> Patch:
    patch = {"metadata": {"annotations": {revisions.REVISION: str(revision)}}}
    return Patch(DEPLOYMENTS, deployment.name, patch, deployment.namespace)


def _label_changes(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> tuple[Patch, ...]:
    """Keep the current ReplicaSet's number the highest, and the Deployment's equal to it."""
    if new is None:
        return ()
    writes: list[Patch] = []
    highest = max(map(revisions.revision_of, old), default=0) + 1
    changes = revisions.annotation_changes(deployment, new, highest)
    spec: dict[str, Any] = {}
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        spec = {"minReadySeconds": deployment.spec.min_ready_seconds}
    if changes or spec:
        patch = {"metadata": {"annotations": changes}, "spec": spec}
        writes.append(Patch(REPLICASETS, new.name, patch, new.namespace))
    revision = max(highest, revisions.revision_of(new))
    if deployment.metadata.annotations.get(revisions.REVISION) != str(revision):
        writes.append(_annotate(deployment, revision))
    return tuple(writes)


def _resizes(
    bounds: Bounds, replicasets: Sequence[ReplicaSet], sizes: Sizes
) -> tuple[tuple[Patch, ...], tuple[str, ...]]:
    """Write new sizes, guarded by version: a stale look must not undo a step."""
    marks = revisions.size_annotations(bounds)
    writes, notes = [], []
    for each in replicasets:
        size = sizes.get(each.name)
        marked = marks.items() <= each.metadata.annotations.items()
        if size is None or (size == each.spec.replicas and marked):
            continue
        meta = {"resourceVersion": each.metadata.resource_version, "annotations": marks}
        patch = {"metadata": meta, "spec": {"replicas": size}}
        writes.append(Patch(REPLICASETS, each.name, patch, each.namespace))
        if size != each.spec.replicas:
            way = "up" if size > each.spec.replicas else "down"
            notes.append(
                f"Scaled {way} replica set {each.name} from {each.spec.replicas} to {size}"
            )
    return tuple(writes), tuple(notes)


def _spent(deployment: Deployment, old: Sequence[ReplicaSet]) -> tuple[Delete, ...]:
    """Choose the old revisions beyond the history limit, lowest number first."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return ()
    alive = sorted(
        (r for r in old if r.metadata.deletion_timestamp is None), key=revisions.revision_of
    )
    return tuple(
        Delete(REPLICASETS, r.name, r.namespace, r.uid)
        for r in alive[: max(0, len(alive) - limit)]
        if r.status.replicas == 0
        and r.spec.replicas == 0
        and r.metadata.generation <= r.status.observed_generation
    )


def _still_running(old: Sequence[ReplicaSet], pods: Iterable[Pod]) -> bool:
    """Tell whether any pod of an old template is left, even one that is being stopped."""
    if any(r.status.replicas for r in old):
        return True
    uids = {r.uid for r in old}
    owners = (controller_of(p) for p in pods if not p.finished)
    return any(owner is not None and owner.uid in uids for owner in owners)
