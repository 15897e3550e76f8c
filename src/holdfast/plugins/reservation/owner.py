"""Tell whether an owner fits in what is free on a row plus what is left of its offers there.

For an offer c on a row, with ``free`` what nobody holds::

    Aligned, Restricted   request <= free + remaining(c)
    Default               request <= free + remaining of all matched Default offers of the row
    Restricted, besides   request <= remaining(c) for every restricted resource

All of it as columns over the matched offers, folded to rows. A row whose offers are all taken, or
share no resource with the pod, is judged as if there were none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.matching import Match
from holdfast.capacity.offer import Offer
from holdfast.capacity.offers import Offers
from holdfast.columns.interner import PODS
from holdfast.columns.picture import Picture
from holdfast.framework.plugin import NONE, Change
from holdfast.plugins.reservation.given import NOTHING, given_back

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_NO_ORDER = 2**62


@dataclass(frozen=True, slots=True)
class Fit:
    """What became of each matched offer (by position) and of each matched row."""

    shares: Bools
    """The offer can be had and has a resource the pod asks for (or the pod must use one)."""
    by_node: Bools
    """The node has the room, with the offer's help."""
    inside: Bools
    """The offer itself has the room its policy demands."""
    passes: Bools
    """Per row: some offer serves, or none is to be had, none needed, and the pod fits without."""

    @property
    def serves(self) -> Bools:
        """Per offer: it can serve the pod."""
        found: Bools = self.shares & self.by_node & self.inside
        return found


@dataclass(slots=True)
class OwnerState:
    """What owners of the same offers with the same request have in common."""

    nodes: Picture
    offers: Offers
    match: Match
    request: tuple[tuple[int, int], ...]
    must: bool
    """The pod has a reservation affinity: it uses an offer or waits."""
    backed: frozenset[int] = frozenset()
    """Resources that devices serve on nodes which have none of their own: no room is needed."""
    _seen: tuple[int, Fit] | None = field(default=None, repr=False)

    def fit(self) -> Fit:
        """How things are now; worked out once until a row changes."""
        seq = self.nodes.seq
        if self._seen is None or self._seen[0] != seq:
            self._seen = (seq, fit(self))
        return self._seen[1]

    def on_row(self, row: int) -> OwnerState | None:
        """The same, looking at one row alone; None for a row without a matched offer."""
        match = self.match
        here = int(np.searchsorted(match.rows, row))
        if here == len(match.rows) or match.rows[here] != row:
            return None
        begin = int(match.first[here])
        end = int(match.first[here + 1]) if here + 1 < len(match.rows) else len(match.slots)
        slots = match.slots[begin:end]
        only = Match(
            match.key, slots, match.rows[here : here + 1], np.zeros(1, np.intp),
            np.zeros(len(slots), np.intp),
        )  # fmt: skip
        return replace(self, match=only, _seen=None)


def fit(state: OwnerState, change: Change = NONE) -> Fit:
    """Work out, from the columns as they are now, which offers can serve the pod."""
    nodes, columns, match = state.nodes, state.offers.columns, state.match
    slots, rows, at = match.slots, match.rows, match.at
    back = given_back(state.offers, change) if change else NOTHING
    pools = columns.default[slots] & columns.matchable[slots]
    slots_free = free_of(nodes, PODS, rows) + back.to_rows(rows, PODS)
    slots_left = columns.remaining[PODS, slots] + back.to_offers(slots, PODS)
    plain = slots_free >= 1
    by_node = slots_free[at] + slots_left >= 1
    inside = ~columns.limits[PODS, slots] | (slots_left >= 1)
    shares = np.full(len(slots), state.must, np.bool_)
    for resource, wanted in state.request:
        free = room_for(state, resource, wanted) + back.to_rows(rows, resource)
        plain &= free >= wanted
        if resource >= len(columns.remaining):
            by_node &= free[at] >= wanted
            continue
        left = columns.remaining[resource, slots] + back.to_offers(slots, resource)
        shares |= columns.reserved[resource, slots] > 0
        pooled = np.add.reduceat(np.where(pools, left, 0), match.first)
        by_node &= free[at] + np.where(pools, pooled[at], left) >= wanted
        inside &= ~columns.limits[resource, slots] | (left >= wanted)
    shares &= columns.matchable[slots]
    served = np.logical_or.reduceat(shares & by_node & inside, match.first)
    without = ~np.logical_or.reduceat(shares, match.first)
    passes = served if state.must else served | (without & plain)
    return Fit(shares, by_node, inside, passes)


def room_for(state: OwnerState, resource: int, wanted: int) -> Ints:
    """What nobody holds of a resource on the matched rows; enough, where devices serve it."""
    nodes, rows = state.nodes, state.match.rows
    free = free_of(nodes, resource, rows)
    if resource not in state.backed:
        return free
    own = resource < len(nodes.allocatable) and nodes.allocatable[resource, rows] > 0
    found: Ints = np.where(own, free, wanted)
    return found


def free_of(nodes: Picture, resource: int, rows: NDArray[np.intp]) -> Ints:
    """What nobody holds of a resource on some rows; nothing, if no node ever had any."""
    if resource >= len(nodes.allocatable):
        return np.zeros(len(rows), np.int64)
    free: Ints = nodes.allocatable[resource, rows] - nodes.requested[resource, rows]
    return free


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
        best[np.logical_or.reduceat(lowest, first)] = 1000
    return best


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
