"""The scalar twin of ``owner``: how an owner fares on one row, in plain integers.

After a placement one row has changed, and an owner takes its offer on one row: through arrays
either would cost ten times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.capacity.offer import Offer
from holdfast.columns.interner import PODS
from holdfast.framework.plugin import Code
from holdfast.plugins.reservation.given import NOTHING, Given
from holdfast.plugins.reservation.owner import OwnerState


class Chance(NamedTuple):
    """What became of one offer on the row; the words are those of ``owner.Fit``."""

    offer: Offer
    shares: bool
    by_node: bool
    inside: bool

    @property
    def serves(self) -> bool:
        """Whether it can serve the pod."""
        return self.shares and self.by_node and self.inside


class OneRow(NamedTuple):
    """What became of each matched offer of a row, in the order of their slots, and of the row."""

    begin: int
    """Where the row's offers begin among all matched ones."""
    chances: tuple[Chance, ...]
    passes: bool

    def code(self, *, must: bool) -> Code:
        """The verdict; where every offer is taken and one is needed, nothing can help."""
        if self.passes:
            return Code.PASS
        taken = must and not any([chance.offer.matchable for chance in self.chances])
        return Code.UNRESOLVABLE if taken else Code.UNSCHEDULABLE

    @property
    def serving(self) -> list[Offer]:
        """The offers that can serve the pod."""
        return [chance.offer for chance in self.chances if chance.serves]


def judge(state: OwnerState, row: int, back: Given = NOTHING) -> OneRow | None:
    """Judge one row, were something given back to it; None for a row without a matched offer."""
    begin, offers = state.offers_at.get(row) or _look_up(state, row)
    if not offers:
        return None
    ignoring = state.ignoring
    takable = [offer.matchable for offer in offers]
    pools = takable if ignoring else _pooling(offers, takable)
    shares = [_wanted_anyhow(state, offer, ignoring=ignoring) for offer in offers]
    by_node, inside, plain = [True] * len(offers), [True] * len(offers), True
    for resource, wanted in ((PODS, 1), *state.request):
        free = _room_for(state, row, resource, wanted, back)
        plain &= free >= wanted
        left = [_left(offer, resource, back) for offer in offers]
        # A pod slot is one offer's: several have no more than one to give.
        alone = resource == PODS and not ignoring
        pooled = 0 if alone else sum([a for a, pooling in zip(left, pools, strict=True) if pooling])
        unasked = ignoring or resource in state.ignored
        for i, offer in enumerate(offers):
            own = left[i]
            by_node[i] &= free + (own if alone or not pools[i] else pooled) >= wanted
            if unasked:
                continue
            shares[i] |= resource != PODS and offer.reserved.get(resource, 0) > 0
            if own < wanted and offer.limits(resource):
                inside[i] = False
    found = zip(offers, shares, takable, by_node, inside, strict=True)
    chances = [Chance(o, can and shared, node, within) for o, shared, can, node, within in found]
    passes = any([chance.serves for chance in chances])
    if not (passes or state.must):
        passes = plain and (state.falls_back or not any([chance.shares for chance in chances]))
    return OneRow(begin, tuple(chances), passes)


def _look_up(state: OwnerState, row: int) -> tuple[int, list[Offer]]:
    """Find the matched offers of a row; they are the same as long as the state is."""
    match = state.match
    here = int(match.rows.searchsorted(row))
    if here == len(match.rows) or match.rows[here] != row:
        return 0, []
    begin = int(match.first[here])
    end = int(match.first[here + 1]) if here + 1 < len(match.rows) else len(match.slots)
    offers = [state.offers.at(slot) for slot in match.slots[begin:end].tolist()]
    found = state.offers_at[row] = (begin, offers)
    return found


def offer_score(offer: Offer, request: Mapping[int, int]) -> int:
    """Score one offer 0..100: how full it would be, averaged over what it reserves."""
    total = counted = 0
    for resource, reserved in offer.reserved.items():
        if reserved > 0:
            counted += 1
            then = offer.used(resource) + request.get(resource, 0)
            total += 100 * then // reserved if then <= reserved else 0
    return total // max(1, counted)


def _wanted_anyhow(state: OwnerState, offer: Offer, *, ignoring: bool) -> bool:
    if state.must or ignoring:
        return True
    return bool(state.ports and state.ports & offer.facts.host_ports)


def _pooling(offers: list[Offer], takable: list[bool]) -> list[bool]:
    return [can and offer.policy == "" for offer, can in zip(offers, takable, strict=True)]


def _room_for(state: OwnerState, row: int, resource: int, wanted: int, back: Given) -> int:
    amounts = state.nodes.amounts
    known = resource < amounts.width
    free = amounts.free_at[resource][row] if known else 0
    if resource in state.backed and not (known and amounts.allocatable_at[resource][row] > 0):
        free = wanted
    if back.rows:
        free += back.rows.get(row, {}).get(resource, 0)
    if free < 0 and state.offers.waiting:
        # Who waits for room that is not free takes none from other offers.
        return min(0, free + state.offers.waiting.held(state.nodes.names[row], resource))
    return free


def _left(offer: Offer, resource: int, back: Given) -> int:
    left = offer.left(resource)
    return left + back.slots.get(offer.slot, {}).get(resource, 0) if back.slots else left
