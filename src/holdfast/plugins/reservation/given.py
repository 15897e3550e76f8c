"""What a hypothesis gives back: pods taken away free room on their node, or in their offers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.offers import Offers
from holdfast.columns.interner import PODS
from holdfast.framework.plugin import Change

Ints = NDArray[np.int64]
Amounts = dict[int, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Given:
    """Amounts given back (taken, if negative) to rows, and to offers by slot."""

    rows: Amounts
    slots: Amounts

    def to_rows(self, rows: NDArray[np.intp], resource: int) -> Ints | int:
        """What each row gets of a resource."""
        return _picked(self.rows, rows, resource)

    def to_offers(self, slots: NDArray[np.intp], resource: int) -> Ints | int:
        """What each offer gets of a resource."""
        return _picked(self.slots, slots, resource)


NOTHING = Given({}, {})


def given_back(offers: Offers, change: Change) -> Given:
    """Work out a change: a victim that draws on an offer gives back to it, any other to the row."""
    given = Given({}, {})
    for sign, side in ((1, change.removed), (-1, change.added)):
        for row, pods in side.items():
            to_row = given.rows.setdefault(int(row), {})
            for facts in pods:
                to_row[PODS] = to_row.get(PODS, 0) + sign
                draws = offers.draws_of(facts.uid) if sign > 0 else {}
                left = dict(facts.request)
                for slot, amounts in draws.items():
                    to_slot = given.slots.setdefault(slot, {})
                    for resource, amount in amounts.items():
                        to_slot[resource] = to_slot.get(resource, 0) + amount
                        left.pop(resource, None)
                for resource, amount in left.items():
                    to_row[resource] = to_row.get(resource, 0) + sign * amount
    return given


def _picked(amounts: Amounts, places: NDArray[np.intp], resource: int) -> Ints | int:
    if not amounts:
        return 0
    return np.array([amounts.get(int(p), {}).get(resource, 0) for p in places], np.int64)
