"""Tell whether an owner fits in what is free on a row plus what is left of its offers there.

For an offer c on a row, with ``free`` what nobody holds::

    Aligned, Restricted   request <= free + remaining(c)
    Default               request <= free + remaining of all matched Default offers of the row
    Restricted, besides   request <= remaining(c) for every restricted resource

A row whose offers are all taken, share no resource with the pod, or have nothing left of what it
asks for, is judged as if there were none; a Restricted offer that is too small still keeps the pod
away. For a pod that ignores reservations, what is left of all of them is as good as free.

The rule stands once, in ``weigh``, whose numbers and flags are those of one offer or arrays over
many. ``fit`` puts all matched offers to it at once and folds them to rows; ``one_row.judge`` puts
those of one row to it one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.held_room import NOTHING, FreedCapacity
from holdfast.capacity.offer import fullness
from holdfast.columns.interner import PODS
from holdfast.plugins.reservation.owner import OwnerState

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Numbers = int | Ints
Flags = bool | Bools


class Chance(NamedTuple):
    """What becomes of an offer, or of each of many."""

    shares: Flags
    """It can be had and has something left of what the pod asks for, or its policy keeps the pod
    away, or the pod must use one."""
    by_node: Flags
    """The node has the room, with the offer's help."""
    inside: Flags
    """The offer itself has the room its policy demands."""
    gives: Flags
    """It has something left of what the pod asks for."""
    serves: Flags
    """It can serve the pod."""


def weigh(
    state: OwnerState,
    spare: Sequence[Numbers],
    help_: Sequence[Numbers],
    left: Sequence[Numbers],
    *,
    limits: Sequence[Flags],
    asked: Sequence[Flags],
    takable: Flags,
    ports: Flags,
) -> Chance:
    """Weigh an offer, or many at once; the sequences are in the order of the pod's needs.

    ``spare`` is what the row has to spare beside a need, ``help_`` what the offer adds to it, with
    those it adds up with, ``left`` what is left of the offer alone. ``limits``: the pod may have no
    more than that; ``asked``: the offer reserves it, which tells it from others. ``ports``: it
    holds a host port of the pod.
    """
    by_node: Flags = True
    short: Flags = False
    concerned, gives = ports | state.required, ports
    needs = zip(state.needs, spare, help_, left, limits, asked, strict=True)
    for (_, wanted), has, more, own, limited, told_apart in needs:
        by_node = by_node & (has + more >= 0)
        short = short | (limited & (own < wanted))
        concerned = concerned | told_apart
        gives = gives | (told_apart & (own > 0))
    shares = takable & concerned & (gives | short | state.required)
    inside = short ^ True
    return Chance(shares, by_node, inside, gives, shares & by_node & inside)


def passes(state: OwnerState, served: Flags, shared: Flags, fits: Flags) -> Flags:
    """Tell whether a row passes, or which of many do.

    Some offer serves; or the pod needs none, fits without, and shares none, or may do without.
    """
    if state.must:
        return served
    return served | (fits if state.falls_back else fits & (shared ^ True))


@dataclass(frozen=True, slots=True)
class Fit:
    """What becomes of each matched offer (by position) and of each matched row.

    ``spare`` (by row), ``reach``, ``left`` and ``lacks`` (by offer) have an array for each need:
    what the row has to spare, what it has with the offer's help, what is left of the offer, and
    whether that is less than its policy demands.
    """

    spare: list[Ints]
    reach: list[Ints]
    left: list[Ints]
    lacks: list[Bools]
    shares: Bools
    serves: Bools
    by_node: Bools
    inside: Bools
    gives: Bools
    passes: Bools


def fit(state: OwnerState, back: FreedCapacity = NOTHING) -> Fit:
    """Work out, from the columns as they are now or would be, which offers can serve the pod."""
    match = state.match
    takable = _takable(state, back)
    spare, left = _spare(state, back), _left(state, back)
    there = [amount[match.at] for amount in spare]
    help_ = _pooled_help(state, left, takable)
    limits, asked = _terms_of_all(state)
    chance = weigh(
        state, there, help_, left,
        limits=limits, asked=asked, takable=takable, ports=_has_ports(state),
    )  # fmt: skip
    reach = [amount + more for amount, more in zip(there, help_, strict=True)]
    shares, serves = np.asarray(chance.shares), np.asarray(chance.serves)
    passing = passes(
        state,
        served=np.logical_or.reduceat(serves, match.first),
        shared=np.logical_or.reduceat(shares, match.first),
        fits=np.logical_and.reduce([amount >= 0 for amount in spare]),
    )
    lacks = [
        limited & (own < wanted)
        for (_, wanted), own, limited in zip(state.needs, left, limits, strict=True)
    ]
    return Fit(
        spare, reach, left, lacks, shares, serves, np.asarray(chance.by_node),
        np.asarray(chance.inside), np.asarray(chance.gives), np.asarray(passing),
    )  # fmt: skip


