"""What offers hold on a row, as one pod sees it, and as a hypothesis changes it.

An owner does not count as taken what its offers hold, only what their owners use. For filters that
is a matter of policies, offer by offer. For scores it is simple: where a pod has offers that can
still be had, what they hold beside their owners does not count as taken.

Under a hypothesis, pods taken away free room on their node, or in their offers. Pods that come
take it. One that owns an offer on the row, say because it made room for itself there, is taken to
draw on it: that room is not for other owners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.matching import OfferMatch
from holdfast.capacity.offer import Offer
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.request_fit import short_of

if TYPE_CHECKING:
    from holdfast.capacity.offers import Offers


Rows = NDArray[np.intp]
Ints = NDArray[np.int64]
_NOTHING: Mapping[int, int] = {}
RowAmounts = dict[int, dict[int, int]]


class Lifted:
    """What the offers of one match hold, by row; read from the ledger as it is now."""

    __slots__ = ("_known", "_nodes", "_offers", "_seq", "_slots_at", "match")

    def __init__(self, offers: Offers, match: OfferMatch, nodes: NodeTable) -> None:
        self._offers = offers
        self.match = match
        self._nodes = nodes
        self._slots_at: dict[int, list[int]] = {}
        self._seq = -1
        self._known: dict[int, Mapping[int, int]] = {}

    def among(self, rows: Rows | slice) -> tuple[Rows, Rows]:
        """Those of some rows that have a matched offer: their positions, and the rows."""
        mine = self.match.rows
        if isinstance(rows, slice):
            start, stop = rows.start or 0, rows.stop
            here = mine[mine.searchsorted(start) : mine.searchsorted(stop)]
            return here - start, here
        there = mine.take(mine.searchsorted(rows), mode="clip")
        positions = (there == rows).nonzero()[0]
        return positions, rows[positions]

    def many(self, resource: int, rows: Rows) -> Ints:
        """What is held of a resource on rows that have a matched offer."""
        match, columns = self.match, self._offers.columns
        if resource >= len(columns.held):
            return np.zeros(len(rows), np.int64)
        held = columns.held[resource].take(match.slots) * columns.matchable.take(match.slots)
        by_row: Ints = np.add.reduceat(held, match.first)
        if len(rows) == len(match.rows) and (rows == match.rows).all():
            return by_row
        return by_row[match.rows.searchsorted(rows)]

    def at(self, row: int) -> Mapping[int, int]:
        """What is held of each resource on a row."""
        seq = self._nodes.seq
        if self._seq != seq:
            self._seq, self._known = seq, {}
        found = self._known.get(row)
        if found is None:
            found = self._known[row] = self._held_at(row)
        return found

    def _held_at(self, row: int) -> Mapping[int, int]:
        slots = self._slots_at.get(row)
        if slots is None:
            slots = self._slots_at[row] = self.match.slots[self.match.span(row)].tolist()
        offers = self._offers
        takable = [offers.at(slot) for slot in slots if offers.columns.matchable_at[slot]]
        if len(takable) == 1:
            return takable[0].top_up
        found: dict[int, int] = {}
        for offer in takable:
            for resource, amount in offer.top_up.items():
                found[resource] = found.get(resource, 0) + amount
        return found or _NOTHING


@dataclass(frozen=True, slots=True)
class FreedCapacity:
    """Amounts given back (taken, if negative) to rows, and to offers by slot."""

    rows: RowAmounts
    slots: RowAmounts
    vacated: frozenset[int] = frozenset()
    """Offers, by slot, that serve once and could be had again: who took them is gone."""

    def to_rows(self, rows: NDArray[np.intp], resource: int) -> Ints | int:
        """What each row gets of a resource."""
        return _picked(self.rows, rows, resource)

    def to_offers(self, slots: NDArray[np.intp], resource: int) -> Ints | int:
        """What each offer gets of a resource."""
        return _picked(self.slots, slots, resource)


NOTHING = FreedCapacity({}, {})


class Moves(Protocol):
    """Pods that would come to rows, and leave them."""

    @property
    def added(self) -> Mapping[int, Sequence[PodInfo]]:
        """Who would come, by row."""
        ...

    @property
    def removed(self) -> Mapping[int, Sequence[PodInfo]]:
        """Who would leave, by row."""
        ...

    def freed_resources(self, row: int) -> tuple[dict[int, int], int]:
        """Room that would become free if nobody drew on anything, and pod slots."""
        ...


def given_back(offers: Offers, change: Moves) -> FreedCapacity:
    """Work out a change: what pods draw on offers moves there, the rest on the row."""
    given, vacated = FreedCapacity({}, {}), []
    for row in {*change.removed, *change.added}:
        room, slots = change.freed_resources(row)
        to_row = given.rows[int(row)] = {**room, PODS: slots}
        gone = {pod.uid for pod in change.removed.get(row, ())}
        coming, replaced = _draws_to_come(offers, int(row), change.added.get(row, ()), gone)
        for resource, amount in replaced.items():
            to_row[resource] = to_row.get(resource, 0) + amount
        for offer, held, lent in offers.regained(gone, coming):
            given.slots[offer.slot] = dict(lent)
            if offer.available and offer.draws.keys() <= gone:
                vacated.append(offer.slot)
            for resource, amount in held.items():
                to_row[resource] = to_row.get(resource, 0) - amount
    return replace(given, vacated=frozenset(vacated)) if vacated else given


def _draws_to_come(
    offers: Offers, row: int, pods: Sequence[PodInfo], gone: Collection[str]
) -> tuple[dict[tuple[str, str], Counter[int]], Counter[int]]:
    """What pods would draw on their offers beyond, and instead of, those who leave them."""
    found: dict[str, Counter[int]] = {}
    for pod in pods:
        offer = offer_for(offers, row, pod)
        if offer is not None:
            found.setdefault(offer.uid, Counter()).update({**dict(pod.request), PODS: 1})
    coming, replaced = {}, Counter[int]()
    for uid, drawn in found.items():
        offer = offers.by_uid[uid]
        left = Counter[int]()
        for leaving in set(offers.leaving(offer)).difference(gone):
            left.update(offer.draws[leaving])
        replaced += drawn & left
        coming[uid, offer.node] = drawn - left
    return coming, replaced


def offer_for(offers: Offers, row: int, pod: PodInfo) -> Offer | None:
    """The offer on a row that a pod will probably take: one that has, or will have, the room."""
    match = offers.match(pod)
    if match is None or match.ignoring:
        return None
    here = [offers.at(int(slot)) for slot in match.slots[offers.columns.row[match.slots] == row]]

    def rank(offer: Offer) -> tuple[bool, bool, bool, int, float, str]:
        asked = {r: amount for r, amount in pod.request if r in offer.reserved}
        full = bool(short_of(asked, {r: offer.left(r) for r in asked}))
        small = bool(short_of(asked, {r: offer.reserved[r] - offer.inner.get(r, 0) for r in asked}))
        by_label = (not offer.order, offer.order)
        return (full, small, *by_label, offer.created, offer.reservation.name)

    usable = [
        offer
        for offer in here
        if (offer.matchable or offer.waits) and any(r in offer.reserved for r, _ in pod.request)
    ]
    return min(usable, default=None, key=rank)


def _picked(amounts: RowAmounts, places: NDArray[np.intp], resource: int) -> Ints | int:
    if not amounts:
        return 0
    return np.array([amounts.get(int(p), {}).get(resource, 0) for p in places], np.int64)
