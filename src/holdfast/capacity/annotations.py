"""Read the JSON that reservations and their owners carry in annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api.meta import Struct
from holdfast.api.pod import NodeSelectorTerm, Pod, Toleration
from holdfast.api.quantity import AmountText
from holdfast.api.reservation import Reservation
from holdfast.capacity import names
from holdfast.errors import BadRequest


class RequiredReservations(Struct, frozen=True):
    """Terms over reservation labels, ORed."""

    reservation_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ReservationAffinity(Struct, frozen=True):
    """A pod's wish: it must use a reservation, and which."""

    name: str = ""
    reservation_selector: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    required_during_scheduling_ignored_during_execution: RequiredReservations | None = None
    tolerations: tuple[Toleration, ...] = ()


class Allocated(Struct, frozen=True):
    """Which reservation a pod took."""

    name: str = ""
    uid: str = ""


class Draw(Struct, frozen=True):
    """What a pod took of one reservation."""

    name: str = ""
    uid: str = ""
    resources: dict[str, AmountText] = {}  # noqa: RUF012 - msgspec copies it


def affinity_of(pod: Pod) -> ReservationAffinity | None:
    """The pod's reservation affinity; presence alone, even empty, makes a reservation a must."""
    text = pod.metadata.annotations.get(names.AFFINITY)
    if text is None:
        return None
    if not text.strip():
        return ReservationAffinity()
    try:
        return msgspec.json.decode(text, type=ReservationAffinity)
    except msgspec.MsgspecError as wrong:
        raise BadRequest(f"metadata.annotations[{names.AFFINITY}]: {wrong}") from wrong


def allocated_of(pod: Pod) -> Allocated | None:
    """The reservation the pod was allocated from, if it says so."""
    found: Allocated | None = _read(pod.metadata.annotations, names.ALLOCATED, Allocated)
    return found


def draws_of(pod: Pod) -> tuple[Draw, ...]:
    """What the pod drew from each of several reservations, if it says so."""
    found: tuple[Draw, ...] | None = _read(pod.metadata.annotations, names.DRAWS, tuple[Draw, ...])
    return found or ()


def inner_reserved(reservation: Reservation) -> dict[str, Any]:
    """What is kept back inside the reservation and never lent out."""
    found = _read(reservation.metadata.annotations, names.INNER_RESERVED, dict[str, Any])
    return dict((found or {}).get("resources") or {})


def restricted_names(reservation: Reservation) -> tuple[str, ...]:
    """The resources a Restricted reservation limits its owners to; empty means all reserved."""
    found = _read(reservation.metadata.annotations, names.RESTRICTED_OPTIONS, dict[str, Any])
    return tuple((found or {}).get("resources") or ())


def resized(reservation: Reservation) -> dict[str, Any]:
    """Amounts that replace the template's when the reservation is bound."""
    found = _read(reservation.metadata.annotations, names.RESIZE, dict[str, Any])
    return dict((found or {}).get("resources") or {})


def _read(annotations: Mapping[str, str], key: str, kind: Any) -> Any:
    """Decode one annotation; a malformed one counts as absent, as in the reference."""
    text = annotations.get(key)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return None
