"""Bind a reserve pod: write where the room is held into the Reservation's status."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from typing import Any

import msgspec

from holdfast.api.quantity import AmountText
from holdfast.api.requests import request_nanos, whole
from holdfast.api.reservation import AVAILABLE, WAITING
from holdfast.api.reservation_status import placed, waiting
from holdfast.api.scheme import PODS, RESERVATIONS
from holdfast.capacity import names
from holdfast.capacity.annotations import resized
from holdfast.capacity.inheritance import Inheritance
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import Conflict, HoldfastError, NotFound, Refused
from holdfast.framework.plugin import Call, Calls, Placement

log = logging.getLogger(__name__)

TRIES = 5


def bind_reservation(placement: Placement, heir: Inheritance | None = None) -> Calls:
    """Yield the writes that put a pending Reservation on its node.

    Pods it inherits from are told first: whoever reads the Reservation's status finds them told.
    If it does not get there, they are told so.
    """
    told: list[PodFacts] = []
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


def _write_status(placement: Placement, heir: Inheritance | None) -> Calls:
    """Write where the room is held, and whether it is free already.

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
            **_where(placement, heir),
            "nodeName": placement.node,
            "allocatable": allocatable(facts),
        }
        try:
            yield Call("update", f"{path}/status", raw)
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


def allocated_from(facts: PodFacts) -> str:
    """What a pod carries that takes its room from this reservation."""
    return msgspec.json.encode({"name": facts.name, "uid": facts.reserve_for}).decode()


def _tell(pod: PodFacts, allocated: str | None) -> Call:
    # What it drew on several others, ended since, would be read instead of this.
    said = {names.ALLOCATED: allocated, names.DRAWS: None}
    meta = {"uid": pod.pod.metadata.uid, "annotations": said}
    path = PODS.path(pod.namespace, pod.name)
    return Call("patch", path, {"metadata": meta}, "application/merge-patch+json")


def _take_back(pod: PodFacts) -> Calls:
    try:
        yield _tell(pod, None)
    except HoldfastError as failure:
        log.warning("%s still says it leaves its room to a reservation: %s", pod.key, failure)


def _is_there(placement: Placement) -> Generator[Call, Any, bool]:
    """Ask whether the Reservation is on the node after all: the answer to a write may get lost."""
    try:
        raw = yield Call("get", RESERVATIONS.path(name=placement.pod.name))
    except HoldfastError:
        return False
    same = raw["metadata"]["uid"] == placement.pod.reserve_for
    return bool(same and (raw.get("status") or {}).get("nodeName") == placement.node)


def allocatable(facts: PodFacts) -> dict[str, AmountText]:
    """What the reservation will offer: its template's requests, overlaid by a resize.

    As it was when room was found for it; if it was edited since, it is resized afterwards.
    """
    asked = {name: whole(name, amount) for name, amount in request_nanos(facts.pod).items()}
    amounts = {name: _text(name, amount) for name, amount in asked.items() if amount}
    return {**amounts, **resized(facts.pod)}


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
