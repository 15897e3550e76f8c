"""Which offer an owner takes on a row, and which others it may draw on besides."""

from __future__ import annotations

from holdfast.capacity.given import NOTHING, given_back
from holdfast.capacity.offer import Offer
from holdfast.columns.pod_facts import PodFacts
from holdfast.framework.plugin import NONE, Change
from holdfast.plugins.reservation.one_row import OneRow, judge, offer_score
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.words import NO_MATCH, NONE_MEETS, none_matchable

_NO_ORDER = 2**63
"""After every label there can be."""
TAKEN = "reservation has allocateOnce enabled and has already been allocated"


def take(state: OwnerState, pod: PodFacts, row: int) -> tuple[Offer | None, list[Offer]]:
    """Choose for an owner that is assumed on its row: of equals none that another was promised."""
    # It must not count against itself.
    without = {row: (pod,)}
    beside = state.nominations.beside(pod, row) if state.nominations else None
    if beside:
        found = nominate(state, row, Change({row: tuple(beside.values())}, without))
        if found[0] is not None:
            return found
    before = state.kept.before(row) if state.kept is not None else None
    if before is not None:
        return choose(state, before)
    return nominate(state, row, Change(removed=without))


def nominate(
    state: OwnerState, row: int, change: Change = NONE
) -> tuple[Offer | None, list[Offer]]:
    """Choose the offer an owner takes on a row, and the others it may draw on, in order."""
    found = judge(state, row, given_back(state.offers, change) if change else NOTHING)
    return choose(state, found)


def choose(state: OwnerState, found: OneRow | None) -> tuple[Offer | None, list[Offer]]:
    """Choose among the offers of a row that was judged.

    Lowest order label first; without labels the highest score; then the oldest, then by name.
    """
    serving = found.nominable if found is not None else []
    if found is None or not serving:
        return None, []
    request = state.compared

    def rank(offer: Offer) -> tuple[int, int, tuple[float, str]]:
        score = 0 if offer.order else -offer_score(offer, request)
        return (offer.order or _NO_ORDER, score, _age(offer))

    chosen = min(serving, key=rank) if len(serving) > 1 else serving[0]
    if chosen.policy != "":
        return chosen, []
    beside = [
        chance.offer
        for chance in found.chances
        if chance.shares and chance.offer.policy == "" and chance.offer is not chosen
    ]
    return chosen, sorted(beside, key=lambda offer: (offer.order or _NO_ORDER, _age(offer)))


def _age(offer: Offer) -> tuple[float, str]:
    return offer.created, offer.reservation.name


def why_none(state: OwnerState, row: int) -> str:
    """Why no offer can be nominated on a row."""
    here = state.on_row(row)
    if here is None:
        return NO_MATCH
    return TAKEN if none_matchable(state, row) else NONE_MEETS
