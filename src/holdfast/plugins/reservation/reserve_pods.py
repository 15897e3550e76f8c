"""A reserve pod looks for its node, and is bound by writing the Reservation's status.

Here is where it is pinned to, and beside whom it may stand.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from holdfast.api import reservation_names as names
from holdfast.api.quantity import AmountText
from holdfast.api.requests import request_nanos, round_up_nanos
from holdfast.api.reservation import AVAILABLE, WAITING
from holdfast.api.reservation_status import placed, waiting
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.capacity.annotations import resized
from holdfast.capacity.offers import Offers
from holdfast.capacity.pre_allocation import Inheritance
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.errors import Conflict, HoldfastError, NotFound, Refused
from holdfast.framework.plugin import (
    AnyRows,
    ApiCall,
    ApiCalls,
    Code,
    Placement,
    Reject,
    Rows,
    Verdicts,
)
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View

NO_CLUSTER_MODE = "reservation requires cluster mode pre-allocation which is disabled"
NOT_THE_NODE = "node(s) didn't match the nodeName specified by reservation"
POLICY_CONFLICT = "node(s) reservation allocate policy conflict"
log = logging.getLogger(__name__)
TRIES = 5


@dataclass(frozen=True, slots=True)
class ReserveState:
    """The node it is pinned to, and the policy it brings."""

    nodes: NodeTable
    offers: Offers
    pinned: str
    policy: str

    def verdict(self, row: int) -> str:
        """Why the row will not do, or ""."""
        if self.pinned and self.nodes.names[row] != self.pinned:
            return NOT_THE_NODE
        return POLICY_CONFLICT if row in self.conflicting() else ""

    def conflicting(self) -> Rows:
        """Rows where exactly one of the new and an existing reservation has the Default policy."""
        return self.offers.rows_with_other_policy(default=self.policy == "")


@dataclass(frozen=True, slots=True)
class Unrelated:
    """A pod that says it draws on a reservation and owns none: it goes where any other may."""

    nodes: NodeTable


def what_it_brings(pod: PodInfo, view: View) -> Hashable:
    """Everything of the reservation that decides where it may be."""
    found = view.world.offers.pending.get(pod.uid)
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    if found is None:
        return (pinned, pod.uid)
    spec = found.spec
    if spec.pre_allocation:
        # One that inherits is like no other, and looks at pods everywhere.
        return (pinned, pod.uid, found.metadata.resource_version, view.nodes.pods_version)
    return (pinned, spec.allocate_policy, spec.template is None)


def inherits(pod: PodInfo, view: View) -> bool:
    """Whether it is a reserve pod that may take room others still have."""
    found = view.world.offers.pending.get(pod.uid) if pod.is_reserve_pod else None
    return found is not None and found.spec.pre_allocation


def prepare_reserve_pod(pod: PodInfo, view: View) -> ReserveState | Reject:
    """Read the reservation behind a reserve pod."""
    reservation = view.world.offers.pending.get(pod.uid)
    if reservation is None:
        missing = f'reservation.scheduling.koordinator.sh "{pod.name}" not found'
        return Reject(Code.ERROR, (f"cannot get reservation, err: {missing}",))
    if reservation.spec.template is None:
        return Reject(Code.ERROR, ("the reservation misses the template spec",))
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    return ReserveState(view.nodes, view.world.offers, pinned, reservation.spec.allocate_policy)


def remedy(pod: PodInfo, view: View, rejection: Rejection) -> str:
    """What whoever wrote the reservation can do about it where the reasons do not tell, or ""."""
    if rejection.pre_filter_reject is not None and rejection.pre_filter_reject[1].reasons == (
        NO_CLUSTER_MODE,
    ):
        switch = "preAllocationConfig.enableClusterMode in ReservationArgs"
        return f"spec.preAllocationPolicy.mode: Cluster needs {switch}"
    pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
    if not pinned or pinned in view.nodes.row_of:
        return ""
    return f'spec.template.spec.nodeName: there is no node "{pinned}"'


def filter_reserve_pod(state: ReserveState, rows: AnyRows) -> Verdicts:
    """Unresolvable but on the node it is pinned to, and where policies do not go together."""
    verdicts = np.zeros(state.nodes.capacity, np.int8)
    if state.pinned:
        verdicts[:] = Code.UNRESOLVABLE
        row = state.nodes.row_of.get(state.pinned)
        if row is not None:
            verdicts[row] = Code.PASS
    verdicts[state.conflicting()] = Code.UNRESOLVABLE
    found: Verdicts = verdicts[rows]
    return found


def bind_reservation(placement: Placement, heir: Inheritance | None = None) -> ApiCalls:
    """Yield the writes that put a pending Reservation on its node.

    Pods it inherits from are told first: whoever reads the Reservation's status finds them told.
    If it does not get there, they are told so.
    """
    told: list[PodInfo] = []
    try:
        for pod in heir.pods if heir is not None else ():
            told.append(pod)
            yield _tell(pod, allocated_from(placement.pod))
        yield from _write_status(placement, heir)
    except HoldfastError:
        if told and not (yield from _is_there(placement)):
            for pod in told:
                yield from _take_back(pod)
        raise


def _write_status(placement: Placement, heir: Inheritance | None) -> ApiCalls:
    """Write where the room is held, and whether it is free already.

    The status is written against the version just read, so that a reservation that expired, was
    deleted or was bound meanwhile is never brought back to life.
    """
    pod_info = placement.pod
    path = RESERVATIONS.path(name=pod_info.name)
    for attempt in range(TRIES):
        raw = yield ApiCall("get", path)
        _check_alive(raw, pod_info)
        raw["status"] = {
            **(raw.get("status") or {}),
            **_where(placement, heir),
            "nodeName": placement.node,
            "allocatable": allocatable(pod_info),
        }
        try:
            yield ApiCall("update", f"{path}/status", raw)
            return
        except Conflict:
            if attempt == TRIES - 1:
                raise


def _where(placement: Placement, heir: Inheritance | None) -> dict[str, Any]:
    if heir is None or not (heir.pods or heir.lacking):
        return {"phase": AVAILABLE, "conditions": placed(placement.now)}
    message = "waiting for room to come free"
    if heir.pods:
        keys = ", ".join(sorted(pod.key for pod in heir.pods))
        message = f"waiting for {keys} to leave the room"
    return {"phase": WAITING, "conditions": waiting(placement.now, message)}


def allocated_from(pod_info: PodInfo) -> str:
    """What a pod carries that takes its room from this reservation."""
    return msgspec.json.encode({"name": pod_info.name, "uid": pod_info.uid}).decode()


def _tell(pod: PodInfo, allocated: str | None) -> ApiCall:
    # What it drew on several others, ended since, would be read instead of this.
    said = {names.ALLOCATED: allocated, names.DRAWS: None}
    meta = {"uid": pod.pod.metadata.uid, "annotations": said}
    path = PODS.path(pod.namespace, pod.name)
    return ApiCall("patch", path, {"metadata": meta}, "application/merge-patch+json")


def _take_back(pod: PodInfo) -> ApiCalls:
    try:
        yield _tell(pod, None)
    except HoldfastError as failure:
        log.warning("%s still says it leaves its room to a reservation: %s", pod.key, failure)


def _is_there(placement: Placement) -> Generator[ApiCall, Any, bool]:
    """Ask whether the Reservation is on the node after all: the answer to a write may get lost."""
    try:
        raw = yield ApiCall("get", RESERVATIONS.path(name=placement.pod.name))
    except HoldfastError:
        return False
    same = raw["metadata"]["uid"] == placement.pod.uid
    return bool(same and (raw.get("status") or {}).get("nodeName") == placement.node)


def allocatable(pod_info: PodInfo) -> dict[str, AmountText]:
    """What the reservation will offer: its template's requests, overlaid by a resize.

    As it was when room was found for it; if it was edited since, it is resized afterwards.
    """
    asked = {
        name: round_up_nanos(name, amount) for name, amount in request_nanos(pod_info.pod).items()
    }
    amounts = {name: _text(name, amount) for name, amount in asked.items() if amount}
    return {**amounts, **resized(pod_info.pod)}


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
    """Write an amount as the largest binary unit that is exact.

    >>> _binary(800 * 2**20), _binary(1500)
    ('800Mi', '1500')
    """
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        size = 1024 ** ("KMGT".index(suffix[0]) + 1)
        if amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return str(amount)
