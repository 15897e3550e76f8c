"""The replicaset controller: create and delete pods until their number matches the spec."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.api.labels import from_selector
from holdfast.api.meta import controller_of, owner_reference
from holdfast.api.pod import Pod
from holdfast.api.scheme import PODS, REPLICASETS
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.api.workloads import ReplicaSet
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers import conditions
from holdfast.controllers.expectations import TIMEOUT_SECONDS, Expectations
from holdfast.controllers.object_index import ControllerIndex, ObjectIndex
from holdfast.controllers.ownership import claim_objects
from holdfast.controllers.planned_writes import (
    Create,
    Delete,
    Patch,
    execute_write,
    execute_writes,
    namespace_is_terminating,
)
from holdfast.controllers.pod_ranking import in_deletion_order
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import HoldfastError, NotFound, Retryable

BURST_REPLICAS = 500
MAX_BATCH = 64
_MAX_PREFIX_LENGTH = 58  # a generated name adds five characters to at most this many


@dataclass(frozen=True, slots=True)
class ReplicaSetPlan:
    """The writes for one ReplicaSet and its pods."""

    claims: tuple[Patch, ...] = ()
    creations: tuple[Create, ...] = ()
    deletions: tuple[Delete, ...] = ()
    status: Patch | None = None
    requeue_after: float | None = None


def plan_replicaset(
    replicaset: ReplicaSet,
    pods: Iterable[Pod],
    now: float,
    *,
    related_pods: Iterable[Pod] = (),
    failure: str = "",
) -> ReplicaSetPlan:
    """Plan for one ReplicaSet.

    ``pods`` are its own pods and the orphans of its namespace. ``related_pods`` are the pods of
    other ReplicaSets of the same Deployment: pods on nodes with many of all these are deleted
    first. ``failure`` is the error of the last creation.
    """
    reference = owner_reference("apps/v1", "ReplicaSet", replicaset)
    active = [p for p in pods if _active(p)]
    own_pods, claims = claim_objects(PODS, reference, replicaset, replicaset.spec.selector, active)
    creations: tuple[Create, ...] = ()
    deletions: tuple[Delete, ...] = ()
    if replicaset.metadata.deletion_timestamp is None:
        missing = replicaset.spec.replicas - len(own_pods)
        if missing > 0:
            creations = (Create(PODS, new_pod(replicaset), replicaset.namespace),) * min(
                missing, BURST_REPLICAS
            )
        elif missing < 0:
            pods_per_node = Counter(
                p.spec.node_name for p in (*own_pods, *related_pods) if _active(p)
            )
            chosen = in_deletion_order(own_pods, pods_per_node, now)[
                : min(-missing, BURST_REPLICAS)
            ]
            deletions = tuple(Delete(PODS, p.name, p.namespace, p.uid) for p in chosen)
    status, requeue_after = _status(replicaset, own_pods, now, failure if creations else "")
    return ReplicaSetPlan(claims, creations, deletions, status, requeue_after)


def new_pod(replicaset: ReplicaSet) -> dict[str, Any]:
    """Return a new pod of a ReplicaSet from its template."""
    template = replicaset.spec.template
    meta = template.get("metadata") or {}
    kept = {k: meta[k] for k in ("labels", "annotations", "finalizers") if meta.get(k)}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": f"{replicaset.name}-"[:_MAX_PREFIX_LENGTH],
            "namespace": replicaset.namespace, **kept,
            "ownerReferences": [owner_reference("apps/v1", "ReplicaSet", replicaset)],
        },
        "spec": template.get("spec") or {},
    }  # fmt: skip


def _active(pod: Pod) -> bool:
    return not pod.finished and not pod.terminating


def _status(
    replicaset: ReplicaSet, own_pods: list[Pod], now: float, failure: str
) -> tuple[Patch | None, float | None]:
    """Return a patch of the status, and the seconds until the next ready pod is available."""
    wanted = ((replicaset.spec.template.get("metadata") or {}).get("labels")) or {}
    ready = [p for p in own_pods if conditions.is_true(p.status.conditions, "Ready")]
    waits = [_until_available(p, replicaset.spec.min_ready_seconds, now) for p in ready]
    new: dict[str, Any] = {
        "replicas": len(own_pods),
        "fullyLabeledReplicas": sum(wanted.items() <= p.metadata.labels.items() for p in own_pods),
        "readyReplicas": len(ready),
        "availableReplicas": sum(w <= 0 for w in waits),
        "observedGeneration": replicaset.metadata.generation,
    }
    old = replicaset.status
    unchanged = (
        old.replicas, old.fully_labeled_replicas, old.ready_replicas, old.available_replicas,
        old.observed_generation,
    ) == tuple(new.values())  # fmt: skip
    failing = conditions.find(old.conditions, "ReplicaFailure")
    requeue_after = min((w for w in waits if w > 0), default=None)
    # The message names the pod and differs with each attempt, so it is not compared.
    if unchanged and (failing is not None) == bool(failure):
        return None, requeue_after
    new["conditions"] = _failure_condition(failure, now)
    patch = {"status": new}
    return (
        Patch(REPLICASETS, replicaset.name, patch, replicaset.namespace, "status"),
        requeue_after,
    )


def _failure_condition(failure: str, now: float) -> list[dict[str, Any]] | None:
    if not failure:
        return None
    return [
        {
            "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": failure, "lastTransitionTime": rfc3339(now),
        }
    ]  # fmt: skip


def _until_available(pod: Pod, min_ready_seconds: int, now: float) -> float:
    """Return the seconds until a ready pod is available; 0 or less if it is available."""
    if not min_ready_seconds:
        return 0.0
    ready = conditions.find(pod.status.conditions, "Ready")
    since = parse_rfc3339(ready.last_transition_time) if ready and ready.last_transition_time else 0
    return since + min_ready_seconds - now


class ReplicaSetController(Reconciler):
    """Watch ReplicaSets and pods, and execute the plans."""

    name = "replicaset-controller"
    required_resources = (REPLICASETS, PODS)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._expectations = Expectations(context.clock)
        self._failures: dict[str, str] = {}
        self._replicasets = context.informers.get(REPLICASETS)
        self._pods: ControllerIndex[Pod] = ControllerIndex()
        self._siblings: ControllerIndex[ReplicaSet] = ControllerIndex()
        self._in_namespace: ObjectIndex[ReplicaSet] = ObjectIndex(lambda r: r.namespace)
        self._replicasets.add_handler(self._in_namespace.on_change)
        self._replicasets.add_handler(self._siblings.on_change)
        self._replicasets.add_handler(self._on_replicaset)
        pods = context.informers.get(PODS)
        pods.add_handler(self._pods.on_change)
        pods.add_handler(self._on_pod)

    def _on_replicaset(
        self, kind: ChangeType, old: ReplicaSet | None, new: ReplicaSet | None
    ) -> None:
        either = new or old
        assert either is not None
        if new is None:
            self._expectations.forget(either.key)
            self._failures.pop(either.key, None)
        self.queue.add(either.key)

    def _on_pod(self, kind: ChangeType, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            owner = controller_of(pod) if pod is not None else None
            if pod is None or owner is None or owner.kind != "ReplicaSet":
                continue
            key = f"{pod.namespace}/{owner.name}"
            if kind == "added":
                self._expectations.creation_observed(key)
            if new is None or new.terminating:
                self._expectations.deletion_observed(key, pod.uid)
            if old is None or new is None or _differs(old, new):
                self.queue.add(key)
        if new is not None and controller_of(new) is None and not new.terminating:
            self._enqueue_adopters(new, old)

    def _enqueue_adopters(self, orphan: Pod, before: Pod | None) -> None:
        """Enqueue the ReplicaSets that may adopt an orphan, if it is new or has changed."""
        if before is not None and not _differs(before, orphan):
            return
        for replicaset in self._in_namespace.of(orphan.namespace):
            selector = from_selector(replicaset.spec.selector)
            if selector.matches(orphan.metadata.labels):
                self.queue.add(replicaset.key)

    async def reconcile(self, key: str) -> None:
        """Reconcile one ReplicaSet, unless its last writes were not yet observed."""
        replicaset = self._replicasets.cache.get(key)
        if replicaset is None:
            return
        if not self._expectations.satisfied(key):
            self.queue.add_after(key, TIMEOUT_SECONDS + 1)
            return
        pods = (*self._pods.of(replicaset.uid), *self._pods.orphans(replicaset.namespace))
        plan = plan_replicaset(
            replicaset, pods, self.clock.now(),
            related_pods=self._related_pods(replicaset), failure=self._failures.get(key, ""),
        )  # fmt: skip
        await execute_writes(self.client, plan.claims)
        try:
            await self._create(replicaset, plan.creations)
            await self._delete(replicaset, plan.deletions)
        finally:
            if plan.status is not None:
                await execute_writes(self.client, (plan.status,))
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)

    def _related_pods(self, replicaset: ReplicaSet) -> list[Pod]:
        owner = controller_of(replicaset)
        siblings = self._siblings.of(owner.uid) if owner else ()
        return [p for s in siblings if s.uid != replicaset.uid for p in self._pods.of(s.uid)]

    async def _create(self, replicaset: ReplicaSet, creations: tuple[Create, ...]) -> None:
        """Create pods in batches of doubling size, so that a refusal costs few requests."""
        if not creations:
            return
        self._expectations.expect(replicaset.key, creations=len(creations))
        left, size = list(creations), 1
        while left:
            batch, left = left[:size], left[size:]
            outcomes = await asyncio.gather(
                *(execute_write(self.client, c) for c in batch), return_exceptions=True
            )
            for made in outcomes:
                if isinstance(made, Pod):
                    message = f"Created pod: {made.name}"
                    self.record_event(replicaset, "Normal", "SuccessfulCreate", message)
            failed = [o for o in outcomes if isinstance(o, BaseException)]
            if failed:
                for _ in range(len(failed) + len(left)):
                    self._expectations.creation_observed(replicaset.key)
                self._creation_failed(replicaset, failed[0])
                return
            size = min(size * 2, MAX_BATCH)
        self._failures.pop(replicaset.key, None)

    def _creation_failed(self, replicaset: ReplicaSet, failure: BaseException) -> None:
        """Record the failure for the status and an event, and retry later."""
        if namespace_is_terminating(failure):
            return
        if not isinstance(failure, HoldfastError):
            raise failure
        self._failures[replicaset.key] = str(failure)
        self.record_event(replicaset, "Warning", "FailedCreate", f"Error creating: {failure}")
        raise Retryable(f"creating pods failed: {failure}") from failure

    async def _delete(self, replicaset: ReplicaSet, deletions: tuple[Delete, ...]) -> None:
        if not deletions:
            return
        uids = tuple(d.uid for d in deletions)
        self._expectations.expect(replicaset.key, deletions=uids)
        outcomes = await asyncio.gather(
            *(execute_write(self.client, d) for d in deletions), return_exceptions=True
        )
        for deletion, outcome in zip(deletions, outcomes, strict=True):
            if outcome is None:
                message = f"Deleted pod: {deletion.name}"
                self.record_event(replicaset, "Normal", "SuccessfulDelete", message)
                continue
            self._expectations.deletion_observed(replicaset.key, deletion.uid)
            if not isinstance(outcome, NotFound):
                message = f"Error deleting: {outcome}"
                self.record_event(replicaset, "Warning", "FailedDelete", message)
                raise outcome


def _differs(old: Pod, new: Pod) -> bool:
    """Return whether a change of a pod may affect its ReplicaSet."""
    return (
        old.status.phase != new.status.phase
        or old.terminating != new.terminating
        or old.metadata.labels != new.metadata.labels
        or old.metadata.owner_references != new.metadata.owner_references
        or conditions.is_true(old.status.conditions, "Ready")
        != conditions.is_true(new.status.conditions, "Ready")
    )
