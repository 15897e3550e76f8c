"""Bind a reserve pod: write where the room is held into the Reservation's status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.api.decode import convert_object
from holdfast.api.quantity import AmountText
from holdfast.api.requests import request_nanos, whole
from holdfast.api.reservation import Reservation
from holdfast.api.reservation_status import placed
from holdfast.api.scheme import RESERVATIONS
from holdfast.capacity.annotations import resized
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import Conflict, NotFound, Refused
from holdfast.framework.plugin import Call, Calls, Placement

TRIES = 5


def bind_reservation(placement: Placement) -> Calls:
    """Yield the read and the write that make a pending Reservation Available on its node.

    The status is written against the version just read, so that a reservation that expired, was
    deleted or was bound meanwhile is never brought back to life.
    """
    facts = placement.pod
    path = RESERVATIONS.path(name=facts.name)
    for attempt in range(TRIES):
        raw = yield Call("get", path)
        _check_alive(raw, facts)
        raw["status"] = {
            **(raw.get("status") or {}),
            "phase": "Available",
            "nodeName": placement.node,
            "allocatable": allocatable(raw, facts),
            "conditions": placed(placement.now),
        }
        try:
            yield Call("update", f"{path}/status", raw)
            return
        except Conflict:
            if attempt == TRIES - 1:
                raise


def allocatable(raw: Mapping[str, Any], facts: PodFacts) -> dict[str, AmountText]:
    """What the reservation will offer: its template's requests, overlaid by a resize."""
    asked = {name: whole(name, amount) for name, amount in request_nanos(facts.pod).items()}
    amounts = {name: _text(name, amount) for name, amount in asked.items() if amount}
    return {**amounts, **resized(convert_object(dict(raw), Reservation))}


def _check_alive(raw: Mapping[str, Any], facts: PodFacts) -> None:
    meta, status = raw["metadata"], raw.get("status") or {}
    if meta["uid"] != facts.reserve_for:
        raise NotFound(f'reservations "{facts.name}" was replaced by another of the same name')
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
