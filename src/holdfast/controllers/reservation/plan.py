"""Plan the status of Reservations, and which ended ones to delete.

::

    Pending ──► Available ──► Succeeded   allocate-once, and an owner uses it
       │  │         ▲  │
       │  └► Waiting┘  │                  Waiting: on its node, until its resources are free
       └────────┴──────┴────► Failed      its time is over, or its node is gone

The scheduler writes the first transition; all others are planned here. ``plan_preemptor`` decides
when the reservation of a preempting pod is deleted. Kubernetes cannot do that by an owner
reference, because a cluster-scoped object may not depend on a namespaced one.

Every write has the resource version that was read: scheduler and controller write the same status,
and users edit the spec in between. A status is written only if it differs, so a plan for an
unchanged reservation is empty and the controller stops writing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.api import reservation_status
from holdfast.api.decode import JsonObject
from holdfast.api.meta import version_guard
from holdfast.api.pod import Pod
from holdfast.api.quantity import NANO, Quantity
from holdfast.api.requests import nanos
from holdfast.api.reservation import AVAILABLE, FAILED, FINAL, SUCCEEDED, WAITING, Reservation
from holdfast.api.reservation_names import PREEMPTOR
from holdfast.api.scheme import RESERVATIONS
from holdfast.api.timestamps import seconds_of
from holdfast.controllers.planned_writes import Delete, Patch, Plan, PlannedEvent
from holdfast.controllers.reservation.usage import NodeUsage, ResourceNanos

CAUSES = (
    "pods were bound there without this scheduler or ignore reservations, or the node was made "
    "smaller"
)
MAX_INTERVAL = 600.0
"""Reconcile at least this often: a suspended machine does not count the seconds."""
UNTIL_NOMINATED = 30.0
"""Seconds that the scheduler has to nominate a preempting pod after it made its reservation."""


def plan_reservation(reservation: Reservation, usage: NodeUsage | None, now: float) -> Plan:
    """Plan one Reservation's status; ``usage`` is None while it has no node."""
    if reservation.phase in FINAL:
        return _plan_ended(reservation, usage)
    over = _end_event(reservation, usage, now)
    if over is not None:
        return _plan_end(reservation, usage, over, now)
    requeue_after = _seconds_until_end(reservation, now)
    if usage is None or usage.node is None:
        return Plan(requeue_after=requeue_after)
    status, events = _synced(reservation, usage, now)
    return Plan((_write(reservation, status),) if status else (), requeue_after, events)


def _plan_end(
    reservation: Reservation, usage: NodeUsage | None, over: PlannedEvent, now: float
) -> Plan:
    """Plan the end of a reservation's time; it succeeds if an owner was bound before."""
    used: JsonObject = {}
    if usage is not None and usage.node is not None:
        synced, events = _synced(reservation, usage, now)
        if synced.get("phase") == SUCCEEDED:
            return Plan((_write(reservation, synced),), events=events)
        used = _usage(reservation, usage.users(reservation), usage.allocated(reservation))
    status = used | _ended(FAILED, reservation_status.EXPIRED, reservation, now)
    return Plan((_write(reservation, status),), events=(over,))


def _plan_ended(reservation: Reservation, usage: NodeUsage | None) -> Plan:
    """Update owners and amounts; phase and conditions are final.

    Owners and amounts of an expired reservation stay as they were at its end, except that a pod
    that was being bound then is added. Without this an owner that was bound in the last second of
    the ttl was never listed, and a Succeeded reservation kept the amounts of an owner that was
    gone.
    """
    if usage is None or usage.node is None:
        return Plan()
    owners = usage.users(reservation)
    known = {owner.uid for owner in reservation.status.current_owners}
    if reservation.phase != SUCCEEDED and all(pod.uid in known for pod in owners):
        return Plan()
    status = _usage(reservation, owners, usage.allocated(reservation))
    return Plan((_write(reservation, status),) if status else ())


