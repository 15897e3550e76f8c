"""Keep a Reservation's status true: who uses it, whether it still holds, when it ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.durations import parse_seconds
from holdfast.api.meta import ObjectReference
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.quantity import NANO, Quantity
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import Reservation
from holdfast.api.scheme import RESERVATIONS
from holdfast.capacity import names
from holdfast.capacity.annotations import allocated_of, draws_of
from holdfast.clock import parse_rfc3339, rfc3339
from holdfast.controllers import conditions
from holdfast.controllers.writes import Delete, Patch, Plan
from holdfast.errors import BadRequest

FINAL = ("Succeeded", "Failed")
HOLDING = ("Available", "Waiting")
DEFAULT_TTL = 86400.0
KEEP_ENDED = 86400.0
OVERCOMMITTED = "Overcommitted"

Nanos = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ground:
    """The node a Reservation is on: the pods there and the other Reservations that hold room.

    ``node`` is None when the node is known to be gone.
    """

    node: Node | None
    pods: tuple[Pod, ...] = ()
    neighbours: tuple[Reservation, ...] = ()


def plan_reservation(reservation: Reservation, ground: Ground | None, now: float) -> Plan:
    """Plan one Reservation's status; ``ground`` is None while it is on no node."""
    if reservation.phase in FINAL or reservation.metadata.deletion_timestamp is not None:
        return Plan()
    left = until_expiry(reservation, now)
    if left is not None and left < 0 or (ground is not None and ground.node is None):
        return Plan((_status(reservation, _ended("Failed", "Expired", reservation, now)),))
    # Expiry is strict: look again just after it.
    again_after = None if left is None else left + 1.0
    if ground is None or ground.node is None:
        return Plan(again_after=again_after)
    status = _synced(reservation, ground, now)
    return Plan((_status(reservation, status),) if status else (), again_after)


def until_expiry(reservation: Reservation, now: float) -> float | None:
    """Count the seconds it may still live (negative: it is over), or None for ever.

    ``expires`` counts alone where it is given; else ``ttl``, of which 0 means for ever.
    """
    if reservation.spec.expires:
        return parse_rfc3339(reservation.spec.expires) - now
    try:
        ttl = parse_seconds(reservation.spec.ttl) if reservation.spec.ttl else DEFAULT_TTL
    except BadRequest:
        ttl = DEFAULT_TTL
    if ttl == 0 or reservation.metadata.creation_timestamp is None:
        return None
    return parse_rfc3339(reservation.metadata.creation_timestamp) + ttl - now


def plan_collection(
    reservations: Iterable[Reservation], nodes: Collection[str], now: float,
    keep: float = KEEP_ENDED,
) -> tuple[Delete, ...]:  # fmt: skip
    """Choose the ended Reservations to delete: long ended, or ended and their node is gone."""
    return tuple(
        Delete(RESERVATIONS, r.name, uid=r.uid)
        for r in reservations
        if (ended := _ended_at(r)) is not None
        and (now - ended > keep or (r.status.node_name and r.status.node_name not in nodes))
    )


def _ended_at(reservation: Reservation) -> float | None:
    """Say when it expired or succeeded; failures of other kinds are kept for their owner."""
    ready = conditions.find(reservation.status.conditions, "Ready")
    if ready is None or ready.status != "False":
        return None
    if reservation.phase == "Failed" and ready.reason == "Expired":
        return parse_rfc3339(ready.last_transition_time) if ready.last_transition_time else None
    if reservation.phase == "Succeeded" and ready.reason == "Succeeded":
        when = ready.last_probe_time or ready.last_transition_time
        return parse_rfc3339(when) if when else None
    return None


def users(reservation: Reservation, pods: Iterable[Pod]) -> list[Pod]:
    """Find the living pods that draw on a Reservation, in the order of their uids."""
    found = [
        p for p in pods if not p.finished and p.spec.node_name and _draws_on(p, reservation.uid)
    ]
    return sorted(found, key=lambda p: p.uid)


def _draws_on(pod: Pod, uid: str) -> bool:
    taken = allocated_of(pod)
    if taken is not None and taken.uid == uid:
        return True
    return any(draw.uid == uid for draw in draws_of(pod))


def drawn(reservation: Reservation, pods: Iterable[Pod]) -> dict[str, int]:
    """Sum what pods draw on a Reservation, in nanos, of the resources it reserves.

    Not capped: an owner larger than the Reservation shows as such.
    """
    total: dict[str, int] = {}
    for pod in pods:
        own = next((d for d in draws_of(pod) if d.uid == reservation.uid), None)
        amounts: Nanos = (
            {k: nanos(v) for k, v in own.resources.items()} if own else request_nanos(pod)
        )
        for name in reservation.status.allocatable:
            if amount := amounts.get(name):
                total[name] = total.get(name, 0) + amount
    return total


