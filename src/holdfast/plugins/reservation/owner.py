"""Tell whether an owner fits in what is free on a row plus what is left of its offers there.

For an offer c on a row, with ``free`` what nobody holds::

    Aligned, Restricted   request <= free + remaining(c)
    Default               request <= free + remaining of all matched Default offers of the row
    Restricted, besides   request <= remaining(c) for every restricted resource

A pod slot comes from what is free or from the offer itself, under every policy. All of it as
columns over the matched offers, folded to rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.matching import Match
from holdfast.capacity.offers import Offer, Offers
from holdfast.columns.interner import PODS
from holdfast.columns.picture import Picture
from holdfast.framework.plugin import NONE, Change

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OwnerState:
    """What owners of the same offers with the same request have in common."""

    nodes: Picture
    offers: Offers
    match: Match
    request: tuple[tuple[int, int], ...]
    must: bool
    """The pod has a reservation affinity: it uses an offer or waits."""
    order: Ints
    """Order label per matched offer, 0 for none."""
    age_rank: Ints
    """Rank by age, then name, per matched offer: 0 is the oldest."""
    default: Bools
    restricted: tuple[frozenset[int] | None, ...]
    """Which resources a Restricted offer limits; None for other policies."""
    slot_in_rows: NDArray[np.intp]
    """Position of each matched offer's row in ``match.rows``."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What became of each matched offer (by position) and of each matched row."""

    shares: Bools
    """The offer has a resource the pod asks for (or the pod must use an offer)."""
    by_node: Bools
    """The node has the room, with the offer's help."""
    inside: Bools
    """The offer itself has the room its policy demands."""
    plain: Bools
    """Per row: the pod fits without any offer."""
    passes: Bools
    """Per row: some offer serves, or none shares a resource and the pod fits without."""

    @property
    def serves(self) -> Bools:
        """Per offer: it can serve the pod."""
        found: Bools = self.shares & self.by_node & self.inside
        return found


def make_state(
    nodes: Picture,
    offers: Offers,
    match: Match,
    request: tuple[tuple[int, int], ...],
    *,
    must: bool,
) -> OwnerState:
    """Collect what stays the same until offers or owners change."""
    found = [offers.at(int(slot)) for slot in match.slots]
    by_age = sorted(range(len(found)), key=lambda i: _age(found[i]))
    rank = np.empty(len(found), np.int64)
    rank[by_age] = np.arange(len(found))
    return OwnerState(
        nodes=nodes,
        offers=offers,
        match=match,
        request=request,
        must=must,
        order=np.array([offer.order for offer in found], np.int64),
        age_rank=rank,
        default=np.array([offer.policy == "" for offer in found], np.bool_),
        restricted=tuple(o.restricted if o.policy == "Restricted" else None for o in found),
        slot_in_rows=np.searchsorted(match.rows, match.row_of_slot),
    )


def fit(state: OwnerState, change: Change = NONE) -> Fit:
    """Work out, from the columns as they are now, which offers can serve the pod."""
    nodes, offers, match = state.nodes, state.offers, state.match
    slots, rows, at = match.slots, match.rows, state.slot_in_rows
    count = len(slots)
    by_node, inside = np.ones(count, np.bool_), np.ones(count, np.bool_)
    shares = np.full(count, state.must, np.bool_)
    back = _given_back(state, change) if change else _Given({}, {})
    slots_free = free_of(nodes, PODS, rows)
    slots_free += back.pods(rows)
    plain = slots_free >= 1
    by_node &= slots_free[at] + offers.remaining[PODS, slots] + back.to_offers(slots, PODS) >= 1
    inside &= ~_limits(state, PODS) | (offers.remaining[PODS, slots] >= 1)
    for resource, wanted in state.request:
        if resource >= offers.remaining.shape[0]:
            reserved = remaining = np.zeros(count, np.int64)
        else:
            reserved = offers.reserved[resource, slots]
            remaining = offers.remaining[resource, slots] + back.to_offers(slots, resource)
        shares |= reserved > 0
        free = free_of(nodes, resource, rows)
        free += back.to_rows(rows, resource)
        plain &= free >= wanted
        pooled = np.bincount(at, np.where(state.default, remaining, 0), len(rows)).astype(np.int64)
        help_ = np.where(state.default, pooled[at], remaining)
        by_node &= free[at] + help_ >= wanted
        inside &= ~_limits(state, resource) | (remaining >= wanted)
    serves = shares & by_node & inside
    served = np.bincount(at, serves, len(rows)) > 0
    without = np.bincount(at, shares, len(rows)) == 0
    passes = served | (without & plain)
    return Fit(shares, by_node, inside, plain, passes)