def nominable(state: OwnerState, found: Fit) -> Bools:
    """Per offer: it can be nominated. Of Default ones none that gives nothing, if another does."""
    match, serves = state.match, found.serves
    pools = state.offers.columns.default[match.slots]
    helped = np.logical_or.reduceat(serves & found.gives & pools, match.first)[match.at]
    named: Bools = serves & (found.gives | ~pools | ~helped)
    return named


def _takable(state: OwnerState, back: FreedCapacity) -> Bools:
    """Offers that can be had, those among them that would be vacated."""
    slots = state.match.slots
    takable: Bools = state.offers.columns.matchable[slots]
    if back.vacated:
        takable |= np.isin(slots, list(back.vacated))
    return takable


def _spare(state: OwnerState, back: FreedCapacity) -> list[Ints]:
    """What matched rows have to spare beside each need, as far as nobody holds it."""
    rows, found = state.match.rows, []
    for (resource, wanted), spare in zip(state.needs, state.spare.remaining(rows), strict=True):
        amount: Ints = spare + back.to_rows(rows, resource)
        # Offers that wait for room that is not free take none from what other offers have.
        for node in state.offers.waiting:
            row = state.nodes.row_of.get(node, -1)
            at = int(rows.searchsorted(row))
            if at < len(rows) and rows[at] == row:
                held = state.offers.waiting.held(node, resource)
                amount[at] = unawaited(int(amount[at]), wanted, held)
        found.append(amount)
    return found


def _left(state: OwnerState, back: FreedCapacity) -> list[Ints]:
    """What is left of each offer for each need."""
    columns, slots = state.offers.columns, state.match.slots
    nothing = np.zeros(len(slots), np.int64)
    return [
        (columns.remaining[resource, slots] if resource < len(columns.remaining) else nothing)
        + back.to_offers(slots, resource)
        for resource, _ in state.needs
    ]


def _pooled_help(state: OwnerState, left: list[Ints], takable: Bools) -> list[Ints]:
    """What each offer gives for each need, with those it adds up with."""
    match = state.match
    pools = takable if state.ignoring else state.offers.columns.default[match.slots] & takable
    found: list[Ints] = []
    for (resource, _), own in zip(state.needs, left, strict=True):
        # A pod slot is one offer's: several have no more than one to give.
        if resource == PODS and not state.ignoring:
            found.append(own)
            continue
        pooled = np.add.reduceat(np.where(pools, own, 0), match.first)
        found.append(np.where(pools, pooled[match.at], own))
    return found


def _terms_of_all(state: OwnerState) -> tuple[list[Bools], list[Bools]]:
    """For each need: which offers limit the pod in it, and which reserve it."""
    columns, slots = state.offers.columns, state.match.slots
    none = np.zeros(len(slots), np.bool_)
    limits, asked = [], []
    for resource, _ in state.needs:
        known = resource < len(columns.limits) and resource not in state.ignored
        limits.append(columns.limits[resource, slots] if known and not state.ignoring else none)
        counts = known and resource != PODS
        asked.append(columns.reserved[resource, slots] > 0 if counts else none)
    return limits, asked


def _has_ports(state: OwnerState) -> Bools:
    """Offers that hold some of the host ports the pod asks for."""
    columns, slots = state.offers.columns, state.match.slots
    if not state.ports:
        return np.zeros(len(slots), np.bool_)
    found: Bools = columns.laden[slots]
    for i in found.nonzero()[0]:
        found[i] = bool(state.ports & state.offers.at(int(slots[i])).pod_info.host_ports)
    return found


def offer_scores(state: OwnerState) -> Ints:
    """Score each matched offer 0..100: how full it would be, averaged over what it reserves."""
    columns, slots = state.offers.columns, state.match.slots
    request = state.compared
    total, counted = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.int64)
    for resource in columns.resources:
        reserved = columns.reserved[resource, slots]
        held = reserved > 0
        then = columns.used[resource, slots] + request.get(resource, 0)
        total += np.where(held, fullness(then, np.maximum(reserved, 1)), 0)
        counted += held
    scores: Ints = total // np.maximum(counted, 1)
    return scores


def unawaited(spare: int, wanted: int, held: int) -> int:
    """What there is to spare but for offers that wait: they take none from what other offers have.

    Where less than nothing is free, that is their doing as far as they hold room.
    """
    return min(-wanted, spare + held) if spare < -wanted else spare
