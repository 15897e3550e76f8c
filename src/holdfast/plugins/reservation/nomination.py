"""Which offer an owner takes on a row, and how well rows are liked for their offers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.offer import Offer
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import NONE, Change
from holdfast.plugins.reservation.owner import OwnerState, fit
from holdfast.plugins.reservation.words import NO_MATCH, NONE_MEETS, none_matchable

Ints = NDArray[np.int64]
_NO_ORDER = 2**62
TAKEN = "reservation has allocateOnce enabled and has already been allocated"
FIRST_IN_ORDER = 1000
"""The score of the row with the lowest order label of all."""


def offer_scores(state: OwnerState) -> Ints:
    """Score each matched offer 0..100: how full it would be, averaged over what it reserves."""
    columns, slots = state.offers.columns, state.match.slots
    request = dict(state.request)
    total = np.zeros(len(slots), np.int64)
    counted = np.zeros(len(slots), np.int64)
    for resource in columns.resources:
        reserved = columns.reserved[resource, slots]
        then = columns.used[resource, slots] + request.get(resource, 0)
        held = reserved > 0
        total += np.where(held & (then <= reserved), 100 * then // np.maximum(reserved, 1), 0)
        counted += held
    scores: Ints = total // np.maximum(counted, 1)
    return scores


def row_scores(state: OwnerState) -> Ints:
    """Score each matched row by its best offer; the lowest order label of all gets 1000."""
    serves, first = state.fit().serves, state.match.first
    best: Ints = np.maximum.reduceat(np.where(serves, offer_scores(state), 0), first)
    order = state.offers.columns.order[state.match.slots]
    labelled = serves & (order != 0)
    if labelled.any():
        lowest = labelled & (order == order[labelled].min())
        best[np.logical_or.reduceat(lowest, first)] = FIRST_IN_ORDER
    return best


def take(state: OwnerState, pod: PodFacts, row: int) -> tuple[Offer | None, list[Offer]]:
    """Choose for an owner that is assumed on its row: of equals none that another was promised."""
    # It must not count against itself.
    without = {row: (pod,)}
    beside = state.nominations.beside(pod, row) if state.nominations else None
    if beside:
        found = nominate(state, row, Change({row: tuple(beside.values())}, without))
        if found[0] is not None:
            return found
    return nominate(state, row, Change(removed=without))


def nominate(
    state: OwnerState, row: int, change: Change = NONE
) -> tuple[Offer | None, list[Offer]]:
    """Choose the offer an owner takes on a row, and the others it may draw on, in order.

    Lowest order label first; without labels the highest score; then the oldest, then by name.
    """
    here = state.on_row(row)
    if here is None:
        return None, []
    found = fit(here, change)
    scores, columns, slots = offer_scores(here), state.offers.columns, here.match.slots

    def age(i: int) -> tuple[float, str]:
        slot = int(slots[i])
        return float(columns.created[slot]), state.offers.at(slot).reservation.name

    def rank(i: int) -> tuple[int, int, tuple[float, str]]:
        order = int(columns.order[slots[i]])
        return (order or _NO_ORDER, 0 if order else -int(scores[i]), age(i))

    serving = found.serves.nonzero()[0]
    if not len(serving):
        return None, []
    best = min((int(i) for i in serving), key=rank)
    chosen = state.offers.at(int(slots[best]))
    if chosen.policy != "":
        return chosen, []
    beside = (columns.default[slots] & found.shares).nonzero()[0]
    others = sorted(
        (int(i) for i in beside if int(i) != best),
        key=lambda i: (int(columns.order[slots[i]]) or _NO_ORDER, age(i)),
    )
    return chosen, [state.offers.at(int(slots[i])) for i in others]


def why_none(state: OwnerState, row: int) -> str:
    """Why no offer can be nominated on a row."""
    here = state.on_row(row)
    if here is None:
        return NO_MATCH
    return TAKEN if none_matchable(state, row) else NONE_MEETS