def free_of(nodes: Picture, resource: int, rows: NDArray[np.intp]) -> Ints:
    """What nobody holds of a resource on some rows; nothing, if no node ever had any."""
    if resource >= len(nodes.allocatable):
        return np.zeros(len(rows), np.int64)
    free: Ints = nodes.allocatable[resource, rows] - nodes.requested[resource, rows]
    return free


def _limits(state: OwnerState, resource: int) -> Bools:
    """Tell which matched offers limit owners to what they have of a resource."""
    return np.array([r is not None and resource in r for r in state.restricted], np.bool_)


def offer_scores(state: OwnerState) -> Ints:
    """Score each matched offer 0..100: how full it would be, averaged over what it reserves."""
    offers, slots = state.offers, state.match.slots
    request = dict(state.request)
    total = np.zeros(len(slots), np.int64)
    counted = np.zeros(len(slots), np.int64)
    for resource in range(offers.reserved.shape[0]):
        reserved = offers.reserved[resource, slots]
        if not reserved.any():
            continue
        then = offers.used[resource, slots] + request.get(resource, 0)
        held = reserved > 0
        full = np.where(held & (then <= reserved), 100 * then // np.maximum(reserved, 1), 0)
        total += full
        counted += held
    scores: Ints = total // np.maximum(counted, 1)
    return scores


def nominate(
    state: OwnerState, row: int, change: Change = NONE
) -> tuple[Offer | None, list[Offer]]:
    """Choose the offer an owner takes on a row, and the others it may draw on, in order.

    Lowest order label first; without labels the highest score; then the oldest, then by name.
    """
    found = fit(state, change)
    here = ((state.match.row_of_slot == row) & found.serves).nonzero()[0]
    if not len(here):
        return None, []
    scores = offer_scores(state)

    def rank(i: int) -> tuple[int, int, int]:
        order = int(state.order[i])
        return (order or 2**62, 0 if order else -int(scores[i]), int(state.age_rank[i]))

    best = min((int(i) for i in here), key=rank)
    chosen = state.offers.at(int(state.match.slots[best]))
    if chosen.policy != "":
        return chosen, []
    beside = ((state.match.row_of_slot == row) & state.default & found.shares).nonzero()[0]
    others = sorted(
        (int(i) for i in beside if int(i) != best),
        key=lambda i: (int(state.order[i]) or 2**62, int(state.age_rank[i])),
    )
    return chosen, [state.offers.at(int(state.match.slots[i])) for i in others]


@dataclass(frozen=True, slots=True)
class _Given:
    """Amounts a change gives back (or takes, if negative): to rows, and to offers by slot."""

    rows: dict[int, dict[int, int]]
    slots: dict[int, dict[int, int]]

    def to_rows(self, rows: NDArray[np.intp], resource: int) -> Ints | int:
        if not self.rows:
            return 0
        return np.array([self.rows.get(int(r), {}).get(resource, 0) for r in rows], np.int64)

    def pods(self, rows: NDArray[np.intp]) -> Ints | int:
        return self.to_rows(rows, PODS)

    def to_offers(self, slots: NDArray[np.intp], resource: int) -> Ints | int:
        if not self.slots:
            return 0
        return np.array([self.slots.get(int(s), {}).get(resource, 0) for s in slots], np.int64)


def _given_back(state: OwnerState, change: Change) -> _Given:
    """A victim that draws on an offer gives back to the offer, any other to the node."""
    given = _Given({}, {})
    for sign, side in ((1, change.removed), (-1, change.added)):
        for row, pods in side.items():
            to_row = given.rows.setdefault(int(row), {})
            for facts in pods:
                to_row[PODS] = to_row.get(PODS, 0) + sign
                draws = state.offers.draws_of(facts.uid) if sign > 0 else {}
                left = dict(facts.request)
                for slot, amounts in draws.items():
                    to_slot = given.slots.setdefault(slot, {})
                    for resource, amount in amounts.items():
                        to_slot[resource] = to_slot.get(resource, 0) + amount
                        left.pop(resource, None)
                for resource, amount in left.items():
                    to_row[resource] = to_row.get(resource, 0) + sign * amount
    return given


def _age(offer: Offer) -> tuple[str, str]:
    meta = offer.reservation.metadata
    return (meta.creation_timestamp or "", meta.name)
