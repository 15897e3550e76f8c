"""Roll a Deployment from one ReplicaSet to the next, and keep its scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.api.labels import from_selector
from holdfast.api.pod import Pod
from holdfast.api.scheme import DEPLOYMENTS, PODS, REPLICASETS
from holdfast.api.workloads import Deployment, DeploymentStatus, ReplicaSet
from holdfast.client.replica import ChangeType
from holdfast.controllers import revisions, rollout
from holdfast.controllers.deployment_status import ReplicaCounts, status_of, until_late
from holdfast.controllers.grouped import Owned
from holdfast.controllers.ownership import claimed, controller_of, owned_by, owner_reference
from holdfast.controllers.reconciler import Reconciler, Tools
from holdfast.controllers.rollout import Bounds, Sizes
from holdfast.controllers.writes import (
    Create,
    Delete,
    Patch,
    Write,
    carry_out,
    carry_out_all,
    namespace_is_going,
)
from holdfast.errors import AlreadyExists, HoldfastError, Retryable


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What one look at a Deployment asks for; ``notes`` are the words of its events."""

    writes: tuple[Write, ...] = ()
    creation: Create | None = None
    notes: tuple[str, ...] = ()
    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class _Look:
    """A Deployment and its ReplicaSets at one moment."""

    deployment: Deployment
    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]
    bounds: Bounds
    now: float

    @property
    def everyone(self) -> tuple[ReplicaSet, ...]:
        return (self.new, *self.old) if self.new else self.old


def plan_deployment(
    deployment: Deployment, replicasets: Iterable[ReplicaSet], pods: Iterable[Pod], now: float
) -> DeploymentPlan:
    """Plan the next step of one Deployment from its namespace's ReplicaSets and pods."""
    reference = owner_reference("apps/v1", "Deployment", deployment)
    nearby = [r for r in replicasets if r.namespace == deployment.namespace]
    mine, claims = claimed(REPLICASETS, reference, deployment, deployment.spec.selector, nearby)
    new = revisions.current(deployment, mine)
    old = tuple(r for r in mine if new is None or r.uid != new.uid)
    look = _Look(deployment, new, old, Bounds.of(deployment), now)
    if deployment.metadata.deletion_timestamp is not None:
        return _finish(look, claims, rolling_out=False)
    writes = (*claims, *_revision_changes(look))
    if deployment.spec.paused or rollout.scaled(look.bounds, mine):
        return _rescale(look, writes)
    return _roll_out(look, pods, writes)


def _rescale(look: _Look, writes: tuple[Write, ...]) -> DeploymentPlan:
    sizes = rollout.rescale(look.bounds, look.new, look.old, look.deployment.status.replicas)
    # Every ReplicaSet that runs pods learns the new scale, or this would never end.
    sizes = {r.name: r.spec.replicas for r in look.everyone if r.spec.replicas > 0} | sizes
    resizes, notes = _resizes(look.bounds, look.everyone, sizes)
    spent = _spent(look) if look.deployment.spec.paused else ()
    return _finish(look, (*writes, *resizes, *spent), notes=notes, rolling_out=False)


def _roll_out(look: _Look, pods: Iterable[Pod], writes: tuple[Write, ...]) -> DeploymentPlan:
    bounds, sizes = look.bounds, {}
    if not bounds.rolling:
        sizes = {r.name: 0 for r in look.old if r.spec.replicas > 0}
        if sizes or _still_running(look.old, pods):
            resizes, notes = _resizes(bounds, look.old, sizes)
            return _finish(look, (*writes, *resizes), notes=notes)
    if look.new is None:
        return _create(look, writes)
    if bounds.rolling:
        sizes = rollout.roll(bounds, look.new, look.old)
    elif look.new.spec.replicas != bounds.replicas:
        sizes = {look.new.name: bounds.replicas}
    resizes, notes = _resizes(bounds, look.everyone, sizes)
    complete = not sizes and ReplicaCounts.of(look.new, look.old).complete(look.deployment)
    spent = _spent(look) if complete else ()
    return _finish(look, (*writes, *resizes, *spent), notes=notes)


def _create(look: _Look, writes: tuple[Write, ...]) -> DeploymentPlan:
    deployment = look.deployment
    replicas = rollout.grown(look.bounds, sum(r.spec.replicas for r in look.old), 0)
    revision = max(map(revisions.revision_of, look.old), default=0) + 1
    body = revisions.new_replicaset(deployment, replicas, revision)
    name = body["metadata"]["name"]
    status = status_of(deployment, None, look.old, look.now, created=name)
    return DeploymentPlan(
        (*writes, _annotate(deployment, revision), _status_patch(deployment, status)),
        Create(REPLICASETS, body, deployment.namespace),
        (f"Scaled up replica set {name} from 0 to {replicas}",) if replicas else (),
    )