def plan_collection(
    reservations: Iterable[Reservation], nodes: Collection[str], now: float, keep: float
) -> tuple[Delete, ...]:
    """Plan to delete Reservations that ended ``keep`` seconds ago, or whose node is gone."""
    return tuple(
        Delete(RESERVATIONS, r.name, uid=r.uid)
        for r in reservations
        if (ended := _ended_at(r)) is not None
        and (now - ended > keep or (r.status.node_name and r.status.node_name not in nodes))
    )


def _end_event(
    reservation: Reservation, usage: NodeUsage | None, now: float
) -> PlannedEvent | None:
    """Return an event with the reason why it ends now, or None; its last second still counts."""
    if usage is not None and usage.node is None:
        gone = f"node {reservation.status.node_name} was deleted"
        return PlannedEvent("Warning", reservation_status.EXPIRED, gone)
    end = reservation.ends_at
    if end is None or now <= end:
        return None
    spec = reservation.spec
    limit = f"expires {spec.expires} has passed" if spec.expires else f"ttl {spec.ttl} is over"
    suffix = "" if reservation.status.node_name else " before a node was found"
    return PlannedEvent("Normal", reservation_status.EXPIRED, f"{limit}{suffix}")


def _seconds_until_end(reservation: Reservation, now: float) -> float | None:
    """Return the seconds until just after the end of the reservation."""
    end = reservation.ends_at
    return None if end is None else min(end - now + 1.0, MAX_INTERVAL)


def _ended_at(reservation: Reservation) -> float | None:
    """Return when it expired or succeeded; None for other failures, which users may still read."""
    ready = reservation.condition(reservation_status.READY)
    if ready is None or ready.status != "False":
        return None
    when = None
    if reservation.expired:
        when = ready.last_transition_time
    elif reservation.phase == SUCCEEDED and ready.reason == reservation_status.SUCCEEDED:
        when = ready.last_probe_time or ready.last_transition_time
    return seconds_of(when)


def _synced(
    reservation: Reservation, usage: NodeUsage, now: float
) -> tuple[JsonObject, tuple[PlannedEvent, ...]]:
    """Return the changed fields of the status, and events."""
    owners = usage.users(reservation)
    usage_status = _usage(reservation, owners, usage.allocated(reservation))
    if reservation.phase == WAITING:
        ready, events = _made_available(reservation, owners, usage, now)
        return usage_status | ready, events
    if reservation.phase != AVAILABLE:
        return {}, ()
    if owners and reservation.spec.allocate_once:
        taken = f"allocated to {', '.join(p.key for p in owners)}"
        status = usage_status | _ended(SUCCEEDED, reservation_status.SUCCEEDED, reservation, now)
        return status, (PlannedEvent("Normal", reservation_status.SUCCEEDED, taken),)
    ready, events = _checked_for_overcommitment(reservation, usage, now)
    return usage_status | ready, events


def _usage(reservation: Reservation, owners: list[Pod], used: ResourceNanos) -> JsonObject:
    status = reservation.status
    known = {n: nanos(amount) for n, amount in status.allocated.items()}
    same_amounts = {n: a for n, a in known.items() if a} == dict(used)
    if same_amounts and [o.uid for o in status.current_owners] == [p.uid for p in owners]:
        return {}
    written = {n: _written(reservation, n, a) for n, a in used.items()}
    gone = dict.fromkeys(status.allocated.keys() - written.keys())
    return {
        "currentOwners": _listed(owners),
        "allocated": {**written, **gone},
    }


def _listed(owners: list[Pod]) -> list[dict[str, str]]:
    return [{"namespace": p.namespace, "name": p.name, "uid": p.uid} for p in owners]


def _written(reservation: Reservation, name: str, amount: int) -> str:
    family = Quantity.parse(reservation.status.allocatable[name]).format
    return str(Quantity(amount, NANO, family))


