"""Read the JSON that reservations and their owners carry in annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api import reservation_names as names
from holdfast.api.field_errors import raise_if_any
from holdfast.api.meta import Struct
from holdfast.api.node_selection import compile_term
from holdfast.api.pod import NodeSelectorTerm, Pod, Toleration
from holdfast.api.quantity import AmountText, units
from holdfast.api.reservation import Reservation
from holdfast.errors import BadRequest

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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


class ResourceList(Struct, frozen=True):
    """Amounts by resource name, null for none."""

    resources: dict[str, AmountText] | None = None


class ResourceNameList(Struct, frozen=True):
    """Names of resources, null for none."""

    resources: tuple[str, ...] | None = None


class ExactMatch(Struct, frozen=True):
    """Resources of which a pod asks for exactly what a reservation has, null for none."""

    resource_names: tuple[str, ...] | None = None


def affinity_of(pod: Pod) -> ReservationAffinity | None:
    """The pod's reservation affinity; presence alone, even empty, makes a reservation a must."""
    text = pod.metadata.annotations.get(names.AFFINITY)
    if text is None:
        return None
    found = _wish(text, names.AFFINITY, ReservationAffinity) or ReservationAffinity()
    if required := found.required_during_scheduling_ignored_during_execution:
        at = f"metadata.annotations[{names.AFFINITY}].{_REQUIRED}"
        for i, term in enumerate(required.reservation_selector_terms):
            raise_if_any(compile_term(term, f"{at}.reservationSelectorTerms[{i}]").mistakes)
    return found


def allocated_of(pod: Pod) -> Allocated | None:
    """The reservation the pod was allocated from, if it says so."""
    found: Allocated | None = _read(pod.metadata.annotations, names.ALLOCATED, Allocated)
    return found


def exact_match_of(pod: Pod) -> tuple[str, ...]:
    """The resources in which the pod and its reservation must agree exactly."""
    text = pod.metadata.annotations.get(names.EXACT_MATCH, "")
    found: ExactMatch | None = _wish(text, names.EXACT_MATCH, ExactMatch)
    return (found and found.resource_names) or ()


def draws_of(pod: Pod) -> tuple[Draw, ...]:
    """What the pod drew from each of several reservations, if it says so."""
    found: tuple[Draw, ...] | None = _read(pod.metadata.annotations, names.DRAWS, tuple[Draw, ...])
    return found if found and all(_sound(draw.resources) for draw in found) else ()


def inner_reserved(reservation: Reservation) -> Mapping[str, AmountText]:
    """What is kept back inside the reservation and never lent out."""
    return _amounts(reservation, names.INNER_RESERVED)


def restricted_names(reservation: Reservation) -> tuple[str, ...]:
    """The resources a Restricted reservation limits its owners to; empty means all reserved."""
    found: ResourceNameList | None = _read(
        reservation.metadata.annotations, names.RESTRICTED_OPTIONS, ResourceNameList
    )
    return (found and found.resources) or ()


def resized(reservation: Reservation | Pod) -> Mapping[str, AmountText]:
    """Amounts that replace the template's; its reserve pod carries them too."""
    return _amounts(reservation, names.RESIZE)


def _amounts(reservation: Reservation | Pod, key: str) -> Mapping[str, AmountText]:
    found: ResourceList | None = _read(reservation.metadata.annotations, key, ResourceList)
    amounts = (found and found.resources) or {}
    return amounts if _sound(amounts) else {}


def _sound(amounts: Mapping[str, AmountText]) -> bool:
    """Tell whether every amount can be read; nobody checks annotations when they are written."""
    try:
        return all(units(amount) >= 0 for amount in amounts.values())
    except BadRequest:
        return False


def _wish(text: str, key: str, kind: Any) -> Any:
    """Decode what a pod wishes; what cannot be read must not pass for no wish at all."""
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as wrong:
        raise BadRequest(f"metadata.annotations[{key}]: {wrong}") from wrong


def _read(annotations: Mapping[str, str], key: str, kind: Any) -> Any:
    """Decode one annotation; a malformed one counts as absent, as in the reference."""
    text = annotations.get(key)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None
