"""What a reservation that holds room ought to hold after it was edited, and whether it can.

The template's requests, overlaid by the resize annotation, are what is asked for; what is held
stands in the status. Only the amounts of the two are compared: a reservation never moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from holdfast.api.pod import Pod
from holdfast.api.quantity import NANO, AmountText, Quantity
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import AVAILABLE, Reservation
from holdfast.capacity.annotations import inner_reserved, resized
from holdfast.capacity.offer import Offer
from holdfast.capacity.reading import read_amounts
from holdfast.capacity.reserve_pod import with_requests
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo, sum_of
from holdfast.columns.request_fit import short_of

BY_NAME = (
    "scheduling.koordinator.sh/device-allocated",
    "scheduling.koordinator.sh/resource-status",
)
"""Annotations of a reservation that holds devices or CPUs by name; it keeps its size."""
Held = Mapping[str, AmountText]


def wanted(reservation: Reservation) -> dict[str, AmountText] | None:
    """What an edited reservation asks to hold instead; None when it holds what it asks for.

    An extended resource that the template does not name stays: a driver may have added it. Set it
    to 0 to be rid of it. Raises BadRequest for an amount that is none.
    """
    template = reservation.spec.template
    if reservation.phase != AVAILABLE or template is None or _fixed(reservation):
        return None
    held = reservation.status.allocatable
    asked = request_nanos(Pod(spec=with_requests(template.spec))).items()
    kept = {name: amount for name, amount in held.items() if "/" in name}
    named = {name: _text(held, name, amount) for name, amount in asked}
    found: dict[str, AmountText] = {**kept, **named, **resized(reservation)}
    found = {name: amount for name, amount in found.items() if nanos(amount) > 0}
    return None if same_amounts(found, held) else found


def _fixed(reservation: Reservation) -> bool:
    meta = reservation.metadata
    return meta.deletion_timestamp is not None or any(key in meta.annotations for key in BY_NAME)


def _text(held: Held, name: str, amount: int) -> str:
    if name in held and nanos(held[name]) == amount:
        return str(held[name])
    family = "DecimalSI" if name == "cpu" or "/" in name or name == "pods" else "BinarySI"
    return str(Quantity(amount, NANO, family))


def same_amounts(one: Held, other: Held) -> bool:
    """Tell whether two lists of amounts are the same room, however they are written."""
    return _plain(one) == _plain(other)


def _plain(amounts: Held) -> dict[str, int]:
    return {name: value for name, amount in amounts.items() if (value := nanos(amount))}


def larger(one: Held, other: Held) -> dict[str, AmountText]:
    """Of each resource the larger amount: what must be held while nobody knows which counts."""
    found = dict(one)
    for name, amount in other.items():
        if nanos(amount) > nanos(found.get(name, 0)):
            found[name] = amount
    return found


def gives_back(old: Reservation, new: Reservation) -> bool:
    """Tell whether a reservation holds less of anything than it did."""
    now = new.status.allocatable
    return any(nanos(held) > nanos(now.get(n, 0)) for n, held in old.status.allocatable.items())


def shortage(
    node_table: NodeTable, offer: Offer, amounts: Held, promised: Iterable[PodInfo] = ()
) -> list[str]:
    """Name the resources of which its node has not enough for an offer to grow to ``amounts``.

    ``promised`` are pods that were promised the node: what they ask for is taken already.
    """
    row = node_table.row_of.get(offer.node)
    if row is None:
        return sorted(amounts)
    reserved = read_amounts(amounts, node_table.resources)
    kept = read_amounts(inner_reserved(offer.reservation), node_table.resources)
    inner = {r: min(amount, reserved[r]) for r, amount in kept.items() if r in reserved}
    grown = replace(offer, reserved=reserved, inner=inner)
    before, after = {**offer.top_up, PODS: offer.slots}, {**grown.top_up, PODS: grown.slots}
    more = {r: amount - before.get(r, 0) for r, amount in after.items()}
    more = {r: amount for r, amount in more.items() if amount > 0}
    taken = sum_of(promised)
    free = {r: node_table.amounts.free_on(row, r) - taken[r] for r in more}
    return sorted(node_table.resources[r] for r in short_of(more, free))