def _finish(
    look: _Look, writes: tuple[Write, ...], *, notes: tuple[str, ...] = (), rolling_out: bool = True
) -> DeploymentPlan:
    """Add the status, where it changed."""
    deployment = look.deployment
    status = status_of(deployment, look.new, look.old, look.now, rolling_out=rolling_out)
    if not _says(deployment, status):
        writes = (*writes, _status_patch(deployment, status))
    counts = ReplicaCounts.of(look.new, look.old)
    again_after = until_late(deployment, counts, look.now) if rolling_out else None
    return DeploymentPlan(writes, None, notes, again_after)


def _says(deployment: Deployment, status: dict[str, Any]) -> bool:
    """Tell whether the Deployment's status says all this already."""
    said = msgspec.structs.replace(deployment.status, collision_count=None)
    return bool(msgspec.convert(status, DeploymentStatus) == said)


def _status_patch(deployment: Deployment, status: dict[str, Any]) -> Patch:
    return Patch(DEPLOYMENTS, deployment.name, {"status": status}, deployment.namespace, "status")


def _annotate(deployment: Deployment, revision: int) -> Patch:
    patch = {"metadata": {"annotations": {revisions.REVISION: str(revision)}}}
    return Patch(DEPLOYMENTS, deployment.name, patch, deployment.namespace)


def _revision_changes(look: _Look) -> tuple[Patch, ...]:
    """Keep the current ReplicaSet's number the highest, and the Deployment's equal to it."""
    deployment, new = look.deployment, look.new
    if new is None:
        return ()
    writes: list[Patch] = []
    highest = max(map(revisions.revision_of, look.old), default=0) + 1
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


def _spent(look: _Look) -> tuple[Delete, ...]:
    """Choose the old revisions beyond the history limit, lowest number first."""
    limit = look.deployment.spec.revision_history_limit
    if limit is None:
        return ()
    alive = sorted(
        (r for r in look.old if r.metadata.deletion_timestamp is None), key=revisions.revision_of
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


class DeploymentController(Reconciler):
    """Follow Deployments, their ReplicaSets and pods, and carry the plans out."""

    name = "deployment-controller"
    needs = (DEPLOYMENTS, REPLICASETS, PODS)

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._deployments = tools.informers.get(DEPLOYMENTS)
        self._replicasets = tools.informers.get(REPLICASETS)
        self._owned: Owned[ReplicaSet] = Owned()
        self._pods: Owned[Pod] = Owned()
        self._deployments.add_handler(self._on_deployment)
        self._replicasets.add_handler(self._owned.on_change)
        self._replicasets.add_handler(self._on_replicaset)
        pods = tools.informers.get(PODS)
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
        """Wake a Deployment that waits for its last old pod to go (Recreate)."""
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
        """Take one Deployment's next step."""
        deployment = self._deployments.cache.get(key)
        if deployment is None:
            return
        owned = self._owned.of(deployment.uid)
        nearby = (*owned, *self._owned.orphans(deployment.namespace))
        pods = (p for r in owned for p in self._pods.of(r.uid))
        plan = plan_deployment(deployment, nearby, pods, self.clock.now())
        if plan.creation is not None and not await self._create(deployment, plan.creation):
            return
        await carry_out_all(self.client, plan.writes)
        for words in plan.notes:
            self.tell(deployment, "Normal", "ScalingReplicaSet", words)
        if plan.again_after is not None:
            self.queue.add_after(key, plan.again_after)

    async def _create(self, deployment: Deployment, creation: Create) -> bool:
        """Create the ReplicaSet; tell whether the rest of the plan still holds."""
        name = creation.body["metadata"]["name"]
        try:
            await carry_out(self.client, creation)
            return True
        except AlreadyExists:
            found = await self.client.get(REPLICASETS, name, deployment.namespace)
        except HoldfastError as failure:
            if namespace_is_going(failure):
                return False
            words = f'Failed to create new replica set "{name}": {failure}'
            self.tell(deployment, "Warning", "ReplicaSetCreateError", words)
            raise Retryable(words) from failure
        if owned_by(found, deployment) and revisions.same_template(
            found.spec.template, deployment.spec.template
        ):
            return False  # made by us a moment ago; the news is on its way
        collisions = (deployment.status.collision_count or 0) + 1
        patch = {"status": {"collisionCount": collisions}}
        await self.client.patch(
            DEPLOYMENTS, deployment.name, patch, deployment.namespace, subresource="status"
        )
        return False
