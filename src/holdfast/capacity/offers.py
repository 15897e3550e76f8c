"""The offers table: one row a reservation that holds room, in columns.

For each offer the ledger knows what is reserved (T), what is kept back inside (I) and what its
owners use (A), per resource. Three sums follow, and nothing else says what a reservation has::

    hold      = max(T, A + I)        what nobody else may use
    top-up    = hold - A             what is entered into the columns beside the owners themselves
    remaining = max(0, T - I - A)    what an owner may still draw

Pod slots follow the same sums: every owner uses one, and a reservation that does not reserve
``pods`` itself reserves one of them.

An allocate-once offer stops matching the moment a pod is assumed into it (not when its status is
written), so two owners can never both take it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.api.names import parse_integer
from holdfast.api.node import Node
from holdfast.api.quantity import milli, units
from holdfast.api.reservation import Reservation
from holdfast.api.timestamps import parse_rfc3339
from holdfast.capacity import names
from holdfast.capacity.annotations import (
    allocated_of,
    draws_of,
    inner_reserved,
    restricted_names,
)
from holdfast.capacity.matching import Match, match_key, match_offers
from holdfast.capacity.offer import Amounts, Offer, alike
from holdfast.capacity.offer_columns import OfferColumns
from holdfast.capacity.owner_index import OwnerIndex
from holdfast.columns.amounts import MOST
from holdfast.columns.interner import CPU
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import BadRequest

HOLDING = ("Available", "Waiting")
_MOST_MATCHES = 4096
Place = tuple[str, str]
"""A reservation's uid and the node on which somebody draws on it."""


