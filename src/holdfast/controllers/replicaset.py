"""Keep as many pods as a ReplicaSet asks for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.api.labels import from_selector
from holdfast.api.pod import Pod
from holdfast.api.scheme import PODS, REPLICASETS
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.api.workloads import ReplicaSet
from holdfast.client.replica import ChangeType
from holdfast.controllers import conditions
from holdfast.controllers.expectations import GIVE_UP_AFTER, Expectations
from holdfast.controllers.grouped import Grouped, Owned
from holdfast.controllers.ownership import claimed, controller_of, owner_reference
from holdfast.controllers.pod_ranking import in_deletion_order
from holdfast.controllers.reconciler import Reconciler, Tools
from holdfast.controllers.writes import (
    Create,
    Delete,
    Patch,
    carry_out,
    carry_out_all,
    namespace_is_going,
)
from holdfast.errors import HoldfastError, NotFound, Retryable

BURST = 500
WIDEST = 64
_NAME_ROOM = 58  # a generated name adds five characters to at most this many


@dataclass(frozen=True, slots=True)
class ReplicaSetPlan:
    """What one look at a ReplicaSet and its pods asks for."""

    claims: tuple[Patch, ...] = ()
    creations: tuple[Create, ...] = ()
    deletions: tuple[Delete, ...] = ()
    status: Patch | None = None
    again_after: float | None = None


def plan_replicaset(
    replicaset: ReplicaSet,
    pods: Iterable[Pod],
    now: float,
    *,
    relatives: Iterable[Pod] = (),
    failure: str = "",
) -> ReplicaSetPlan:
    """Plan for one ReplicaSet.

    ``pods`` are its own and those of its namespace that nobody manages. ``relatives`` are the pods
    of its siblings under the same Deployment: nodes with many of all these are left first.
    ``failure`` is the server's word when the last creation failed.
    """
    reference = owner_reference("apps/v1", "ReplicaSet", replicaset)
    active = [p for p in pods if _active(p)]
    mine, claims = claimed(PODS, reference, replicaset, replicaset.spec.selector, active)
    creations: tuple[Create, ...] = ()
    deletions: tuple[Delete, ...] = ()
    if replicaset.metadata.deletion_timestamp is None:
        missing = replicaset.spec.replicas - len(mine)
        if missing > 0:
            creations = (Create(PODS, new_pod(replicaset), replicaset.namespace),) * min(
                missing, BURST
            )
        elif missing < 0:
            crowd = Counter(p.spec.node_name for p in (*mine, *relatives) if _active(p))
            chosen = in_deletion_order(mine, crowd, now)[: min(-missing, BURST)]
            deletions = tuple(Delete(PODS, p.name, p.namespace, p.uid) for p in chosen)
    status, again_after = _status(replicaset, mine, now, failure if creations else "")
    return ReplicaSetPlan(claims, creations, deletions, status, again_after)


def new_pod(replicaset: ReplicaSet) -> dict[str, Any]:
    """Write the next pod of a ReplicaSet from its template."""
    template = replicaset.spec.template
    meta = template.get("metadata") or {}
    kept = {k: meta[k] for k in ("labels", "annotations", "finalizers") if meta.get(k)}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": f"{replicaset.name}-"[:_NAME_ROOM],
            "namespace": replicaset.namespace, **kept,
            "ownerReferences": [owner_reference("apps/v1", "ReplicaSet", replicaset)],
        },
        "spec": template.get("spec") or {},
    }  # fmt: skip


def _active(pod: Pod) -> bool:
    return not pod.finished and not pod.terminating


def _status(
    replicaset: ReplicaSet, mine: list[Pod], now: float, failure: str
) -> tuple[Patch | None, float | None]:
    """Count; and say when the next pod becomes available by waiting alone."""
    wanted = ((replicaset.spec.template.get("metadata") or {}).get("labels")) or {}
    ready = [p for p in mine if conditions.holds(p.status.conditions, "Ready")]
    waits = [_until_available(p, replicaset.spec.min_ready_seconds, now) for p in ready]
    new: dict[str, Any] = {
        "replicas": len(mine),
        "fullyLabeledReplicas": sum(wanted.items() <= p.metadata.labels.items() for p in mine),
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
    again_after = min((w for w in waits if w > 0), default=None)
    # The words differ with each try (they name the pod): only the fact counts.
    if unchanged and (failing is not None) == bool(failure):
        return None, again_after
    new["conditions"] = _failure_condition(failure, now)
    patch = {"status": new}
    return (
        Patch(REPLICASETS, replicaset.name, patch, replicaset.namespace, "status"),
        again_after,
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
    """Count the seconds a ready pod still has to prove itself; 0 or less: available."""
    if not min_ready_seconds:
        return 0.0
    ready = conditions.find(pod.status.conditions, "Ready")
    since = parse_rfc3339(ready.last_transition_time) if ready and ready.last_transition_time else 0
    return since + min_ready_seconds - now


class ReplicaSetController(Reconciler):
    """Follow ReplicaSets and pods, and carry the plans out."""

    name = "replicaset-controller"
    needs = (REPLICASETS, PODS)

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._expectations = Expectations(tools.clock)
        self._failures: dict[str, str] = {}
        self._replicasets = tools.informers.get(REPLICASETS)
        self._pods: Owned[Pod] = Owned()
        self._siblings: Owned[ReplicaSet] = Owned()
        self._in_namespace: Grouped[ReplicaSet] = Grouped(lambda r: r.namespace)
        self._replicasets.add_handler(self._in_namespace.on_change)
        self._replicasets.add_handler(self._siblings.on_change)
        self._replicasets.add_handler(self._on_replicaset)
        pods = tools.informers.get(PODS)
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
                self._expectations.created(key)
            if new is None or new.terminating:
                self._expectations.deleted(key, pod.uid)
            if old is None or new is None or _differs(old, new):
                self.queue.add(key)
        if new is not None and controller_of(new) is None and not new.terminating:
            self._offer(new, old)

    def _offer(self, orphan: Pod, before: Pod | None) -> None:
        """Tell the ReplicaSets that may adopt a pod nobody manages, once it is or becomes one."""
        if before is not None and not _differs(before, orphan):
            return
        for replicaset in self._in_namespace.of(orphan.namespace):
            selector = from_selector(replicaset.spec.selector)
            if selector.matches(orphan.metadata.labels):
                self.queue.add(replicaset.key)

    async def reconcile(self, key: str) -> None:
        """Look at one ReplicaSet, unless news of our last writes is still to come."""
        replicaset = self._replicasets.cache.get(key)
        if replicaset is None:
            return
        if not self._expectations.met(key):
            self.queue.add_after(key, GIVE_UP_AFTER + 1)
            return
        pods = (*self._pods.of(replicaset.uid), *self._pods.orphans(replicaset.namespace))
        plan = plan_replicaset(
            replicaset, pods, self.clock.now(),
            relatives=self._relatives(replicaset), failure=self._failures.get(key, ""),
        )  # fmt: skip
        await carry_out_all(self.client, plan.claims)
        try:
            await self._create(replicaset, plan.creations)
            await self._delete(replicaset, plan.deletions)
        finally:
            if plan.status is not None:
                await carry_out_all(self.client, (plan.status,))
        if plan.again_after is not None:
            self.queue.add_after(key, plan.again_after)

    def _relatives(self, replicaset: ReplicaSet) -> list[Pod]:
        owner = controller_of(replicaset)
        siblings = self._siblings.of(owner.uid) if owner else ()
        return [p for s in siblings if s.uid != replicaset.uid for p in self._pods.of(s.uid)]

    async def _create(self, replicaset: ReplicaSet, creations: tuple[Create, ...]) -> None:
        """Create in batches that double, so that a refusal costs one call and not hundreds."""
        if not creations:
            return
        self._expectations.expect(replicaset.key, creations=len(creations))
        left, size = list(creations), 1
        while left:
            batch, left = left[:size], left[size:]
            outcomes = await asyncio.gather(
                *(carry_out(self.client, c) for c in batch), return_exceptions=True
            )
            for made in outcomes:
                if isinstance(made, Pod):
                    words = f"Created pod: {made.name}"
                    self.tell(replicaset, "Normal", "SuccessfulCreate", words)
            failed = [o for o in outcomes if isinstance(o, BaseException)]
            if failed:
                for _ in range(len(failed) + len(left)):
                    self._expectations.created(replicaset.key)
                self._creation_failed(replicaset, failed[0])
                return
            size = min(size * 2, WIDEST)
        self._failures.pop(replicaset.key, None)

    def _creation_failed(self, replicaset: ReplicaSet, failure: BaseException) -> None:
        """Say so in the status and an event, and try again later: a quota may grow."""
        if namespace_is_going(failure):
            return
        if not isinstance(failure, HoldfastError):
            raise failure
        self._failures[replicaset.key] = str(failure)
        self.tell(replicaset, "Warning", "FailedCreate", f"Error creating: {failure}")
        raise Retryable(f"pods were not created: {failure}") from failure

    async def _delete(self, replicaset: ReplicaSet, deletions: tuple[Delete, ...]) -> None:
        if not deletions:
            return
        uids = tuple(d.uid for d in deletions)
        self._expectations.expect(replicaset.key, deletions=uids)
        outcomes = await asyncio.gather(
            *(carry_out(self.client, d) for d in deletions), return_exceptions=True
        )
        for deletion, outcome in zip(deletions, outcomes, strict=True):
            if outcome is None:
                words = f"Deleted pod: {deletion.name}"
                self.tell(replicaset, "Normal", "SuccessfulDelete", words)
                continue
            self._expectations.deleted(replicaset.key, deletion.uid)
            if not isinstance(outcome, NotFound):
                words = f"Error deleting: {outcome}"
                self.tell(replicaset, "Warning", "FailedDelete", words)
                raise outcome


def _differs(old: Pod, new: Pod) -> bool:
    """Tell whether a change of a pod can mean anything to whoever counts it."""
    return (
        old.status.phase != new.status.phase
        or old.terminating != new.terminating
        or old.metadata.labels != new.metadata.labels
        or old.metadata.owner_references != new.metadata.owner_references
        or conditions.holds(old.status.conditions, "Ready")
        != conditions.holds(new.status.conditions, "Ready")
    )
