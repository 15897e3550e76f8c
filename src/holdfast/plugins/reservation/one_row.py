"""The scalar twin of ``owner``: how an owner fares on one row, in plain integers.

After a placement one row has changed, and an owner takes its offer on one row: through arrays
either would cost ten times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.capacity.held_room import NOTHING, FreedCapacity
from holdfast.capacity.offer import Offer
from holdfast.columns.interner import PODS
from holdfast.framework.plugin import Code
from holdfast.plugins.reservation.owner import OwnerState


class Chance(NamedTuple):
    """What became of one offer on the row; the words are those of ``owner.Fit``."""

    offer: Offer
    shares: bool
    by_node: bool
    inside: bool
    gives: bool = True

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

    @property
    def nominable(self) -> list[Offer]:
        """Those that can be nominated: of Default ones none that gives nothing, if another does."""
        serving = [chance for chance in self.chances if chance.serves]
        if len(serving) > 1 and any([c.gives and c.offer.policy == "" for c in serving]):
            serving = [c for c in serving if c.gives or c.offer.policy != ""]
        return [chance.offer for chance in serving]


class Terms(NamedTuple):
    """One matched offer of a row, and what never changes about it for the pod."""

    offer: Offer
    shares: bool
    """It reserves a resource or a port the pod asks for, or the pod must use one."""
    pools: bool
    """What is left of it adds up with others."""
    limits: tuple[bool, ...]
    """For the pod slot and each resource asked for: the pod may have no more than is left."""
    asked: tuple[bool, ...]
    """And: it reserves some of it, which tells it from others."""


class Site(NamedTuple):
    """The matched offers of a row, and where they begin among all matched ones."""

    begin: int
    terms: tuple[Terms, ...]


def judge(state: OwnerState, row: int, back: FreedCapacity = NOTHING) -> OneRow | None:
    """Judge one row, were something given back to it; None for a row without a matched offer."""
    site = state.sites.get(row) or _look_up(state, row)
    if not site.terms:
        return None
    if len(site.terms) == 1 and back is NOTHING and not (state.backed or state.offers.waiting):
        return _judge_only(state, row, site)
    offers = [terms.offer for terms in site.terms]
    takable = [offer.matchable or offer.slot in back.vacated for offer in offers]
    gives = [bool(state.ports & offer.facts.host_ports) for offer in offers]
    pools = [can and terms.pools for terms, can in zip(site.terms, takable, strict=True)]
    by_node, inside, plain = [True] * len(offers), [True] * len(offers), True
    for place, (resource, wanted) in enumerate(state.needs):
        free = _room_for(state, row, resource, wanted, back)
        plain &= free >= wanted
        left = [_left(offer, resource, back) for offer in offers]
        # A pod slot is one offer's: several have no more than one to give.
        alone = resource == PODS and not state.ignoring
        pooled = 0 if alone else sum([a for a, pooling in zip(left, pools, strict=True) if pooling])
        for i, terms in enumerate(site.terms):
            own = left[i]
            gives[i] |= own > 0 and terms.asked[place]
            by_node[i] &= free + (own if alone or not pools[i] else pooled) >= wanted
            if own < wanted and terms.limits[place]:
                inside[i] = False
    required = state.must or state.ignoring
    chances = [
        Chance(
            terms.offer,
            takable[i] and terms.shares and (required or gives[i] or not inside[i]),
            by_node[i], inside[i], gives[i],
        )
        for i, terms in enumerate(site.terms)
    ]  # fmt: skip
    return _concluded(state, site, tuple(chances), plain=plain)


def _judge_only(state: OwnerState, row: int, site: Site) -> OneRow:
    """The same for the one offer of a row, as things are: what owners mostly meet."""
    offer, shares, _, limits, asked = site.terms[0]
    columns, free_at, slot = state.offers.columns, state.nodes.amounts.free_at, offer.slot
    remaining_at = columns.remaining_at
    plain = by_node = inside = True
    gives = state.must or state.ignoring or bool(state.ports & offer.facts.host_ports)
    for place, (resource, wanted) in enumerate(state.needs):
        free = free_at[resource][row]
        if free < 0:
            free = _unawaited(state, row, resource, free)
        left = remaining_at[resource][slot] if resource < len(remaining_at) else 0
        if free < wanted:
            plain = False
            if free + left < wanted:
                by_node = False
        if left < wanted and limits[place]:
            inside = False
        if left > 0 and asked[place]:
            gives = True
    shares = shares and columns.matchable_at[slot] and (gives or not inside)
    chance = Chance(offer, shares, by_node, inside)
    return _concluded(state, site, (chance,), plain=plain)


def _concluded(
    state: OwnerState, site: Site, chances: tuple[Chance, ...], *, plain: bool
) -> OneRow:
    passes = any([chance.serves for chance in chances])
    if not (passes or state.must):
        passes = plain and (state.falls_back or not any([chance.shares for chance in chances]))
    return OneRow(site.begin, chances, passes)


def _look_up(state: OwnerState, row: int) -> Site:
    """Find the matched offers of a row; they are the same as long as the state is."""
    match = state.match
    here = int(match.rows.searchsorted(row))
    if here == len(match.rows) or match.rows[here] != row:
        return Site(0, ())
    begin = int(match.first[here])
    end = int(match.first[here + 1]) if here + 1 < len(match.rows) else len(match.slots)
    offers = [state.offers.at(slot) for slot in match.slots[begin:end].tolist()]
    found = state.sites[row] = Site(begin, tuple([_terms(state, offer) for offer in offers]))
    return found


def _terms(state: OwnerState, offer: Offer) -> Terms:
    asked = [r for r, _ in state.request if r not in state.ignored]
    shares = state.must or state.ignoring or bool(state.ports & offer.facts.host_ports)
    reserves = [r in asked and offer.reserved.get(r, 0) > 0 for r, _ in state.needs]
    counted = () if state.ignoring else (PODS, *asked)
    limits = tuple([r in counted and offer.limits(r) for r, _ in state.needs])
    pools = state.ignoring or offer.policy == ""
    return Terms(offer, shares or any(reserves), pools, limits, tuple(reserves))


def offer_score(offer: Offer, request: Mapping[int, int]) -> int:
    """Score one offer 0..100: how full it would be, averaged over what it reserves."""
    total = counted = 0
    used = offer.drawn.sums
    for resource, reserved in offer.reserved.items():
        if reserved > 0:
            counted += 1
            then = used.get(resource, 0) + request.get(resource, 0)
            if then <= reserved:
                total += 100 * then // reserved
    return total // counted if counted else 0


def _room_for(state: OwnerState, row: int, resource: int, wanted: int, back: FreedCapacity) -> int:
    amounts = state.nodes.amounts
    known = resource < amounts.width
    free = amounts.free_at[resource][row] if known else 0
    if resource in state.backed and not (known and amounts.allocatable_at[resource][row] > 0):
        free = wanted
    if back.rows:
        free += back.rows.get(row, {}).get(resource, 0)
    return free if free >= 0 else _unawaited(state, row, resource, free)


def _unawaited(state: OwnerState, row: int, resource: int, free: int) -> int:
    """What is free but for offers that wait: they take none from what other offers still have."""
    waiting = state.offers.waiting
    return min(0, free + waiting.held(state.nodes.names[row], resource)) if waiting else free


def _left(offer: Offer, resource: int, back: FreedCapacity) -> int:
    left = offer.left(resource)
    return left + back.slots.get(offer.slot, {}).get(resource, 0) if back.slots else left