class Offers:
    """Every reservation that holds room, and who draws on it.

    The ``reservations`` epoch moves when the set of offers, or who owns them, does. Amounts, and
    whether an allocate-once offer is still to be had, travel as changed rows.
    """

    takes = (Reservation, Node)

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.by_uid: dict[str, Offer] = {}
        self._slots: list[Offer | None] = []
        self._free: list[int] = []
        self._index = OwnerIndex()
        self._draws_of_pod: dict[str, tuple[Place, ...]] = {}
        """Reservations each pod draws on, whether they hold room just now or not."""
        self._drawn: dict[Place, dict[str, Amounts]] = {}
        """What pods draw, by place, then pod uid; an offer's ``draws`` is one of these.

        By node too: anybody may write on a pod which reservation it took. On another node than
        the reservation's it takes nothing of it, whatever it says.

        Kept for reservations that hold no room too: a pod may be seen before its reservation.
        """
        self.pending: dict[str, Reservation] = {}
        """Reservations that look for their node, by uid."""
        self.placing: dict[str, tuple[int, bool]] = {}
        """Of those, the ones being bound: their row, and whether their policy is Default."""
        self.columns = OfferColumns()
        self._on_node: dict[str, dict[str, None]] = {}
        self._labels_seen: dict[str, Mapping[str, str] | None] = {}
        """Labels of nodes with offers: a reservation selector sees them too."""
        self._matches: dict[object, Match | None] = {}

    def __len__(self) -> int:
        return len(self.by_uid)

    def __iter__(self) -> Iterator[Offer]:
        return iter(self.by_uid.values())

    def at(self, slot: int) -> Offer:
        """The offer in a slot."""
        offer = self._slots[slot]
        assert offer is not None, f"offer slot {slot} is empty"
        return offer

    def upsert(self, obj: Reservation | Node) -> None:
        """Take in a reservation (or the news that a node is there) as the API server has it."""
        if isinstance(obj, Node):
            self._node_changed(obj.name, obj.metadata.labels)
        else:
            self._upsert(obj)

    def delete(self, obj: Reservation | Node) -> None:
        """Let a reservation go, or know that the node under some of them is gone."""
        if isinstance(obj, Node):
            self._node_changed(obj.name)
        else:
            self.pending.pop(obj.uid, None)
            self.placing.pop(obj.uid, None)
            self._drop(obj.uid)
            self._picture.forget(obj.uid)

    def pod_came(self, facts: PodFacts, node: str) -> None:
        """Read off a bound pod which reservations it draws on."""
        self._assign(facts.uid, {(u, node): a for u, a in self._draws_written_on(facts).items()})

    def pod_went(self, uid: str) -> None:
        """Give back what a gone pod drew."""
        self.withdraw(uid)

    def match(self, facts: PodFacts) -> Match | None:
        """The offers a pod may draw on now, or None."""
        if not self.by_uid or facts.reserve_for or facts.labels.get(names.IGNORED) == "true":
            return None
        groups = self._index.owned_by(facts.pod)
        if not groups:
            return None
        key = match_key(groups, facts)
        if key not in self._matches:
            if len(self._matches) >= _MOST_MATCHES:
                self._matches.clear()
            self._matches[key] = match_offers(self, groups, facts, key)
        return self._matches[key]

    def fork(self, picture: Picture) -> Offers:
        """An independent copy over a fork of the picture, which has the holds already."""
        copy = Offers(picture)
        copy._drawn = {uid: dict(draws) for uid, draws in self._drawn.items()}
        copy.by_uid = {
            uid: replace(offer, draws=copy._drawn[uid, offer.node])
            for uid, offer in self.by_uid.items()
        }
        copy._slots = [o and copy.by_uid[o.uid] for o in self._slots]
        copy._free = list(self._free)
        copy.pending, copy.placing = dict(self.pending), dict(self.placing)
        copy._draws_of_pod = dict(self._draws_of_pod)
        for offer in copy.by_uid.values():
            offer.group = copy._index.join(offer.slot, offer.reservation.spec.owners)
            copy._on_node.setdefault(offer.node, {})[offer.uid] = None
        copy.columns = self.columns.fork()
        return copy

    def _upsert(self, reservation: Reservation) -> None:
        if reservation.phase == "Pending":
            self.pending[reservation.uid] = reservation
        else:
            self.pending.pop(reservation.uid, None)
            self.placing.pop(reservation.uid, None)
        if reservation.phase not in HOLDING or not reservation.status.node_name:
            self._drop(reservation.uid)
            if reservation.phase != "Pending":
                # It ended before we saw it hold room: nothing will confirm the reserve pod.
                self._picture.forget(reservation.uid)
            return
        old = self.by_uid.get(reservation.uid)
        if old is not None and alike(old.reservation, reservation):
            old.reservation = reservation
            return
        # An amount that cannot be read is refused here, before anything has moved.
        reserved = self._amounts(reservation.status.allocatable)
        if old is not None:
            self._leave(old)
        offer = self._compile(reservation, reserved, old)
        # From here on the hold stands for the room, no longer the reserve pod that found it.
        self._picture.forget(reservation.uid)
        self.by_uid[reservation.uid] = offer
        self._slots[offer.slot] = offer
        self._on_node.setdefault(offer.node, {})[offer.uid] = None
        self._picture.show_labels(offer.group.label_keys)
        self._refresh(offer)
        self._changed()

    def _changed(self) -> None:
        """Say that offers or owners changed: nothing remembered about them holds."""
        self._matches.clear()
        self._picture.epochs.bump("reservations")

    def _leave(self, offer: Offer) -> None:
        self._index.leave(offer.slot, offer.group)
        if not offer.draws:
            del self._drawn[offer.uid, offer.node]
        there = self._on_node[offer.node]
        del there[offer.uid]
        if not there:
            del self._on_node[offer.node]
            self._labels_seen.pop(offer.node, None)

    def _drop(self, uid: str) -> None:
        """Let the room go; pods that were drawing on it now count plainly on their node."""
        offer = self.by_uid.pop(uid, None)
        if offer is None:
            return
        self._leave(offer)
        self._slots[offer.slot] = None
        self._free.append(offer.slot)
        self.columns.clear(offer.slot)
        self._picture.release(uid)
        self._changed()

    def assign(self, pod_uid: str, draws: Mapping[str, Amounts]) -> None:
        """Enter what a pod takes from which offers (by uid), instead of what it took."""
        self._assign(pod_uid, {(uid, self.by_uid[uid].node): a for uid, a in draws.items()})

    def _assign(self, pod_uid: str, draws: Mapping[Place, Amounts]) -> None:
        for place in self._draws_of_pod.pop(pod_uid, ()):
            if place not in draws:
                self._draw(place, pod_uid, None)
        if draws:
            self._draws_of_pod[pod_uid] = tuple(draws)
        for place, amounts in draws.items():
            self._draw(place, pod_uid, amounts)

    def withdraw(self, pod_uid: str) -> None:
        """Give back what a pod took; an allocate-once offer not yet Succeeded matches again."""
        self.assign(pod_uid, {})

    def _draw(self, place: Place, pod_uid: str, amounts: Amounts | None) -> None:
        """Enter what one pod takes of one reservation, None for nothing."""
        offer = self._offer(place)
        draws = self._drawn.setdefault(place, {})
        if draws.get(pod_uid) == amounts:
            return
        if amounts is None:
            del draws[pod_uid]
        else:
            draws[pod_uid] = amounts
        if offer is not None:
            self._refresh(offer)
        elif not draws:
            del self._drawn[place]

    def _offer(self, place: Place) -> Offer | None:
        """The offer at a place, if there is one just now."""
        offer = self.by_uid.get(place[0])
        return offer if offer is not None and offer.node == place[1] else None

    def _node_changed(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Hold the room again (or know that it is gone) after a node came, went or changed."""
        if name not in self._on_node:
            return
        row = self._picture.row_of.get(name, -1)
        there = [self.by_uid[uid] for uid in self._on_node.get(name, ())]
        moved = [offer for offer in there if self.columns.row[offer.slot] != row]
        for offer in moved:
            self._refresh(offer)
        relabelled = self._labels_seen.get(name) != labels
        self._labels_seen[name] = labels
        if moved or relabelled:
            self._changed()

    def resource_id(self, name: str) -> int:
        """The id of a resource name in the columns."""
        return self._picture.resources.id(name)

    def draws_of(self, pod_uid: str) -> dict[int, Amounts]:
        """What a pod draws, by offer slot."""
        found = map(self._offer, self._draws_of_pod.get(pod_uid, ()))
        return {offer.slot: offer.draws[pod_uid] for offer in found if offer is not None}

    def regained(self, gone: Iterable[str]) -> list[tuple[Offer, Amounts, Amounts]]:
        """Per offer that pods draw on: what more it would hold, and lend, were they gone."""
        leaving: dict[Place, list[str]] = {}
        for pod_uid in gone:
            for place in self._draws_of_pod.get(pod_uid, ()):
                leaving.setdefault(place, []).append(pod_uid)
        found = ((self._offer(place), pods) for place, pods in leaving.items())
        return [(offer, *offer.regained(pods)) for offer, pods in found if offer is not None]

    def on_row(self, row: int) -> list[Offer]:
        """The offers on a node, matchable or not."""
        return [self.at(int(slot)) for slot in (self.columns.row == row).nonzero()[0]]

    def rows_drawn(self) -> NDArray[np.intp]:
        """Rows where some pod draws on an offer."""
        rows: NDArray[np.intp] = self.columns.row[self.columns.drawn]
        return rows[rows >= 0]

    def rows_with_other_policy(self, *, default: bool) -> NDArray[np.intp]:
        """Rows of matchable offers that are Default where the asker is not, or the reverse.

        Those being bound count like those that hold their room already.
        """
        columns = self.columns
        rows: NDArray[np.intp] = columns.row[columns.matchable & (columns.default != default)]
        coming = [row for row, theirs in self.placing.values() if theirs != default]
        return np.concatenate([rows[rows >= 0], np.array(coming, np.intp)])

    def labels_of(self, offer: Offer) -> dict[str, str]:
        """The labels a reservation selector sees: the node's, overlaid by the reservation's."""
        row = self._picture.row_of.get(offer.node)
        node = self._picture.nodes[row] if row is not None else None
        return {**(node.metadata.labels if node else {}), **offer.reservation.metadata.labels}

    def _draws_written_on(self, facts: PodFacts) -> dict[str, Amounts]:
        if several := draws_of(facts.pod):
            return {draw.uid: self._amounts(draw.resources) for draw in several}
        allocated = allocated_of(facts.pod)
        return {allocated.uid: dict(facts.request)} if allocated else {}

    def _compile(self, reservation: Reservation, reserved: Amounts, old: Offer | None) -> Offer:
        # It is part of what is reserved: more of it cannot be kept back than there is.
        kept = self._amounts(inner_reserved(reservation))
        inner = {r: min(amount, reserved[r]) for r, amount in kept.items() if r in reserved}
        chosen = {self._picture.resources.id(name) for name in restricted_names(reservation)} & set(
            reserved
        )
        slot = old.slot if old else self._take_slot()
        return Offer(
            reservation=reservation,
            slot=slot,
            group=self._index.join(slot, reservation.spec.owners),
            reserved=reserved,
            inner=inner,
            restricted=frozenset(chosen or reserved),
            order=_order(reservation),
            draws=self._drawn.setdefault((reservation.uid, reservation.status.node_name), {}),
        )

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._slots.append(None)
        return len(self._slots) - 1

    def _amounts(self, amounts: Mapping[str, str | int | float]) -> dict[int, int]:
        found = {}
        for name, amount in amounts.items():
            resource = self._picture.resources.id(name)
            value = milli(amount) if resource == CPU else units(amount)
            if value > 0:
                found[resource] = min(value, MOST)
        return found

    def _refresh(self, offer: Offer) -> None:
        """Work the sums of one offer out again and enter the top-up into the columns."""
        self.columns.make_room(len(self._picture.resources), len(self._slots))
        row = self._picture.row_of.get(offer.node, -1)
        top_up = self.columns.write(offer, row, _created(offer.reservation))
        if row >= 0:
            self._picture.hold(offer.uid, row, top_up, offer.slots)
        else:
            self._picture.release(offer.uid)


def _created(reservation: Reservation) -> float:
    made = reservation.metadata.creation_timestamp
    try:
        return parse_rfc3339(made) if made else 0.0
    except BadRequest:
        return 0.0


def _order(reservation: Reservation) -> int:
    return parse_integer(reservation.metadata.labels.get(names.ORDER, "")) or 0
