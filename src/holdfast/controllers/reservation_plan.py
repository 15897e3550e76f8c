"""What a Reservation's status must become, and which ended ones to delete; all of it pure.

::

    Pending ──► Available ──► Succeeded   allocate-once, and an owner drew on it
       │  │         ▲  │
       │  └► Waiting┘  │                  Waiting: on its node, until the room there is free
       └────────┴──────┴────► Failed      its time is over, or its node is gone

The scheduler leads it out of Pending; everything else is planned here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from holdfast.api import reservation_status as words
from holdfast.api.pod import Pod
from holdfast.api.quantity import NANO, Quantity
from holdfast.api.requests import nanos
from holdfast.api.reservation import AVAILABLE, FAILED, FINAL, SUCCEEDED, WAITING, Reservation
from holdfast.api.scheme import RESERVATIONS
from holdfast.api.timestamps import parse_rfc3339
from holdfast.controllers.planned_writes import Delete, Patch, Plan, PlannedEvent
from holdfast.controllers.reservation_usage import Ground, ResourceNanos
from holdfast.errors import BadRequest

Status = dict[str, Any]
INTRUDED = "pods were put there past the scheduler, or the node has shrunk"
LONGEST_WAIT = 600.0
"""Look again at least this often: a sleeping machine counts no seconds."""


def plan_reservation(reservation: Reservation, ground: Ground | None, now: float) -> Plan:
    """Plan one Reservation's status; ``ground`` is None while it is on no node."""
    if reservation.phase == SUCCEEDED and ground is not None and ground.node is not None:
        return _plan_succeeded(reservation, ground)
    if reservation.phase in FINAL:
        return Plan()
    over = _why_over(reservation, ground, now)
    if over is not None:
        status = _ended(FAILED, words.EXPIRED, reservation, now)
        return Plan((_write(reservation, status),), events=(over,))
    requeue_after = _next_look(reservation, now)
    if ground is None or ground.node is None:
        return Plan(requeue_after=requeue_after)
    status, events = _synced(reservation, ground, now)
    return Plan((_write(reservation, status),) if status else (), requeue_after, events)


def _plan_succeeded(reservation: Reservation, ground: Ground) -> Plan:
    """Keep ``currentOwners`` current; phase, conditions and ``allocated`` are final."""
    owners = ground.users(reservation)
    if [o.uid for o in reservation.status.current_owners] == [p.uid for p in owners]:
        return Plan()
    return Plan((_write(reservation, {"currentOwners": _listed(owners)}),))


def plan_collection(
    reservations: Iterable[Reservation], nodes: Collection[str], now: float, keep: float
) -> tuple[Delete, ...]:
    """Choose the ended Reservations to delete: ended ``keep`` seconds ago, or their node gone."""
    return tuple(
        Delete(RESERVATIONS, r.name, uid=r.uid)
        for r in reservations
        if (ended := _ended_at(r)) is not None
        and (now - ended > keep or (r.status.node_name and r.status.node_name not in nodes))
    )


def _why_over(reservation: Reservation, ground: Ground | None, now: float) -> PlannedEvent | None:
    """Say why it ends now, or None while it lives; its last second still counts."""
    if ground is not None and ground.node is None:
        gone = f"node {reservation.status.node_name} is gone, and the reserved room with it"
        return PlannedEvent("Warning", words.EXPIRED, gone)
    end = reservation.ends_at
    if end is None or now <= end:
        return None
    spec = reservation.spec
    limit = f"expires {spec.expires} has passed" if spec.expires else f"ttl {spec.ttl} is over"
    found = "" if reservation.status.node_name else " before a node was found"
    return PlannedEvent("Normal", words.EXPIRED, f"{limit}{found}")


def _next_look(reservation: Reservation, now: float) -> float | None:
    """Look again just after its end, which is strict."""
    end = reservation.ends_at
    return None if end is None else min(end - now + 1.0, LONGEST_WAIT)


def _ended_at(reservation: Reservation) -> float | None:
    """Say when it expired or succeeded; failures of other kinds are kept for their owner."""
    ready = reservation.condition(words.READY)
    if ready is None or ready.status != "False":
        return None
    when = None
    if reservation.expired:
        when = ready.last_transition_time
    elif reservation.phase == SUCCEEDED and ready.reason == words.SUCCEEDED:
        when = ready.last_probe_time or ready.last_transition_time
    try:
        return parse_rfc3339(when) if when else None
    except BadRequest:
        return None


def _synced(
    reservation: Reservation, ground: Ground, now: float
) -> tuple[Status, tuple[PlannedEvent, ...]]:
    """Write what changed of the status, nothing when nothing did, and what there is to tell."""
    owners = ground.users(reservation)
    news = _usage(reservation, owners, ground.drawn(reservation))
    if reservation.phase == WAITING:
        ready, events = _arrived(reservation, owners, ground, now)
        return news | ready, events
    if reservation.phase != AVAILABLE:
        return {}, ()
    if owners and reservation.spec.allocate_once:
        taken = f"allocated to {', '.join(p.key for p in owners)}"
        status = news | _ended(SUCCEEDED, words.SUCCEEDED, reservation, now)
        return status, (PlannedEvent("Normal", words.SUCCEEDED, taken),)
    kept, events = _kept(reservation, ground, now)
    return news | kept, events


def _usage(reservation: Reservation, owners: list[Pod], used: ResourceNanos) -> Status:
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


def _arrived(
    reservation: Reservation, owners: list[Pod], ground: Ground, now: float
) -> tuple[Status, tuple[PlannedEvent, ...]]:
    """Open a waiting reservation once those it was to inherit from have left it the room."""
    if owners or ground.short_of(reservation):
        return {}, ()
    status = {"phase": AVAILABLE} | _ready(reservation, "True", words.AVAILABLE, now)
    return status, (PlannedEvent("Normal", words.AVAILABLE, "the room it waited for is free"),)


def _kept(
    reservation: Reservation, ground: Ground, now: float
) -> tuple[Status, tuple[PlannedEvent, ...]]:
    """Say so when somebody else stands in the room, and take it back when they have left."""
    ready = reservation.condition(words.READY)
    short = ground.short_of(reservation)
    broken = ready is not None and ready.reason == words.OVERCOMMITTED
    if short:
        node = reservation.status.node_name
        message = f"node {node} has no room left for the reserved {', '.join(short)}: {INTRUDED}"
        if ready is not None and broken and ready.message == message:
            return {}, ()
        status = _ready(reservation, "False", words.OVERCOMMITTED, now, message)
        return status, (PlannedEvent("Warning", words.OVERCOMMITTED, message),)
    if not broken:
        return {}, ()
    whole = PlannedEvent("Normal", words.AVAILABLE, "the reserved room is whole again")
    return _ready(reservation, "True", words.AVAILABLE, now), (whole,)


def _ended(phase: str, reason: str, reservation: Reservation, now: float) -> Status:
    return {"phase": phase} | _ready(reservation, "False", reason, now)


def _ready(
    reservation: Reservation, status: str, reason: str, now: float, message: str = ""
) -> Status:
    conditions = reservation.status.conditions
    return {"conditions": words.with_ready(conditions, status, reason, now, message)}


def _write(reservation: Reservation, status: Status) -> Patch:
    guard = {"uid": reservation.uid, "resourceVersion": reservation.metadata.resource_version}
    return Patch(
        RESERVATIONS, reservation.name, {"metadata": guard, "status": status}, subresource="status"
    )
