"""Keep as many pods as a ReplicaSet asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.api.meta import LabelSelector
from holdfast.api.pod import Pod
from holdfast.api.scheme import PODS, REPLICASETS
from holdfast.api.labels import from_selector
from holdfast.api.workloads import ReplicaSet
from holdfast.clock import parse_rfc3339, rfc3339
from holdfast.controllers import conditions
from holdfast.controllers.ownership import claimed, owner_reference
from holdfast.controllers.pod_ranking import in_deletion_order
from holdfast.controllers.writes import Create, Delete, Patch

BURST = 500
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
    replicaset: ReplicaSet, pods: Iterable[Pod], now: float, *, failure: str = ""
) -> ReplicaSetPlan:
    """Plan for one ReplicaSet.

    ``pods`` are those of its namespace (others are ignored by selector and owner). ``failure`` is
    the server's word when the last creation failed; it becomes the condition ReplicaFailure.
    """
    pods = [p for p in pods if p.namespace == replicaset.namespace]
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
            crowd = Counter(p.spec.node_name for p in _relatives(replicaset, pods))
            chosen = in_deletion_order(mine, crowd, now)[: min(-missing, BURST)]
            deletions = tuple(Delete(PODS, p.name, p.namespace, p.uid) for p in chosen)
    status, again_after = _status(replicaset, mine, now, failure)
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


def _relatives(replicaset: ReplicaSet, pods: Iterable[Pod]) -> list[Pod]:
    """Find the pods of the whole workload: by Deployment they differ in the hash label only."""
    labels = dict(replicaset.spec.selector.match_labels)
    labels.pop("pod-template-hash", None)
    expressions = replicaset.spec.selector.match_expressions
    selector = LabelSelector(match_labels=labels, match_expressions=expressions)
    matcher = from_selector(selector)
    return [p for p in pods if _active(p) and matcher.matches(p.metadata.labels)]


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
    if unchanged and (failing.message if failing else "") == failure:
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
