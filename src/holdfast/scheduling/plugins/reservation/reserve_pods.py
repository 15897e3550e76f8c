"""Filter nodes for reserve pods, and bind them by writing the Reservation's status.

Pods in operating mode Reservation, which act as reservations once they run, are filtered alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np

from holdfast.api import reservation_names as names
from holdfast.api.quantity import AmountText
from holdfast.api.requests import request_nanos, round_up_nanos
from holdfast.api.reservation import AVAILABLE, WAITING
from holdfast.api.reservation_status import placed, waiting, waiting_message
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.runtime.errors import Conflict, HoldfastError, NotFound, Refused
from holdfast.scheduling.framework.plugin import (
    MERGE_PATCH,
    NO_CHANGE,
    AnyRows,
    ApiCall,
    ApiCalls,
    Code,
    NodeFilter,
    Placement,
    PodChange,
    Reject,
    Reserver,
    Rows,
    Verdicts,
)
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.reservation.eviction_rules import OwnerEvictionRules, is_protected
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.operating_pods import owners_mistake
from holdfast.state.reservations.pre_allocation import PreAllocationResult
from holdfast.state.reservations.reservation_annotations import resized_amounts
from holdfast.state.reservations.reservation_cache import ReservationCache

NO_CLUSTER_MODE = "reservation requires cluster mode pre-allocation which is disabled"
NOT_THE_NODE = "node(s) didn't match the nodeName specified by reservation"
POLICY_CONFLICT = "node(s) reservation allocate policy conflict"
INVALID_OWNERS = "InvalidReservationOwners"
NOT_ACTING = "the pod is an ordinary pod, and no other pod may use its resources"
log = logging.getLogger(__name__)
TRIES = 5


@dataclass(slots=True)
class ActingPodPlan(OwnerEvictionRules, NodeFilter, Reserver):
    """Reject nodes with a reservation of the other policy, and all but ``pinned`` if that is set.

    Policies are Default or not Default; only one of both may be on a node.
    """

    nodes: NodeTable
    reservations: ReservationCache
    pinned: str
    policy: str

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject such nodes as unresolvable."""
        others = Code.UNRESOLVABLE if self.pinned else Code.PASS
        verdicts = np.full(self.nodes.capacity, others, np.int8)
        if self.pinned in self.nodes.row_of:
            verdicts[self.nodes.row_of[self.pinned]] = Code.PASS
        verdicts[self._conflicting()] = Code.UNRESOLVABLE
        return verdicts[rows]

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the node name or the policy; () for a row that passes."""
        if self.pinned and self.nodes.names[row] != self.pinned:
            return (NOT_THE_NODE,)
        return (POLICY_CONFLICT,) if row in self._conflicting() else ()

    def depends_on_pods(self) -> bool:
        """Return False: pods decide nothing."""
        return False

    def reserve(self, placement: Placement) -> Reject | None:
        """Keep reservations of the other policy from the node while the pod is bound."""
        record_invalid_owners(placement)
        self.reservations.being_bound[placement.pod.uid] = (placement.row, self.policy == "")
        return None

    def unreserve(self, placement: Placement) -> None:
        """Allow them again."""
        self.reservations.being_bound.pop(placement.pod.uid, None)

    def _conflicting(self) -> Rows:
        return self.reservations.rows_with_other_policy(default=self.policy == "")


@dataclass(frozen=True, slots=True)
class InvalidOwnersEvent(Reserver):
    """Record why a pod cannot act as a reservation although it should."""

    def reserve(self, placement: Placement) -> None:
        """Record it when the pod is placed."""
        record_invalid_owners(placement)

    def unreserve(self, placement: Placement) -> None:
        """Do nothing: nothing was reserved."""


def record_invalid_owners(placement: Placement) -> None:
    """Record what is wrong with the owners in the annotation of a pod, if anything is."""
    if mistake := owners_mistake(placement.pod.pod):
        placement.events.append((INVALID_OWNERS, f"{mistake}: {NOT_ACTING}"))


@dataclass(slots=True)
class ReservePodPlan(ActingPodPlan):
    """The same for a reserve pod, which may be pinned to a node; preemption is an option."""

    enable_preemption: bool

    def preemption_refusal(self, rejection: Rejection) -> str | None:
        """Forbid preemption unless it is enabled."""
        rejection.view.nodes.add_selector_keys(frozenset((names.DISABLE_PREEMPTIBLE,)))
        return None if self.enable_preemption else ""

    def protected_victims(self, pod: PodInfo) -> Callable[[PodInfo], bool]:
        """Spare the pods that are protected from preemption by reservations."""
        return is_protected


def placement_key(pod: PodInfo, view: View) -> Hashable:
    """Return everything of the reservation that decides where it may be placed."""
    reservation = view.world.reservations.pending.get(pod.uid)
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    if reservation is None:
        return (pinned, pod.uid)
    spec = reservation.spec
    if spec.pre_allocation:
        # A pre-allocating reservation is a separate class and depends on the pods of all nodes.
        return (pinned, pod.uid, reservation.metadata.resource_version, view.nodes.pods_version)
    return (pinned, spec.allocate_policy, spec.template is None)


def uses_pre_allocation(pod: PodInfo, view: View) -> bool:
    """Tell whether the pod is a reserve pod whose reservation pre-allocates."""
    reservation = view.world.reservations.pending.get(pod.uid) if pod.is_reserve_pod else None
    return reservation is not None and reservation.spec.pre_allocation


def prepare_reserve_pod(
    pod: PodInfo, view: View, *, enable_preemption: bool
) -> ReservePodPlan | Reject:
    """Look up the reservation of a reserve pod."""
    reservation = view.world.reservations.pending.get(pod.uid)
    if reservation is None:
        missing = f'reservation.scheduling.koordinator.sh "{pod.name}" not found'
        return Reject(Code.ERROR, (f"cannot get reservation, err: {missing}",))
    if reservation.spec.template is None:
        return Reject(Code.ERROR, ("the reservation misses the template spec",))
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    policy = reservation.spec.allocate_policy
    return ReservePodPlan(view.nodes, view.world.reservations, pinned, policy, enable_preemption)


def advice(pod: PodInfo, view: View, rejection: Rejection) -> str:
    """Return how to correct the reservation, where the reasons do not say it, or ""."""
    if rejection.pre_filter_reject is not None and rejection.pre_filter_reject[1].reasons == (
        NO_CLUSTER_MODE,
    ):
        switch = "preAllocationConfig.enableClusterMode in ReservationArgs"
        return f"spec.preAllocationPolicy.mode: Cluster needs {switch}"
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    if not pinned or pinned in view.nodes.row_of:
        return ""
    return f'spec.template.spec.nodeName: there is no node "{pinned}"'


def bind_reservation(placement: Placement, result: PreAllocationResult | None = None) -> ApiCalls:
    """Yield the writes that bind a pending Reservation to its node.

    Pre-allocated pods are annotated first, so that a reader of the status finds the annotations.
    They are removed again if the Reservation cannot be bound.
    """
    annotated: list[PodInfo] = []
    try:
        for pod in result.pods if result is not None else ():
            annotated.append(pod)
            yield _annotate(pod, allocated_from(placement.pod))
        yield from _write_status(placement, result)
    except HoldfastError:
        if annotated and not (yield from _was_bound(placement)):
            for pod in annotated:
                yield from _remove_annotation(pod)
        raise


def _write_status(placement: Placement, result: PreAllocationResult | None) -> ApiCalls:
    """Write the annotations, then the node and whether the resources are available already.

    Both are written with the resource version just read, so that a reservation that has expired or
    was deleted or bound since is not overwritten. Annotations mean nothing before the status says
    that the reservation is active, so they are not undone.
    """
    pod_info = placement.pod
    path = RESERVATIONS.path(name=pod_info.name)
    for attempt in range(TRIES):
        raw = yield ApiCall("get", path)
        _check_alive(raw, pod_info)
        try:
            if patch := _annotation_patch(raw["metadata"], placement.annotations):
                raw = yield ApiCall("patch", path, {"metadata": patch}, MERGE_PATCH)
            raw["status"] = {
                **(raw.get("status") or {}),
                **_phase_and_conditions(placement, result),
                "nodeName": placement.node,
                "allocatable": allocatable(pod_info),
            }
            yield ApiCall("update", f"{path}/status", raw)
            return
        except Conflict:
            if attempt == TRIES - 1:
                raise


def _annotation_patch(
    stored: Mapping[str, Any], annotations: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the metadata to patch, None if it is stored already; an empty text removes a key."""
    known = stored.get("annotations") or {}
    changed = {key: text or None for key, text in annotations.items() if known.get(key, "") != text}
    if not changed:
        return None
    same = {key: stored[key] for key in ("uid", "resourceVersion")}
    return {**same, "annotations": changed}


