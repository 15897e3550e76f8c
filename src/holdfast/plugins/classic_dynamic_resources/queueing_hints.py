"""Which events may make a pod schedulable that waits for its classic claims, and how soon."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from holdfast.api.classic import ClassicClaim, ClassicClass, PodScheduling, PodSchedulingStatus
from holdfast.api.classic_claims import readable_entries
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.classic_dra.ledger import ClassicLedger, is_owned
from holdfast.classic_dra.pod_claims import unusable
from holdfast.framework.events import ActionType, ClusterEvent, EventResource, QueueingStrategy

CLAIM, CLASS, NEGOTIATION = "ClassicResourceClaim", "ClassicResourceClass", "PodScheduling"
NODE_ACTIONS = (ActionType.ADD, ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT)
SKIP = QueueingStrategy.SKIP
IMMEDIATELY = QueueingStrategy.IMMEDIATELY
AFTER_BACKOFF = QueueingStrategy.AFTER_BACKOFF


def pod_keys(pod: Pod) -> Collection[Hashable]:
    """Return the keys of a pod's claims and of its PodScheduling."""
    claims = [(CLAIM, f"{pod.namespace}/{entry.claim_name}") for entry in readable_entries(pod)]
    return [*claims, (NEGOTIATION, pod.key)]


def event_keys(event: ClusterEvent) -> Collection[Hashable] | None:
    """Return the keys of the pods that an event concerns; None: any pod."""
    obj: Any = event.new if event.new is not None else event.old
    match event.resource:
        case EventResource.CLASSIC_RESOURCE_CLAIM | EventResource.POD_SCHEDULING:
            return [(event.resource, obj.key)]
        case EventResource.UNSCHEDULABLE_POD:
            return [(NEGOTIATION, obj.key)]
    return None


def after_claim(event: ClusterEvent, pod: Pod) -> QueueingStrategy:
    """Return what to do after a claim was added, changed or deleted."""
    old: ClassicClaim | None = event.old
    new: ClassicClaim | None = event.new
    if new is None or new.namespace != pod.namespace:
        return SKIP
    entries = [entry for entry in readable_entries(pod) if entry.claim_name == new.name]
    for entry in entries:
        if _must_be_given_back(new, pod) and not (old and _must_be_given_back(old, pod)):
            return IMMEDIATELY
        if unusable(pod, entry, new):
            continue
        if old is None or old.uid != new.uid or unusable(pod, entry, old):
            return IMMEDIATELY
        if _for_pod(old, pod) != _for_pod(new, pod) and not new.status.deallocation_requested:
            return IMMEDIATELY
    return SKIP


def _must_be_given_back(claim: ClassicClaim, pod: Pod) -> bool:
    """Return whether a claim's deletion waits for a pod that has no node."""
    return claim.is_deleted and claim.is_reserved_for(pod.uid)


def _for_pod(claim: ClassicClaim, pod: Pod) -> tuple[object, ...]:
    """Return what of a claim's status decides about a pod: not whether it is reserved for it.

    The pod reserves claims and gives them back itself.
    """
    status = claim.status
    others = [consumer.uid for consumer in status.reserved_for if consumer.uid != pod.uid]
    return status.allocation, status.deallocation_requested, others


def after_negotiation(event: ClusterEvent, pod: Pod, ledger: ClassicLedger) -> QueueingStrategy:
    """Return what to do after drivers have answered in the PodScheduling of the pod.

    If it was deleted, drivers have to be asked again.
    """
    new: PodScheduling | None = event.new
    if new is None:
        return AFTER_BACKOFF if event.old is not None and is_owned(event.old, pod) else SKIP
    if not is_owned(new, pod):
        return SKIP
    before = PodSchedulingStatus() if event.old is None else event.old.status
    if before == new.status:
        return SKIP
    pending = {of_pod.entry.name for of_pod in ledger.ready_claims_of(pod) if of_pod.is_pending}
    if not pending or not pending <= _answered(new.status):
        return SKIP
    if not pending <= _answered(before):
        return IMMEDIATELY
    rejected = any(
        new.spec.selected_node in answer.unsuitable_nodes
        for answer in new.status.claims
        if answer.pod_resource_claim_name in pending
    )
    return IMMEDIATELY if rejected else AFTER_BACKOFF


def _answered(status: PodSchedulingStatus) -> set[str]:
    return {answer.pod_resource_claim_name for answer in status.claims}


def after_class(event: ClusterEvent, pod: Pod, ledger: ClassicLedger) -> QueueingStrategy:
    """Return what to do after a class was added or changed."""
    new: ClassicClass | None = event.new
    if new is None:
        return SKIP
    waits = any(
        of_pod.is_pending and of_pod.claim.spec.resource_class_name == new.name
        for of_pod in ledger.ready_claims_of(pod)
    )
    return AFTER_BACKOFF if waits else SKIP


def after_pod_change(event: ClusterEvent, pod: Pod) -> QueueingStrategy:
    """Return what to do after a change of the waiting pod itself: its annotation may be right."""
    own: Object | None = event.new
    if own is None or own.uid != pod.uid or not isinstance(event.old, Pod):
        return SKIP
    return AFTER_BACKOFF if readable_entries(event.old) != readable_entries(event.new) else SKIP
