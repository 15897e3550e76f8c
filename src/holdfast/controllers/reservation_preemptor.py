"""Plan when to delete the reservation that the scheduler made for a preempting pod."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_names import PREEMPTOR
from holdfast.api.scheme import RESERVATIONS
from holdfast.api.timestamps import seconds_of
from holdfast.controllers.planned_writes import Delete, Plan

UNTIL_NOMINATED = 30.0
"""Seconds that the scheduler has to nominate the pod after it made the reservation."""


def preemptor_uid(reservation: Reservation) -> str:
    """Return the uid of the pod for which the scheduler made a reservation; "" for others."""
    return reservation.metadata.labels.get(PREEMPTOR, "")


def preemptor_key(reservation: Reservation) -> tuple[str, str]:
    """Return namespace and name of that pod."""
    objects = [owner.object for owner in reservation.spec.owners if owner.object is not None]
    return (objects[0].namespace, objects[0].name) if objects else ("", "")


def plan_preemptor(
    reservation: Reservation, pod: Pod | None, others: Iterable[Reservation], now: float
) -> Plan:
    """Plan to delete the reservation unless its pod is nominated to the node and waits there.

    ``pod`` is the pod of that name, None if there is none; ``others`` are the reservations of the
    same pod. The scheduler nominates the pod after it has made the reservation, so a new one is
    kept a while, unless the pod is nominated to the node of a newer one.
    """
    delete = Plan((Delete(RESERVATIONS, reservation.name, uid=reservation.uid),))
    if pod is None or pod.uid != preemptor_uid(reservation):
        return delete
    if pod.finished or pod.terminating or pod.spec.node_name:
        return delete
    nominated = pod.status.nominated_node_name
    if nominated == _node(reservation):
        return Plan()
    made = _created(reservation)
    if any(nominated == _node(other) and _created(other) > made for other in others):
        return delete
    left = made + UNTIL_NOMINATED - now
    return Plan(requeue_after=left) if left > 0 else delete


def _created(reservation: Reservation) -> float:
    return seconds_of(reservation.metadata.creation_timestamp) or 0.0


def _node(reservation: Reservation) -> str:
    template = reservation.spec.template
    return "" if template is None else template.spec.node_name
