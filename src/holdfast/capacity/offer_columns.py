"""The numbers of all offers, one column entry an offer slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.offer import Offer
from holdfast.columns.interner import PODS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_FIRST_SLOTS = 16


class OfferColumns:
    """Amounts are [resource, slot] in base units; everything else is [slot].

    ``row`` is the node row or -1, ``order`` the order label or 0, ``created`` the creation time,
    ``drawn`` whether some pod draws on it. ``limits[r, k]`` tells whether a Restricted offer limits
    its owners in a resource.
    """

    __slots__ = ("created", "default", "drawn", "limits", "matchable", "open", "order", "remaining",
                 "reserved", "resources", "row", "used")  # fmt: skip

    def __init__(self) -> None:
        self.remaining: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.reserved: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.used: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.limits: Bools = np.zeros((PODS + 1, _FIRST_SLOTS), np.bool_)
        self.matchable: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.open: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.drawn: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.default: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.order: Ints = np.zeros(_FIRST_SLOTS, np.int64)
        self.created: NDArray[np.float64] = np.zeros(_FIRST_SLOTS, np.float64)
        self.row: NDArray[np.intp] = np.full(_FIRST_SLOTS, -1, np.intp)
        self.resources: list[int] = []
        """Resources some offer reserves or reserved; the only ones worth looking at."""

    def make_room(self, resources: int, slots: int) -> None:
        """Grow to at least so many resources and slots."""
        width, length = self.remaining.shape
        if resources <= width and slots <= length:
            return
        width, length = max(width, resources), length if slots <= length else 2 * slots
        for name in ("remaining", "reserved", "used", "limits"):
            old = getattr(self, name)
            new = np.zeros((width, length), old.dtype)
            new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)
        for name in ("matchable", "open", "drawn", "default", "order", "created", "row"):
            old = getattr(self, name)
            new = np.full(length, -1 if name == "row" else 0, old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def write(self, offer: Offer, row: int, created: float) -> dict[int, int]:
        """Enter an offer's numbers; answers what must be held beside its owners."""
        slot = offer.slot
        for column in (self.reserved, self.used, self.remaining, self.limits):
            column[:, slot] = 0
        top_up = {}
        for resource, amount in offer.reserved.items():
            used, inner = offer.used(resource), offer.inner.get(resource, 0)
            self.reserved[resource, slot] = amount
            self.used[resource, slot] = used
            self.remaining[resource, slot] = max(0, amount - inner - used)
            if resource != PODS:
                top_up[resource] = max(amount, used + inner) - used
            if resource not in self.resources:
                self.resources.append(resource)
        self.remaining[PODS, slot] = offer.slots
        if offer.policy == "Restricted":
            self.limits[list(offer.restricted), slot] = True
        self.matchable[slot] = offer.matchable
        self.open[slot] = offer.open
        self.drawn[slot] = bool(offer.draws)
        self.default[slot] = offer.policy == ""
        self.order[slot] = offer.order
        self.created[slot] = created
        self.row[slot] = row
        return top_up

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.matchable[slot] = self.drawn[slot] = False
        self.row[slot] = -1
        self.remaining[:, slot] = 0

    def fork(self) -> OfferColumns:
        """An independent copy."""
        copy = OfferColumns()
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name).copy())
        return copy
