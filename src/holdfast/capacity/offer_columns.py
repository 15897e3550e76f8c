"""The numbers of all offers, one column entry an offer slot, and what they hold on rows.

The ledger says what an offer has; this enters it, so that everybody else finds it in the picture.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.offer import AmountsByResource, Offer
from holdfast.columns.cells import cells
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.unseen import Look, Looks

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_FIRST_SLOTS = 16
_WIDE = ("held", "remaining", "reserved", "used", "limits")
_FLAT = ("created", "default", "drawn", "laden", "look", "matchable", "open", "order", "row")
_FEW_LOOKS = 1024


class OfferColumns:
    """Amounts are [resource, slot] in base units; everything else is [slot].

    ``held`` is what it keeps from others beside its owners, pod slots apart.
    ``row`` is the node row or -1, ``order`` the order label or 0, ``created`` the creation time,
    ``drawn`` whether some pod draws on it. ``limits[r, k]`` tells whether a Restricted offer limits
    its owners in a resource. ``look`` is what its reserve pod looks like, ``laden`` whether that
    has ports or volumes. The ``*_at`` are the same columns, cell by cell.
    """

    __slots__ = (*_WIDE, *_FLAT, "held_at", "matchable_at", "remaining_at", "resources", "used_at")

    def __init__(self) -> None:
        self.held: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.remaining: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.reserved: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.used: Ints = np.zeros((PODS + 1, _FIRST_SLOTS), np.int64)
        self.limits: Bools = np.zeros((PODS + 1, _FIRST_SLOTS), np.bool_)
        self.matchable: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.open: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.drawn: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.default: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.laden: Bools = np.zeros(_FIRST_SLOTS, np.bool_)
        self.look: NDArray[np.int32] = np.zeros(_FIRST_SLOTS, np.int32)
        self.order: Ints = np.zeros(_FIRST_SLOTS, np.int64)
        self.created: NDArray[np.float64] = np.zeros(_FIRST_SLOTS, np.float64)
        self.row: NDArray[np.intp] = np.full(_FIRST_SLOTS, -1, np.intp)
        self.resources: list[int] = []
        """Resources some offer reserves or reserved; the only ones worth looking at."""
        self._open_cells()

    def _open_cells(self) -> None:
        self.held_at = [cells(column) for column in self.held]
        self.remaining_at = [cells(column) for column in self.remaining]
        self.used_at = [cells(column) for column in self.used]
        self.matchable_at = cells(self.matchable)

    def make_room(self, resources: int, slots: int) -> None:
        """Grow to at least so many resources and slots."""
        width, length = self.remaining.shape
        if resources <= width and slots <= length:
            return
        width, length = max(width, resources), length if slots <= length else 2 * slots
        for name in _WIDE:
            old = getattr(self, name)
            new = np.zeros((width, length), old.dtype)
            new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)
        for name in _FLAT:
            old = getattr(self, name)
            new = np.full(length, -1 if name == "row" else 0, old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        self._open_cells()

    def write(self, offer: Offer, row: int, look: int) -> None:
        """Enter an offer: what it says, and what its owners do."""
        slot = offer.slot
        for column in (self.held, self.reserved, self.used, self.remaining, self.limits):
            column[:, slot] = 0
        for resource, amount in offer.reserved.items():
            self.reserved[resource, slot] = amount
            if resource not in self.resources:
                self.resources.append(resource)
        if offer.policy == "Restricted":
            self.limits[list(offer.restricted), slot] = True
        self.open[slot] = offer.open
        self.default[slot] = offer.policy == ""
        self.order[slot] = offer.order
        self.created[slot] = offer.created
        self.laden[slot] = bool(offer.pod_info.host_ports or offer.pod_info.mounts)
        self.look[slot] = look
        self.row[slot] = row
        self.recount(offer)

    def recount(self, offer: Offer) -> AmountsByResource:
        """Enter what owners use of an offer; answers what it holds beside them."""
        slot, sums = offer.slot, offer.drawn.sums
        for resource in offer.reserved:
            self.used_at[resource][slot] = sums.get(resource, 0)
            self.remaining_at[resource][slot] = offer.left(resource)
        held = offer.top_up
        for resource, amount in held.items():
            self.held_at[resource][slot] = amount
        self.remaining_at[PODS][slot] = offer.left(PODS)
        self.matchable_at[slot] = offer.matchable
        self.drawn[slot] = bool(offer.draws)
        return held

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.matchable[slot] = self.drawn[slot] = False
        self.row[slot] = -1
        self.remaining[:, slot] = self.held[:, slot] = 0

    def fork(self) -> OfferColumns:
        """An independent copy."""
        copy = OfferColumns()
        for name in (*_WIDE, *_FLAT, "resources"):
            setattr(copy, name, getattr(self, name).copy())
        copy._open_cells()
        return copy


class Holding:
    """The columns of all offers, and what they hold in the picture.

    ``looks`` are what reserve pods look like; columns refer to them by id.
    """

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self.columns = OfferColumns()
        self.looks = Looks()

    def settle(self, offer: Offer, slots: int, everybody: Iterable[Offer]) -> None:
        """Enter an offer, one of so many slots, and hold its room if its node is there."""
        columns, node_table = self.columns, self._node_table
        columns.make_room(len(node_table.resources), slots)
        row = node_table.row_of.get(offer.node, -1)
        columns.write(offer, row, self._look(offer, slots, everybody))
        if row >= 0:
            node_table.add_reserve_pod(offer.pod_info, row)
        else:
            node_table.remove_reserve_pod(offer.uid)
        self._hold(offer, offer.top_up)

    def recount(self, offer: Offer) -> None:
        """Enter what owners use of an offer, and log its row: even if no less is held."""
        held = self.columns.recount(offer)
        row = int(self.columns.row[offer.slot])
        if not self._hold(offer, held) and row >= 0:
            self._node_table.journal.log(row)

    def clear(self, offer: Offer) -> None:
        """Let the room of an offer go."""
        self.columns.clear(offer.slot)
        self._node_table.release(offer.uid)
        self._node_table.remove_reserve_pod(offer.uid)

    def fork(self, node_table: NodeTable) -> Holding:
        """An independent copy over a fork of the picture, which has the holds already."""
        copy = Holding(node_table)
        copy.columns, copy.looks = self.columns.fork(), self.looks.fork()
        return copy

    def _hold(self, offer: Offer, amounts: AmountsByResource) -> bool:
        """Hold its room as it is now; tell whether that is news."""
        row = int(self.columns.row[offer.slot])
        if row < 0:
            self._node_table.release(offer.uid)
            return False
        return self._node_table.hold(offer.uid, row, amounts, offer.slots)

    def _look(self, offer: Offer, slots: int, everybody: Iterable[Offer]) -> int:
        if len(self.looks) > _FEW_LOOKS + 2 * slots:
            self.looks = Looks()
            for other in everybody:
                self.columns.look[other.slot] = self.looks.id(Look.of(other.pod_info))
        return self.looks.id(Look.of(offer.pod_info))
