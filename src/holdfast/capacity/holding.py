"""Where offers are held: their numbers in columns, their room and their reserve pods on rows.

The ledger says what an offer has; this enters it, so that everybody else finds it in the picture.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.capacity.offer import Offer
from holdfast.capacity.offer_columns import OfferColumns
from holdfast.columns.picture import Picture
from holdfast.columns.unseen import Look, Looks

_FEW_LOOKS = 1024


class Holding:
    """The columns of all offers, and what they hold in the picture.

    ``looks`` are what reserve pods look like; columns refer to them by id.
    """

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.columns = OfferColumns()
        self.looks = Looks()

    def settle(self, offer: Offer, slots: int, everybody: Iterable[Offer]) -> None:
        """Enter an offer, one of so many slots, and hold its room if its node is there."""
        columns, picture = self.columns, self._picture
        columns.make_room(len(picture.resources), slots)
        row = picture.row_of.get(offer.node, -1)
        columns.write(offer, row, self._look(offer, slots, everybody))
        if row >= 0:
            picture.seat(offer.facts, row)
        else:
            picture.unseat(offer.uid)
        self._hold(offer)

    def recount(self, offer: Offer) -> None:
        """Enter what owners use of an offer, and log its row: even if no less is held."""
        self.columns.recount(offer)
        row = int(self.columns.row[offer.slot])
        if not self._hold(offer) and row >= 0:
            self._picture.journal.log(row)

    def clear(self, offer: Offer) -> None:
        """Let the room of an offer go."""
        self.columns.clear(offer.slot)
        self._picture.release(offer.uid)
        self._picture.unseat(offer.uid)

    def fork(self, picture: Picture) -> Holding:
        """An independent copy over a fork of the picture, which has the holds already."""
        copy = Holding(picture)
        copy.columns, copy.looks = self.columns.fork(), self.looks.fork()
        return copy

    def _hold(self, offer: Offer) -> bool:
        """Hold its room as it is now; tell whether that is news."""
        row = int(self.columns.row[offer.slot])
        if row < 0:
            self._picture.release(offer.uid)
            return False
        return self._picture.hold(offer.uid, row, offer.top_up, offer.slots)

    def _look(self, offer: Offer, slots: int, everybody: Iterable[Offer]) -> int:
        if len(self.looks) > _FEW_LOOKS + 2 * slots:
            self.looks = Looks()
            for other in everybody:
                self.columns.look[other.slot] = self.looks.id(Look.of(other.facts))
        return self.looks.id(Look.of(offer.facts))