def _synced(reservation: Reservation, ground: Ground, now: float) -> dict[str, Any]:
    """Write what changed of the status; empty when nothing did."""
    owners = users(reservation, ground.pods)
    used = drawn(reservation, owners)
    news = _usage(reservation, owners, used)
    if reservation.phase == "Waiting":
        if not owners and not _short_of(reservation, ground):
            news |= {"phase": "Available"} | _ready(reservation, "True", "Available", now)
        return news
    if reservation.phase != "Available":
        return {}
    if news and owners and reservation.spec.allocate_once:
        return news | _ended("Succeeded", "Succeeded", reservation, now)
    return news | _keeping(reservation, ground, now)


def _usage(reservation: Reservation, owners: list[Pod], used: Nanos) -> dict[str, Any]:
    status = reservation.status
    known = {n: nanos(amount) for n, amount in status.allocated.items()}
    same_amounts = {n: a for n, a in known.items() if a} == dict(used)
    references = tuple(
        ObjectReference(namespace=p.namespace, name=p.name, uid=p.uid) for p in owners
    )
    if same_amounts and [o.uid for o in status.current_owners] == [r.uid for r in references]:
        return {}
    written = {n: _written(reservation, n, a) for n, a in used.items()}
    gone = dict.fromkeys(status.allocated.keys() - written.keys())
    return {
        "currentOwners": [
            {"namespace": r.namespace, "name": r.name, "uid": r.uid} for r in references
        ],
        "allocated": {**written, **gone},
    }


def _written(reservation: Reservation, name: str, amount: int) -> str:
    family = Quantity.parse(reservation.status.allocatable[name]).format
    return str(Quantity(amount, NANO, family))


def _keeping(reservation: Reservation, ground: Ground, now: float) -> dict[str, Any]:
    """Say so when somebody else stands in the room, and take it back when they have left."""
    ready = conditions.find(reservation.status.conditions, "Ready")
    short = _short_of(reservation, ground)
    broken = ready is not None and ready.reason == OVERCOMMITTED
    if short:
        words = f"the node has no room left for the reserved {', '.join(short)}"
        same = ready is not None and broken and ready.message == words
        return {} if same else _ready(reservation, "False", OVERCOMMITTED, now, words)
    return _ready(reservation, "True", "Available", now) if broken else {}


def _short_of(reservation: Reservation, ground: Ground) -> list[str]:
    """Name the resources of which the node cannot give what its Reservations still promise.

    Pods that ignore reservations said so themselves and break no promise.
    """
    assert ground.node is not None, "a reservation on a node that is gone has expired"
    counted = [p for p in ground.pods if not p.finished and not _ignores(p)]
    others = [n for n in ground.neighbours if n.uid != reservation.uid and n.phase == "Available"]
    requests = [request_nanos(p) for p in counted]
    short = []
    for name in sorted(reservation.status.allocatable):
        promised = _remaining(reservation, name, counted)
        if promised <= 0:
            continue
        promised += sum(_remaining(other, name, counted) for other in others)
        free = nanos(ground.node.status.allocatable.get(name, 0))
        free -= sum(r.get(name, 0) for r in requests)
        if promised > free:
            short.append(name)
    return short


def _ignores(pod: Pod) -> bool:
    return pod.metadata.labels.get(names.IGNORED) == "true"


def _remaining(reservation: Reservation, name: str, pods: Iterable[Pod]) -> int:
    total = nanos(reservation.status.allocatable.get(name, 0))
    if not total:
        return 0
    return max(0, total - drawn(reservation, users(reservation, pods)).get(name, 0))


def _ended(phase: str, reason: str, reservation: Reservation, now: float) -> dict[str, Any]:
    return {"phase": phase} | _ready(reservation, "False", reason, now)


def _ready(
    reservation: Reservation, status: str, reason: str, now: float, message: str = ""
) -> dict[str, Any]:
    """Write the conditions with a new Ready; its transition time moves with its status only."""
    old = conditions.find(reservation.status.conditions, "Ready")
    moved = old is None or old.status != status
    new: dict[str, Any] = {
        "type": "Ready", "status": status, "reason": reason, "lastProbeTime": rfc3339(now),
        "lastTransitionTime": rfc3339(now) if moved or old is None else old.last_transition_time,
    }  # fmt: skip
    if message:
        new["message"] = message
    return {"conditions": conditions.replaced(reservation.status.conditions, new)}


def _status(reservation: Reservation, status: dict[str, Any]) -> Patch:
    guard = {"uid": reservation.uid, "resourceVersion": reservation.metadata.resource_version}
    return Patch(
        RESERVATIONS, reservation.name, {"metadata": guard, "status": status}, subresource="status"
    )