def _made_available(
    reservation: Reservation, owners: list[Pod], usage: NodeUsage, now: float
) -> tuple[JsonObject, tuple[PlannedEvent, ...]]:
    """Make a waiting reservation Available once its resources are free, or record what it lacks."""
    short = usage.short_of(reservation)
    if owners or short:
        return _still_waiting(reservation, owners, more=bool(short), now=now), ()
    status = {"phase": AVAILABLE} | _ready(reservation, "True", reservation_status.AVAILABLE, now)
    return status, (
        PlannedEvent(
            "Normal", reservation_status.AVAILABLE, "the resources it waited for are free"
        ),
    )


def _still_waiting(
    reservation: Reservation, owners: list[Pod], *, more: bool, now: float
) -> JsonObject:
    """Return the condition if it names other pods than those that the reservation waits for."""
    ready = reservation.condition(reservation_status.READY)
    if ready is None or PREEMPTOR in reservation.metadata.labels:
        return {}
    policy = reservation.spec.pre_allocation_policy
    several = policy is not None and policy.enable_multiple
    message = reservation_status.waiting_message(
        [pod.key for pod in owners], more=more, several=several
    )
    if ready.message == message:
        return {}
    return _ready(reservation, "False", reservation_status.WAITING, now, message)


def _checked_for_overcommitment(
    reservation: Reservation, usage: NodeUsage, now: float
) -> tuple[JsonObject, tuple[PlannedEvent, ...]]:
    """Set or clear the Overcommitted condition."""
    ready = reservation.condition(reservation_status.READY)
    if ready is not None and ready.reason in reservation_status.STRONGER:
        return {}, ()
    short = usage.short_of(reservation)
    broken = ready is not None and ready.reason == reservation_status.OVERCOMMITTED
    if short:
        node = reservation.status.node_name
        message = f"node {node} lacks reserved {', '.join(short)}: {CAUSES}"
        if ready is not None and broken and ready.message == message:
            return {}, ()
        status = _ready(reservation, "False", reservation_status.OVERCOMMITTED, now, message)
        return status, (PlannedEvent("Warning", reservation_status.OVERCOMMITTED, message),)
    if not broken:
        return {}, ()
    whole = PlannedEvent(
        "Normal", reservation_status.AVAILABLE, "the node has all reserved resources again"
    )
    return _ready(reservation, "True", reservation_status.AVAILABLE, now), (whole,)


def _ended(phase: str, reason: str, reservation: Reservation, now: float) -> JsonObject:
    return {"phase": phase} | _ready(reservation, "False", reason, now)


def _ready(
    reservation: Reservation, status: str, reason: str, now: float, message: str = ""
) -> JsonObject:
    conditions = reservation.status.conditions
    return {"conditions": reservation_status.with_ready(conditions, status, reason, now, message)}


def _write(reservation: Reservation, status: JsonObject) -> Patch:
    guard = version_guard(reservation)
    return Patch(
        RESERVATIONS, reservation.name, {"metadata": guard, "status": status}, subresource="status"
    )


def preemptor_uid(reservation: Reservation) -> str:
    """Return the uid of the pod for which the scheduler made a reservation; "" for others."""
    return reservation.metadata.labels.get(PREEMPTOR, "")


def preemptor_key(reservation: Reservation) -> tuple[str, str]:
    """Return namespace and name of the pod for which the scheduler made a reservation."""
    objects = [owner.object for owner in reservation.spec.owners if owner.object is not None]
    return (objects[0].namespace, objects[0].name) if objects else ("", "")


def plan_preemptor(
    reservation: Reservation, pod: Pod | None, others: Iterable[Reservation], now: float
) -> Plan:
    """Plan to delete the reservation unless its pod is nominated to the node and waits there.

    ``pod`` is the pod with that name, None if there is none; ``others`` are the reservations of the
    same pod. The scheduler nominates the pod after it has made the reservation, so a new
    reservation is kept for a while, unless the pod is nominated to the node of a newer one.
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
