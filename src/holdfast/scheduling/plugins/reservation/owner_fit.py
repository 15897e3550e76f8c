"""Tell whether an owner fits in what is free on a row plus what remains of its reservations there.

For a reservation c on a row; ``free`` is what is neither requested nor held::

    Aligned, Restricted   request <= free + remaining(c)
    Default               request <= free + remaining of all matched Default ones of the row
    Restricted, and also  request <= remaining(c) for every restricted resource

Reservations that are not matchable, reserve none of the requested resources or have none of them
left do not apply: the row is then evaluated as if there were none. But a Restricted reservation
that is too small rejects the pod. For a pod that ignores reservations, what remains of them is
free.

The rule is in ``fit_reservation`` alone, whose numbers and flags are those of one reservation or
arrays over many. ``fit_owner`` calls it for all matched reservations at once and reduces the
answers to rows; ``row_fit.fit_row`` calls it for each reservation of one row. Before, the rule was
in three places. It has no ``not``, ``and`` or ``if``, because these do not work for arrays:
``x ^ True`` negates a flag and an array of flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.framework.plugin import NO_CHANGE, Code, PodChange
from holdfast.scheduling.plugins.reservation.owner import OwnerRequest
from holdfast.state.columns.interner import PODS
from holdfast.state.reservations.reservation_info import percent_filled
from holdfast.state.reservations.reserved_resources import NOTHING_FREED, FreedCapacity

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Numbers = int | Ints
Flags = bool | Bools


class ReservationFit(NamedTuple):
    """How a pod fits in a reservation, or in each of many."""

    applies: Flags
    """It is matchable, and it has some of the request left, limits the pod, or is required."""
    by_node: Flags
    """The request fits on the node with what the reservation contributes."""
    inside: Flags
    """The reservation has what its policy requires."""
    contributes: Flags
    """It has some of the request left."""
    covers: Flags
    """With those it adds up with, it has left all of the request that it reserves."""
    serves: Flags
    """It can be used for the pod."""


def fit_reservation(
    owner: OwnerRequest,
    spare: Sequence[Numbers],
    added: Sequence[Numbers],
    left: Sequence[Numbers],
    *,
    restricts: Sequence[Flags],
    asked: Sequence[Flags],
    matchable: Flags,
    ports: Flags,
) -> ReservationFit:
    """Compare the needs of the pod with a reservation, or with many at once.

    Sequences are in the order of the needs. ``spare`` is what the row would have left; ``added`` is
    what the reservation and those it adds up with contribute; ``left`` is what remains of the
    reservation alone. ``restricts``: the pod may have no more than that; ``asked``: the reservation
    reserves it. ``ports``: the reservation holds a host port of the pod.
    """
    by_node: Flags = True
    short: Flags = False
    covers: Flags
    concerned, contributes, covers = ports | owner.required, ports, True
    needs = zip(owner.needs, spare, added, left, restricts, asked, strict=True)
    for (_, wanted), has, more, own, limited, compared in needs:
        by_node = by_node & (has + more >= 0)
        short = short | (limited & (own < wanted))
        concerned = concerned | compared
        contributes = contributes | (compared & (own > 0))
        covers = covers & (more >= wanted * compared)
    applies = matchable & concerned & (contributes | short | owner.required)
    inside = short ^ True
    serves = applies & by_node & inside
    return ReservationFit(applies, by_node, inside, contributes, covers, serves)


def passes(owner: OwnerRequest, served: Flags, shared: Flags, fits: Flags) -> Flags:
    """Tell whether a row passes, or which of many rows do.

    A row passes if a reservation can be used. It also passes if the pod requires none and fits
    without one, and either none applies or the pod may fall back.
    """
    if owner.requires_reservation:
        return served
    return served | (fits if owner.falls_back else fits & (shared ^ True))


@dataclass(frozen=True, slots=True)
class OwnerFit:
    """How the pod fits in each matched reservation (by position) and on each matched row.

    ``spare`` (by row), ``reach``, ``left`` and ``lacks`` (by reservation) have an array for each
    need: what the row would have left, the same with what the reservation contributes, what remains
    of the reservation, and whether that is less than its policy requires. ``excluded`` are the
    reservations that other plugins exclude; ``unresolvable`` are the rows where they exclude all
    options, whatever pods leave; ``allowed_without`` are the rows where they allow the pod without
    a reservation.
    """

    spare: list[Ints]
    reach: list[Ints]
    left: list[Ints]
    lacks: list[Bools]
    applies: Bools
    serves: Bools
    by_node: Bools
    inside: Bools
    contributes: Bools
    covers: Bools
    passes: Bools
    excluded: Bools
    allowed_without: Bools
    unresolvable: Bools


def fit_owner(
    owner: OwnerRequest, freed: FreedCapacity = NOTHING_FREED, change: PodChange = NO_CHANGE
) -> OwnerFit:
    """Compare the needs of the pod with all matched reservations, now or under a change.

    ``freed`` is what ``change`` frees.
    """
    match = owner.match
    matchable = matchable_slots(owner, freed)
    spare, left = _spare(owner, freed), _left(owner, freed)
    there = [amount[match.at] for amount in spare]
    added = _contributions(owner, left, matchable)
    restricts, asked = _restricts_and_asked(owner)
    fit = fit_reservation(
        owner, there, added, left,
        restricts=restricts, asked=asked, matchable=matchable, ports=_has_ports(owner),
    )  # fmt: skip
    reach = [amount + more for amount, more in zip(there, added, strict=True)]
    excluded, allowed_without, unresolvable = _options(owner, change)
    applies, serves = np.asarray(fit.applies), np.asarray(fit.serves) & ~excluded
    passing = passes(
        owner,
        served=np.logical_or.reduceat(serves, match.first),
        shared=np.logical_or.reduceat(applies, match.first),
        fits=np.logical_and.reduce([allowed_without, *(amount >= 0 for amount in spare)]),
    )
    lacks = [
        limited & (own < wanted)
        for (_, wanted), own, limited in zip(owner.needs, left, restricts, strict=True)
    ]
    return OwnerFit(
        spare, reach, left, lacks, applies, serves, np.asarray(fit.by_node),
        np.asarray(fit.inside), np.asarray(fit.contributes), np.asarray(fit.covers),
        np.asarray(passing), excluded, allowed_without, unresolvable,
    )  # fmt: skip


def _options(owner: OwnerRequest, change: PodChange) -> tuple[Bools, Bools, Bools]:
    """Ask other plugins about the reservations.

    Return the excluded ones, the rows that pass without one, and the rows that can never pass.
    """
    match, options = owner.match, owner.options
    if options is None:
        none = np.zeros(len(match.rows), np.bool_)
        return np.zeros(len(match.slots), np.bool_), ~none, none
    verdicts = options.verdicts(match.slots, change)
    without = options.verdicts_without(match.rows, change)
    best = np.minimum.reduceat(verdicts, match.first)
    if not owner.requires_reservation:
        best = np.minimum(best, without)
    return verdicts != 0, without == 0, best == Code.UNRESOLVABLE


def nominable(owner: OwnerRequest, fit: OwnerFit) -> Bools:
    """Tell which reservations can be nominated.

    Default ones that contribute nothing cannot, if another one on the row does.
    """
    match, serves = owner.match, fit.serves
    adds_up = owner.reservations.columns.default_policy[match.slots]
    helped = np.logical_or.reduceat(serves & fit.contributes & adds_up, match.first)[match.at]
    named: Bools = serves & (fit.contributes | ~adds_up | ~helped)
    return named


def matchable_slots(owner: OwnerRequest, freed: FreedCapacity = NOTHING_FREED) -> Bools:
    """Tell which matched reservations are matchable, with what is freed."""
    slots = owner.match.slots
    matchable: Bools = owner.reservations.columns.matchable[slots]
    for slot, then in freed.matchable.items():
        matchable[slots == slot] = then
    return matchable


def _spare(owner: OwnerRequest, freed: FreedCapacity) -> list[Ints]:
    """Return for each need what matched rows would have left if the pod ran there."""
    rows, amounts = owner.match.rows, []
    for (resource, wanted), spare in zip(
        owner.node_needs, owner.spare.remaining(rows), strict=True
    ):
        amount: Ints = spare + freed.to_rows(rows, resource)
        # Waiting reservations must not reduce what other reservations have left.
        for node in owner.reservations.waiting:
            row = owner.nodes.row_of.get(node, -1)
            at = int(rows.searchsorted(row))
            if at < len(rows) and rows[at] == row:
                held = owner.reservations.waiting.held(node, resource)
                amount[at] = without_waiting(int(amount[at]), wanted, held)
        amounts.append(amount)
    # The node's own amounts are in the names that the pod uses.
    return amounts + [np.zeros(len(rows), np.int64)] * (len(owner.needs) - len(amounts))


def _left(owner: OwnerRequest, freed: FreedCapacity) -> list[Ints]:
    """Return what remains of each reservation for each need."""
    columns, slots = owner.reservations.columns, owner.match.slots
    nothing = np.zeros(len(slots), np.int64)
    return [
        (columns.remaining[resource, slots] if resource < len(columns.remaining) else nothing)
        + freed.to_reservations(slots, resource)
        for resource, _ in owner.needs
    ]


def _contributions(owner: OwnerRequest, left: list[Ints], matchable: Bools) -> list[Ints]:
    """Return what each reservation contributes to each need, with those it adds up with."""
    match = owner.match
    adds_up = (
        matchable
        if owner.ignores_reservations
        else owner.reservations.columns.default_policy[match.slots] & matchable
    )
    contributions: list[Ints] = []
    for (resource, _), own in zip(owner.needs, left, strict=True):
        # A pod slot comes from one reservation: those of several do not add up.
        if resource == PODS and not owner.ignores_reservations:
            contributions.append(own)
            continue
        pooled = np.add.reduceat(np.where(adds_up, own, 0), match.first)
        contributions.append(np.where(adds_up, pooled[match.at], own))
    if owner.options is not None and len(match.slots) > len(match.rows):
        _keep_identified(owner, left, contributions)
    return contributions


def _keep_identified(owner: OwnerRequest, left: list[Ints], contributions: list[Ints]) -> None:
    """Let only the reservation itself contribute what has an identity."""
    match = owner.match
    several = np.diff(match.first, append=len(match.slots)) > 1
    for row in match.rows[several].tolist():
        identified, here = owner.identified(row), match.span(row)
        for (resource, _), own, added in zip(owner.needs, left, contributions, strict=True):
            if resource in identified:
                added[here] = own[here]


def _restricts_and_asked(owner: OwnerRequest) -> tuple[list[Bools], list[Bools]]:
    """Tell for each need which reservations restrict the pod in it, and which reserve it."""
    columns, slots = owner.reservations.columns, owner.match.slots
    none = np.zeros(len(slots), np.bool_)
    restricts, asked = [], []
    for resource, _ in owner.needs:
        known = resource < len(columns.restricts) and resource not in owner.ignored
        restricts.append(
            columns.restricts[resource, slots] if known and not owner.ignores_reservations else none
        )
        counts = known and resource != PODS
        asked.append(columns.reserved[resource, slots] > 0 if counts else none)
    for n in range(len(owner.node_needs), len(owner.needs)):
        applies = owner.converts(owner.needs[n][0])
        restricts[n], asked[n] = restricts[n] & applies, asked[n] & applies
    return restricts, asked


def _has_ports(owner: OwnerRequest) -> Bools:
    """Tell which reservations hold some of the pod's host ports."""
    columns, slots = owner.reservations.columns, owner.match.slots
    if not owner.ports:
        return np.zeros(len(slots), np.bool_)
    has_ports: Bools = columns.has_ports_or_volumes[slots]
    for i in has_ports.nonzero()[0]:
        has_ports[i] = bool(owner.ports & owner.reservations.at(int(slots[i])).pod_info.host_ports)
    return has_ports


