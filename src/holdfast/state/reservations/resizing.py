"""Compute what an edited reservation on a node must hold, and whether its node has that.

The wanted amounts are the template's requests, updated by the resize annotation. The held amounts
are those of the status. Only amounts are compared: a reservation never moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from holdfast.api.koordinator_names import DEVICE_ALLOCATED, RESOURCE_STATUS
from holdfast.api.pod import Pod
from holdfast.api.quantity import NANO, AmountText, Quantity
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import AVAILABLE, Reservation
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo, sum_of
from holdfast.state.columns.request_fit import short_of
from holdfast.state.reservations.gpu_names import nanos_in_names_of
from holdfast.state.reservations.reservation_annotations import inner_reserved, resized_amounts
from holdfast.state.reservations.reservation_content import read_amounts
from holdfast.state.reservations.reservation_info import ReservationInfo
from holdfast.state.reservations.reserve_pod import with_requests

_FIXED_SIZE_ANNOTATIONS = {RESOURCE_STATUS: "CPUs", DEVICE_ALLOCATED: "devices"}
"""Annotations of reservations that hold particular CPUs or devices; these are not resized."""
AmountTexts = Mapping[str, AmountText]
A = TypeVar("A")


def wanted_amounts(reservation: Reservation) -> dict[str, AmountText] | None:
    """Return what an edited reservation must hold instead; None if it holds that already.

    An extended resource that the template does not name stays, because a driver may have added it;
    an amount of 0 removes it. Raises BadRequest for a malformed amount.
    """
    return None if _fixed(reservation) else _edited_amounts(reservation)


def wanted_in_vain(reservation: Reservation) -> str:
    """Return what keeps its size although the reservation was edited: "CPUs", "devices" or "".

    Devices may be held in other names than those of the template, so these are converted.
    """
    notes = reservation.metadata.annotations
    kinds = [kind for key, kind in _FIXED_SIZE_ANNOTATIONS.items() if key in notes]
    asked, held = _asked(reservation) if kinds else None, _plain(reservation.status.allocatable)
    if asked is None:
        return ""
    amounts = nanos_in_names_of({name: nanos(a) for name, a in asked.items()}, held)
    wanted = _with_kept(amounts, held)
    edited = {name: amount for name, amount in wanted.items() if amount} != held
    return " and ".join(kinds) if edited else ""


def _edited_amounts(reservation: Reservation) -> dict[str, AmountText] | None:
    asked, held = _asked(reservation), reservation.status.allocatable
    if asked is None:
        return None
    wanted = _with_kept(asked, held)
    amounts = {name: amount for name, amount in wanted.items() if nanos(amount) > 0}
    return None if same_amounts(amounts, held) else amounts


def _with_kept(asked: Mapping[str, A], held: Mapping[str, A]) -> dict[str, A]:
    """Return what is asked for, with the other extended resources that are held."""
    return {**{name: amount for name, amount in held.items() if "/" in name}, **asked}


def _asked(reservation: Reservation) -> dict[str, AmountText] | None:
    """Return what template and annotation ask for; None if it cannot be resized now."""
    template = reservation.spec.template
    if reservation.phase != AVAILABLE or template is None:
        return None
    held = reservation.status.allocatable
    asked = request_nanos(Pod(spec=with_requests(template.spec))).items()
    named = {name: _text(held, name, amount) for name, amount in asked}
    return {**named, **resized_amounts(reservation)}


def _fixed(reservation: Reservation) -> bool:
    meta = reservation.metadata
    return meta.deletion_timestamp is not None or any(
        key in meta.annotations for key in _FIXED_SIZE_ANNOTATIONS
    )


def _text(held: AmountTexts, name: str, amount: int) -> str:
    if name in held and nanos(held[name]) == amount:
        return str(held[name])
    family = "DecimalSI" if name == "cpu" or "/" in name or name == "pods" else "BinarySI"
    return str(Quantity(amount, NANO, family))


def same_amounts(one: AmountTexts, other: AmountTexts) -> bool:
    """Tell whether two lists of amounts are equal, however they are written."""
    return _plain(one) == _plain(other)


def _plain(amounts: AmountTexts) -> dict[str, int]:
    return {name: value for name, amount in amounts.items() if (value := nanos(amount))}


def larger_amounts(one: AmountTexts, other: AmountTexts) -> dict[str, AmountText]:
    """Return the larger amount of each resource, to hold while it is unknown which one counts."""
    amounts = dict(one)
    for name, amount in other.items():
        if nanos(amount) > nanos(amounts.get(name, 0)):
            amounts[name] = amount
    return amounts


def shrinks(old: Reservation, new: Reservation) -> bool:
    """Tell whether a reservation holds less of any resource than before."""
    now = new.status.allocatable
    return any(nanos(held) > nanos(now.get(n, 0)) for n, held in old.status.allocatable.items())


def shortage(
    node_table: NodeTable,
    info: ReservationInfo,
    amounts: AmountTexts,
    nominated: Iterable[PodInfo] = (),
) -> list[str]:
    """List the resources its node is short of for a reservation to grow to ``amounts``.

    ``nominated`` are pods nominated to the node; their requests count as taken.
    """
    row = node_table.row_of.get(info.node)
    if row is None:
        return sorted(amounts)
    reserved = read_amounts(amounts, node_table.resources)
    kept = read_amounts(inner_reserved(info.reservation), node_table.resources)
    inner = {r: min(amount, reserved[r]) for r, amount in kept.items() if r in reserved}
    grown = replace(info, reserved=reserved, inner=inner)
    before, after = (
        {**info.held_amounts, PODS: info.held_pod_slots},
        {**grown.held_amounts, PODS: grown.held_pod_slots},
    )
    more = {r: amount - before.get(r, 0) for r, amount in after.items()}
    more = {r: amount for r, amount in more.items() if amount > 0}
    taken = sum_of(nominated)
    free = {r: node_table.amounts.free_on(row, r) - taken[r] for r in more}
    return sorted(node_table.resources[r] for r in short_of(more, free))
