"""Write the current owner on a pod that acts as a reservation, before the owner is bound.

From then on it accepts no other pod: another scheduler, or this one after a crash, reads that. If
the owner is not bound after all, the annotation is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.koordinator_names import RESERVATION_CURRENT_OWNER
from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.scheme import PODS
from holdfast.runtime.errors import Conflict, NotFound, Refused
from holdfast.scheduling.framework.plugin import MERGE_PATCH, ApiCall, ApiCalls
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.operating_pods import current_owner
from holdfast.state.reservations.reservation_info import ReservationInfo

TRIES = 5


def write_current_owner(acting: ReservationInfo, owner: PodInfo) -> ApiCalls:
    """Yield the calls that write the owner on the pod that acts as its reservation."""
    reference = {"namespace": owner.namespace, "name": owner.name, "uid": owner.pod.uid}
    text = msgspec.json.encode(reference).decode()
    for attempt in range(TRIES):
        pod = yield _get(acting)
        _check(pod, acting, owner)
        try:
            yield _annotate(pod, text)
            return
        except Conflict:
            if attempt == TRIES - 1:
                raise


def clear_current_owner(acting: ReservationInfo, owner: PodInfo) -> ApiCalls:
    """Yield the calls that remove the owner again, unless the pod names another."""
    for attempt in range(TRIES):
        pod = yield _get(acting)
        if pod.uid != acting.uid or not _is(current_owner(pod), owner):
            return
        try:
            yield _annotate(pod, None)
            return
        except Conflict:
            if attempt == TRIES - 1:
                raise


def _get(acting: ReservationInfo) -> ApiCall:
    meta = acting.reservation.metadata
    return ApiCall("get", PODS.path(meta.namespace, meta.name), returns=Pod)


def _annotate(acting: Pod, text: str | None) -> ApiCall:
    """Return the patch; it fails with a conflict if the pod was changed since it was read."""
    meta: Mapping[str, Any] = {
        "uid": acting.uid,
        "resourceVersion": acting.metadata.resource_version,
        "annotations": {RESERVATION_CURRENT_OWNER: text},
    }
    return ApiCall(
        "patch", PODS.path(acting.namespace, acting.name), {"metadata": meta}, MERGE_PATCH
    )


def _check(pod: Pod, acting: ReservationInfo, owner: PodInfo) -> None:
    if pod.uid != acting.uid:
        raise NotFound(f'pods "{pod.key}" was replaced by another of the same name')
    if pod.terminating or pod.finished:
        raise Refused(f"pod {pod.key}, which acts as a reservation, is terminating")
    taken = current_owner(pod)
    if taken is not None and not _is(taken, owner):
        raise Refused(f"pod {pod.key} acts as a reservation for {taken.namespace}/{taken.name}")


def _is(reference: ObjectReference | None, pod: PodInfo) -> bool:
    return reference is not None and (reference.uid or pod.pod.uid) == pod.pod.uid
