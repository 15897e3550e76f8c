"""Room as an owner sees it: what its offers hold is not taken, only what their owners use is.

For filters that is a matter of policies, offer by offer. For scores it is simple: where a pod has
offers that can still be had, what they hold beside their owners does not count as taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.matching import Match
from holdfast.columns.picture import Picture

if TYPE_CHECKING:
    from holdfast.capacity.offers import Offers

Rows = NDArray[np.intp]
Ints = NDArray[np.int64]
_NOTHING: Mapping[int, int] = {}


class Lifted:
    """What the offers of one match hold, by row; read from the ledger as it is now."""

    __slots__ = ("_known", "_match", "_nodes", "_offers", "_seq", "_slots_at")

    def __init__(self, offers: Offers, match: Match, nodes: Picture) -> None:
        self._offers = offers
        self._match = match
        self._nodes = nodes
        self._slots_at: dict[int, list[int]] = {}
        self._seq = -1
        self._known: dict[int, Mapping[int, int]] = {}

    def among(self, rows: Rows | slice) -> tuple[Rows, Rows]:
        """Those of some rows that have a matched offer: their positions, and the rows."""
        mine = self._match.rows
        if isinstance(rows, slice):
            start, stop = rows.start or 0, rows.stop
            here = mine[mine.searchsorted(start) : mine.searchsorted(stop)]
            return here - start, here
        there = mine.take(mine.searchsorted(rows), mode="clip")
        positions = (there == rows).nonzero()[0]
        return positions, rows[positions]

    def many(self, resource: int, rows: Rows) -> Ints:
        """What is held of a resource on rows that have a matched offer."""
        match, columns = self._match, self._offers.columns
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
            slots = self._slots_at[row] = self._match.slots_at(row)
        offers = self._offers
        takable = [offers.at(slot) for slot in slots if offers.columns.matchable_at[slot]]
        if len(takable) == 1:
            return takable[0].top_up
        found: dict[int, int] = {}
        for offer in takable:
            for resource, amount in offer.top_up.items():
                found[resource] = found.get(resource, 0) + amount
        return found or _NOTHING