def _phase_and_conditions(
    placement: Placement, result: PreAllocationResult | None
) -> dict[str, Any]:
    if result is None or not (result.pods or result.shortfall):
        return {"phase": AVAILABLE, "conditions": placed(placement.now)}
    keys = [pod.key for pod in result.pods]
    message = waiting_message(keys, more=result.shortfall > 0, several=False)
    # Their labels may change later; this records that they were pre-allocated.
    users = [{"namespace": p.namespace, "name": p.name, "uid": p.uid} for p in result.pods]
    users.sort(key=itemgetter("uid"))
    status = {"phase": WAITING, "conditions": waiting(placement.now, message)}
    return status | ({"currentOwners": users} if users else {})


def allocated_from(pod_info: PodInfo) -> str:
    """Return the annotation of a pod that allocates from this reservation."""
    return msgspec.json.encode({"name": pod_info.name, "uid": pod_info.uid}).decode()


def _annotate(pod: PodInfo, allocated: str | None) -> ApiCall:
    # An annotation of several reservations, which have ended, would take precedence.
    annotations = {names.ALLOCATED: allocated, names.DRAWS: None}
    meta = {"uid": pod.pod.metadata.uid, "annotations": annotations}
    path = PODS.path(pod.namespace, pod.name)
    return ApiCall("patch", path, {"metadata": meta}, MERGE_PATCH)


