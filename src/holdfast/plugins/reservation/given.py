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
    """Work out a change: what victims drew goes back to their offers, the rest to the row."""
    given = Given({}, {})
    for row in {*change.removed, *change.added}:
        room, slots = change.freed(row)
        to_row = given.rows[int(row)] = {**room, PODS: slots}
        for offer, held, lent in offers.regained(pod.uid for pod in change.removed.get(row, ())):
            given.slots[offer.slot] = dict(lent)
            for resource, amount in held.items():
                to_row[resource] = to_row.get(resource, 0) - amount
    return given


def _picked(amounts: Amounts, places: NDArray[np.intp], resource: int) -> Ints | int:
    if not amounts:
        return 0
    return np.array([amounts.get(int(p), {}).get(resource, 0) for p in places], np.int64)