def reservation_scores(owner: OwnerRequest, fit: OwnerFit) -> Ints:
    """Score each matched reservation 0..100: how full it would be, the mean of what it reserves.

    0 if it has nothing left for the pod, else 1 or more. Where the pod must take the rest from the
    node, the score is one less, so a reservation that covers the request wins a tie.

    A request larger than the reservation counts as using it up. Koordinator scores 0 there: so five
    of six such owners ran elsewhere, the reservation stayed unused, and both were paid for.
    """
    columns, slots = owner.reservations.columns, owner.match.slots
    request, restricted = owner.compared, columns.restricted_policy[slots]
    total, counted = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.int64)
    for resource in columns.resources:
        reserved = columns.reserved[resource, slots]
        held = reserved > 0
        wanted: Ints = np.full(len(slots), request.get(resource, 0), np.int64)
        for other, amount in owner.needs[len(owner.node_needs) :]:
            if other == resource:
                wanted += np.where(owner.converts(resource), amount, 0)
        then = columns.allocated[resource, slots] + wanted
        used_up = ~restricted & (wanted >= columns.remaining[resource, slots])
        percent = np.where(used_up, 100, percent_filled(then, np.maximum(reserved, 1)))
        total += np.where(held, percent, 0)
        counted += held
    scores = total // np.maximum(counted, 1) - (~fit.covers & ~restricted)
    drawn: Ints = np.where(fit.contributes, np.maximum(scores, 1), 0)
    return drawn


def row_scores(owner: OwnerRequest, fit: OwnerFit) -> Ints:
    """Score each matched row by its best reservation; 0 without."""
    first, own = owner.match.first, np.where(fit.serves, reservation_scores(owner, fit), 0)
    best: Ints = np.maximum.reduceat(own, first)
    return best


def without_waiting(spare: int, wanted: int, held: int) -> int:
    """Return the spare amount without the effect of waiting reservations.

    If the free amount is negative, the waiting reservations are the cause, so what they hold is
    added back.
    """
    return min(-wanted, spare + held) if spare < -wanted else spare