def _remove_annotation(pod: PodInfo) -> ApiCalls:
    try:
        yield _annotate(pod, None)
    except HoldfastError as failure:
        log.warning(
            "%s is still annotated with a reservation that was not bound: %s", pod.key, failure
        )


def _was_bound(placement: Placement) -> Generator[ApiCall, Any, bool]:
    """Tell whether the Reservation was bound: the response to a successful write may be lost."""
    try:
        raw = yield ApiCall("get", RESERVATIONS.path(name=placement.pod.name))
    except HoldfastError:
        return False
    same = raw["metadata"]["uid"] == placement.pod.uid
    return bool(same and (raw.get("status") or {}).get("nodeName") == placement.node)


def allocatable(pod_info: PodInfo) -> dict[str, AmountText]:
    """Return what the reservation will hold: the template's requests, updated by a resize.

    If it was edited after it was scheduled, it is resized later.
    """
    asked = {
        name: round_up_nanos(name, amount) for name, amount in request_nanos(pod_info.pod).items()
    }
    amounts = {name: _text(name, amount) for name, amount in asked.items() if amount}
    return {**amounts, **resized_amounts(pod_info.pod)}


def _check_alive(raw: Mapping[str, Any], pod_info: PodInfo) -> None:
    meta, status = raw["metadata"], raw.get("status") or {}
    if meta["uid"] != pod_info.uid:
        raise NotFound(f'reservations "{pod_info.name}" was replaced by another of the same name')
    if meta.get("deletionTimestamp"):
        raise Refused("target reservation is terminating")
    if status.get("phase") not in (None, "", "Pending"):
        raise Refused("reservation is not active")


def _text(name: str, amount: int) -> str:
    if name != "cpu":
        return _binary(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def _binary(amount: int) -> str:
    """Format an amount in the largest binary unit that is exact.

    >>> _binary(800 * 2**20), _binary(1500)
    ('800Mi', '1500')
    """
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        size = 1024 ** ("KMGT".index(suffix[0]) + 1)
        if amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return str(amount)
