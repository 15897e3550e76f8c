"""Whether pods may be evicted for a reservation, or for an owner of reservations.

A reservation preempts only where that is enabled. An owner does not preempt while one of its
reservations waits for terminating pods, because it will fit there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.api import reservation_names as names
from holdfast.runtime.errors import BadRequest
from holdfast.scheduling.framework.plugin import Code, PodChange, PreemptionRules
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.request_fit import short_of
from holdfast.state.reservations.matching import (
    ReservationRequirements,
    ignores_reservations,
    refusal,
)
from holdfast.state.reservations.reservation_cache import ReservationCache
from holdfast.state.reservations.reservation_info import ReservationInfo
from holdfast.state.reservations.reserved_resources import freed_capacity

OWN_BECOMES_AVAILABLE = (
    "preemption: not eligible due to a reservation for this pod about to become available."
)


class OwnerEvictionRules(PreemptionRules):
    """Forbid preemption for an owner that need only wait."""

    __slots__ = ()

    def preemption_refusal(self, rejection: Rejection) -> str | None:
        """Forbid it while one of the pod's reservations becomes available."""
        pod, view = rejection.pod, rejection.view
        opens = any(
            rejection.codes[view.nodes.row_of[info.node]] == Code.UNSCHEDULABLE
            and will_be_available_for(info, pod, view.world.reservations, rejection)
            for info in _waiting(pod, view.world.reservations)
        )
        return OWN_BECOMES_AVAILABLE if opens else None


def is_protected(pod: PodInfo) -> bool:
    """Tell whether a pod has the label that protects it from preemption by reservations."""
    return pod.labels.get(names.DISABLE_PREEMPTIBLE) == "true"


def will_be_available_for(
    info: ReservationInfo, pod: PodInfo, reservations: ReservationCache, rejection: Rejection
) -> bool:
    """Tell whether a reservation fits the pod once the terminating pods are gone."""
    nodes = rejection.view.nodes
    row = nodes.row_of[info.node]
    leaving = [other for other in nodes.pods_on(row).values() if other.terminating]
    if info.allocated_by_pod.keys() - {other.uid for other in leaving}:
        return False
    freed = Counter(
        freed_capacity(reservations, PodChange(removed={row: leaving})).rows.get(row, {})
    )
    for later in reservations.on_row(row):
        if later.is_waiting and (later.created, later.uid) > (info.created, info.uid):
            freed.update({**later.held_amounts, PODS: later.held_pod_slots})
    request = dict(pod.request)
    held = dict.fromkeys((PODS, *info.reserved), 0)
    free = {r: nodes.amounts.free_on(row, r) + freed[r] for r in held | request}
    if short_of(held, free):
        return False
    inside = {r: amount - info.inner.get(r, 0) for r, amount in info.reserved.items()}
    beside = {r: max(0, amount) for r, amount in free.items() if r not in info.restricted}
    return not short_of(request, inside, beside)


def _waiting(pod: PodInfo, reservations: ReservationCache) -> Iterator[ReservationInfo]:
    """Yield the pod's reservations in phase Waiting."""
    groups = [] if ignores_reservations(pod) else reservations.index.owned_by(pod.pod)
    if not groups:
        return
    try:
        wishes = ReservationRequirements.of(pod)
    except BadRequest:
        return
    columns = reservations.columns
    for group in groups:
        for slot in group.slots[~columns.matchable[group.slots] & (columns.row[group.slots] >= 0)]:
            info = reservations.at(int(slot))
            if info.is_waiting and refusal(reservations, int(slot), pod, wishes) is None:
                yield info
