"""The deployment controller: roll out new templates and scale ReplicaSets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.labels import from_selector
from holdfast.api.meta import controller_of, is_controlled_by, owner_reference
from holdfast.api.pod import Pod
from holdfast.api.scheme import DEPLOYMENTS, PODS, REPLICASETS
from holdfast.api.workloads import Deployment, DeploymentStatus, ReplicaSet, same_template
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.deployment import revisions, rollout
from holdfast.controllers.deployment.rollout import ReplicaBounds, Sizes
from holdfast.controllers.deployment.status import ReplicaCounts, seconds_until_deadline, status_of
from holdfast.controllers.object_index import ControllerIndex
from holdfast.controllers.ownership import claim_objects
from holdfast.controllers.planned_writes import (
    Create,
    Delete,
    Patch,
    Write,
    execute_write,
    execute_writes,
    namespace_is_terminating,
)
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import AlreadyExists, HoldfastError, Retryable


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """The writes for one Deployment; ``events`` are messages of ScalingReplicaSet events."""

    writes: tuple[Write, ...] = ()
    creation: Create | None = None
    events: tuple[str, ...] = ()
    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class _DeploymentState:
    """A Deployment and its ReplicaSets at one moment."""

    deployment: Deployment
    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]
    bounds: ReplicaBounds
    now: float

    @property
    def replicasets(self) -> tuple[ReplicaSet, ...]:
        return (self.new, *self.old) if self.new else self.old


def plan_deployment(
    deployment: Deployment, replicasets: Iterable[ReplicaSet], pods: Iterable[Pod], now: float
) -> DeploymentPlan:
    """Plan the next step of one Deployment from the ReplicaSets and pods of its namespace."""
    reference = owner_reference("apps/v1", "Deployment", deployment)
    nearby = [r for r in replicasets if r.namespace == deployment.namespace]
    controlled, claims = claim_objects(
        REPLICASETS, reference, deployment, deployment.spec.selector, nearby
    )
    new = revisions.current_replicaset(deployment, controlled)
    old = tuple(r for r in controlled if new is None or r.uid != new.uid)
    state = _DeploymentState(deployment, new, old, ReplicaBounds.of(deployment), now)
    if deployment.metadata.deletion_timestamp is not None:
        return _finish(state, claims, rolling_out=False)
    writes = (*claims, *_revision_changes(state))
    if deployment.spec.paused or rollout.is_scaling_event(state.bounds, controlled):
        return _rescale(state, writes)
    return _roll_out(state, pods, writes)


def _rescale(state: _DeploymentState, writes: tuple[Write, ...]) -> DeploymentPlan:
    sizes = rollout.proportional_sizes(
        state.bounds, state.new, state.old, state.deployment.status.replicas
    )
    # Every ReplicaSet with pods is annotated with the new scale, or rescaling would not end.
    sizes = {r.name: r.spec.replicas for r in state.replicasets if r.spec.replicas > 0} | sizes
    resizes, events = _resizes(state.bounds, state.replicasets, sizes)
    history_cleanup = _history_cleanup(state) if state.deployment.spec.paused else ()
    return _finish(state, (*writes, *resizes, *history_cleanup), events=events, rolling_out=False)


def _roll_out(
    state: _DeploymentState, pods: Iterable[Pod], writes: tuple[Write, ...]
) -> DeploymentPlan:
    bounds, sizes = state.bounds, {}
    if not bounds.rolling:
        sizes = {r.name: 0 for r in state.old if r.spec.replicas > 0}
        if sizes or _has_old_pods(state.old, pods):
            resizes, events = _resizes(bounds, state.old, sizes)
            return _finish(state, (*writes, *resizes), events=events)
    if state.new is None:
        return _create(state, writes)
    if bounds.rolling:
        sizes = rollout.next_rolling_sizes(bounds, state.new, state.old)
    elif state.new.spec.replicas != bounds.replicas:
        sizes = {state.new.name: bounds.replicas}
    resizes, events = _resizes(bounds, state.replicasets, sizes)
    complete = not sizes and ReplicaCounts.of(state.new, state.old).complete(state.deployment)
    history_cleanup = _history_cleanup(state) if complete else ()
    return _finish(state, (*writes, *resizes, *history_cleanup), events=events)


def _create(state: _DeploymentState, writes: tuple[Write, ...]) -> DeploymentPlan:
    deployment = state.deployment
    replicas = rollout.new_replicaset_size(state.bounds, sum(r.spec.replicas for r in state.old), 0)
    revision = max(map(revisions.revision_of, state.old), default=0) + 1
    body = revisions.new_replicaset(deployment, replicas, revision)
    name = body["metadata"]["name"]
    status = status_of(deployment, None, state.old, state.now, created=name)
    return DeploymentPlan(
        (*writes, _annotate(deployment, revision), _status_patch(deployment, status)),
        Create(REPLICASETS, body, deployment.namespace),
        (f"Scaled up replica set {name} from 0 to {replicas}",) if replicas else (),
    )


def _finish(
    state: _DeploymentState,
    writes: tuple[Write, ...],
    *,
    events: tuple[str, ...] = (),
    rolling_out: bool = True,
) -> DeploymentPlan:
    """Return a plan of the writes, and of the status if it changed."""
    deployment = state.deployment
    status = status_of(deployment, state.new, state.old, state.now, rolling_out=rolling_out)
    if not _status_is_current(deployment, status):
        writes = (*writes, _status_patch(deployment, status))
    counts = ReplicaCounts.of(state.new, state.old)
    requeue_after = seconds_until_deadline(deployment, counts, state.now) if rolling_out else None
    return DeploymentPlan(writes, None, events, requeue_after)


def _status_is_current(deployment: Deployment, status: dict[str, Any]) -> bool:
    """Return whether the Deployment already has this status."""
    stored = msgspec.structs.replace(deployment.status, collision_count=None)
    return bool(msgspec.convert(status, DeploymentStatus) == stored)


def _status_patch(deployment: Deployment, status: dict[str, Any]) -> Patch:
    return Patch(DEPLOYMENTS, deployment.name, {"status": status}, deployment.namespace, "status")


def _annotate(deployment: Deployment, revision: int) -> Patch:
    patch = {"metadata": {"annotations": {revisions.REVISION: str(revision)}}}
    return Patch(DEPLOYMENTS, deployment.name, patch, deployment.namespace)


def _revision_changes(state: _DeploymentState) -> tuple[Patch, ...]:
    """Make the revision of the current ReplicaSet the highest and copy it to the Deployment."""
    deployment, new = state.deployment, state.new
    if new is None:
        return ()
    writes: list[Patch] = []
    highest = max(map(revisions.revision_of, state.old), default=0) + 1
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
    bounds: ReplicaBounds, replicasets: Sequence[ReplicaSet], sizes: Sizes
) -> tuple[tuple[Patch, ...], tuple[str, ...]]:
    """Plan new sizes with the resource version, so that a stale plan cannot undo a step."""
    marks = revisions.size_annotations(bounds)
    writes, events = [], []
    for each in replicasets:
        size = sizes.get(each.name)
        marked = marks.items() <= each.metadata.annotations.items()
        if size is None or (size == each.spec.replicas and marked):
            continue
        meta = {"resourceVersion": each.metadata.resource_version, "annotations": marks}
        patch = {"metadata": meta, "spec": {"replicas": size}}
        writes.append(Patch(REPLICASETS, each.name, patch, each.namespace))
        if size != each.spec.replicas:
            direction = "up" if size > each.spec.replicas else "down"
            events.append(
                f"Scaled {direction} replica set {each.name} from {each.spec.replicas} to {size}"
            )
    return tuple(writes), tuple(events)


def _history_cleanup(state: _DeploymentState) -> tuple[Delete, ...]:
    """Plan to delete old ReplicaSets above the history limit, lowest revision first."""
    limit = state.deployment.spec.revision_history_limit
    if limit is None:
        return ()
    alive = sorted(
        (r for r in state.old if r.metadata.deletion_timestamp is None), key=revisions.revision_of
    )
    return tuple(
        Delete(REPLICASETS, r.name, r.namespace, r.uid)
        for r in alive[: max(0, len(alive) - limit)]
        if r.status.replicas == 0
        and r.spec.replicas == 0
        and r.metadata.generation <= r.status.observed_generation
    )


def _has_old_pods(old: Sequence[ReplicaSet], pods: Iterable[Pod]) -> bool:
    """Return whether a pod of an old template exists, even if it is terminating."""
    if any(r.status.replicas for r in old):
        return True
    uids = {r.uid for r in old}
    owners = (controller_of(p) for p in pods if not p.finished)
    return any(owner is not None and owner.uid in uids for owner in owners)


class DeploymentController(Reconciler):
    """Watch Deployments, their ReplicaSets and pods, and execute the plans."""

    name = "deployment-controller"
    required_resources = (DEPLOYMENTS, REPLICASETS, PODS)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._deployments = context.informers.get(DEPLOYMENTS)
        self._replicasets = context.informers.get(REPLICASETS)
        self._owned: ControllerIndex[ReplicaSet] = ControllerIndex()
        self._pods: ControllerIndex[Pod] = ControllerIndex()
        self._deployments.add_handler(self._on_deployment)
        self._replicasets.add_handler(self._owned.on_change)
        self._replicasets.add_handler(self._on_replicaset)
        pods = context.informers.get(PODS)
        pods.add_handler(self._pods.on_change)
        pods.add_handler(self._on_pod)

    def _on_deployment(
        self, kind: ChangeType, old: Deployment | None, new: Deployment | None
    ) -> None:
        if new is not None:
            self.queue.add(new.key)

    def _on_replicaset(
        self, kind: ChangeType, old: ReplicaSet | None, new: ReplicaSet | None
    ) -> None:
        for replicaset in (old, new):
            if replicaset is not None:
                self._queue_owner(replicaset)
        if new is not None and controller_of(new) is None:
            for deployment in self._deployments.cache.values():
                if deployment.namespace == new.namespace and from_selector(
                    deployment.spec.selector
                ).matches(new.metadata.labels):
                    self.queue.add(deployment.key)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        """Enqueue a Deployment that waits until its old pods have ended (Recreate)."""
        if old is None or (new is not None and not new.finished):
            return
        owner = controller_of(old)
        replicaset = self._replicasets.cache.get(f"{old.namespace}/{owner.name}") if owner else None
        if replicaset is not None:
            self._queue_owner(replicaset)

    def _queue_owner(self, replicaset: ReplicaSet) -> None:
        owner = controller_of(replicaset)
        if owner is not None and owner.kind == "Deployment":
            self.queue.add(f"{replicaset.namespace}/{owner.name}")

    async def reconcile(self, key: str) -> None:
        """Plan and execute the next step of one Deployment."""
        deployment = self._deployments.cache.get(key)
        if deployment is None:
            return
        owned = self._owned.of(deployment.uid)
        nearby = (*owned, *self._owned.orphans(deployment.namespace))
        pods = (p for r in owned for p in self._pods.of(r.uid))
        plan = plan_deployment(deployment, nearby, pods, self.clock.now())
        if plan.creation is not None and not await self._create(deployment, plan.creation):
            return
        await execute_writes(self.client, plan.writes)
        for message in plan.events:
            self.record_event(deployment, "Normal", "ScalingReplicaSet", message)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)

    async def _create(self, deployment: Deployment, creation: Create) -> bool:
        """Create the ReplicaSet; return whether the rest of the plan is still valid."""
        name = creation.body["metadata"]["name"]
        try:
            await execute_write(self.client, creation)
            return True
        except AlreadyExists:
            replicaset = await self.client.get(REPLICASETS, name, deployment.namespace)
        except HoldfastError as failure:
            if namespace_is_terminating(failure):
                return False
            message = f'Failed to create new replica set "{name}": {failure}'
            self.record_event(deployment, "Warning", "ReplicaSetCreateError", message)
            raise Retryable(message) from failure
        if is_controlled_by(replicaset, deployment) and same_template(
            replicaset.spec.template, deployment.spec.template
        ):
            return False  # created by this controller, not yet in the cache
        collisions = (deployment.status.collision_count or 0) + 1
        patch = {"status": {"collisionCount": collisions}}
        await self.client.patch(
            DEPLOYMENTS, deployment.name, patch, deployment.namespace, subresource="status"
        )
        return False
