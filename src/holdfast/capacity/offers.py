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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.quantity import milli, units
from holdfast.api.reservation import Reservation
from holdfast.capacity import names
from holdfast.capacity.annotations import (
    allocated_of,
    draws_of,
    inner_reserved,
    restricted_names,
)
from holdfast.capacity.matching import Match, match_offers
from holdfast.capacity.owner_index import OwnerIndex
from holdfast.capacity.owners import OwnerRule, compile_owners
from holdfast.columns.interner import CPU, PODS
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts

Amounts = Mapping[int, int]
HOLDING = ("Available", "Waiting")


@dataclass(slots=True)
class Offer:
    """A reservation that holds room on a node."""

    reservation: Reservation
    slot: int
    rules: tuple[OwnerRule, ...] | None
    reserved: Amounts
    inner: Amounts
    restricted: frozenset[int]
    order: int
    draws: dict[str, Amounts] = field(default_factory=dict)
    """What each assigned pod takes, by pod uid."""

    @property
    def uid(self) -> str:
        """The reservation's uid."""
        return self.reservation.uid

    @property
    def node(self) -> str:
        """The node the room is on."""
        return self.reservation.status.node_name

    @property
    def policy(self) -> str:
        """Default (""), Aligned or Restricted."""
        return self.reservation.spec.allocate_policy

    @property
    def matchable(self) -> bool:
        """Whether a new owner may take it."""
        return (
            self.reservation.phase == "Available"
            and self.rules is not None
            and not (self.reservation.spec.allocate_once and self.draws)
        )

    def used(self, resource: int) -> int:
        """What the owners take of one resource; of pod slots each takes one."""
        if resource == PODS:
            return len(self.draws)
        return sum(draw.get(resource, 0) for draw in self.draws.values())

    def left(self, resource: int) -> int:
        """What an owner may still draw of one resource."""
        kept = self.inner.get(resource, 0) + self.used(resource)
        return max(0, self.reserved.get(resource, 0) - kept)

    @property
    def slots(self) -> int:
        """Pod slots held beside those the owners use."""
        return max(0, self.reserved.get(PODS, 1) - len(self.draws))

    def owned_by(self, pod: Pod) -> bool:
        """Whether the pod is one of the owners."""
        return self.rules is not None and any(rule.owns(pod) for rule in self.rules)


class Offers:
    """Every reservation that holds room, and who draws on it.

    ``remaining[r, k]``, ``reserved[r, k]`` and ``used[r, k]`` are (resource, offer) columns in
    base units; ``row_of_offer[k]`` is the node row or -1; ``matchable[k]`` a mask.
    """

    takes = (Reservation, Node)

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.by_uid: dict[str, Offer] = {}
        self._slots: list[Offer | None] = []
        self._free: list[int] = []
        self._index = OwnerIndex()
        self._draws_of_pod: dict[str, tuple[str, ...]] = {}
        """Reservations (uids) each pod draws on, whether they hold room just now or not."""
        self._drawn: dict[str, dict[str, Amounts]] = {}
        """What pods draw, by reservation uid, then pod uid; an offer's ``draws`` is one of these.

        Kept for reservations that hold no room too: a pod may be seen before its reservation.
        """
        self.pending: dict[str, Reservation] = {}
        """Reservations that look for their node, by uid."""
        self._size(0)

    def _size(self, wanted: int) -> None:
        resources = max(len(self._picture.resources), 4)
        shape = (resources, max(wanted, 16))

        def grown(old: NDArray[np.int64]) -> NDArray[np.int64]:
            new = np.zeros(shape, np.int64)
            new[: old.shape[0], : old.shape[1]] = old
            return new

        empty = np.zeros((0, 0), np.int64)
        self.remaining = grown(getattr(self, "remaining", empty))
        self.reserved = grown(getattr(self, "reserved", empty))
        self.used = grown(getattr(self, "used", empty))
        self.matchable = np.resize(getattr(self, "matchable", np.zeros(1, np.bool_)), shape[1])
        self.matchable[len(self._slots) :] = False
        rows = np.full(shape[1], -1, np.intp)
        old_rows = getattr(self, "row_of_offer", rows[:0])
        rows[: len(old_rows)] = old_rows
        self.row_of_offer = rows

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
            self._node_changed(obj.name)
        else:
            self._upsert(obj)

    def delete(self, obj: Reservation | Node) -> None:
        """Let a reservation go, or know that the node under some of them is gone."""
        if isinstance(obj, Node):
            self._node_changed(obj.name)
        else:
            self.pending.pop(obj.uid, None)
            self._drop(obj.uid)
            self._picture.forget(obj.uid)

    def pod_came(self, facts: PodFacts, _node: str) -> None:
        """Read off a bound pod which reservations it draws on."""
        self.assign(facts.uid, self._draws_written_on(facts))

    def pod_went(self, uid: str) -> None:
        """Give back what a gone pod drew."""
        self.withdraw(uid)

    def match(self, facts: PodFacts) -> Match | None:
        """The offers a pod may draw on now, or None."""
        if not self.by_uid or facts.reserve_for:
            return None
        return match_offers(self, facts)

    def fork(self, picture: Picture) -> Offers:
        """An independent copy over a fork of the picture, which has the holds already."""
        copy = Offers(picture)
        copy._drawn = {uid: dict(draws) for uid, draws in self._drawn.items()}
        copy.by_uid = {
            uid: replace(offer, draws=copy._drawn[uid]) for uid, offer in self.by_uid.items()
        }
        copy._slots = [o and copy.by_uid[o.uid] for o in self._slots]
        copy._free = list(self._free)
        copy.pending = dict(self.pending)
        copy._draws_of_pod = dict(self._draws_of_pod)
        for offer in copy.by_uid.values():
            copy._index.add(offer.slot, offer.rules or ())
        for name in ("remaining", "reserved", "used", "matchable", "row_of_offer"):
            setattr(copy, name, getattr(self, name).copy())
        return copy

    def _upsert(self, reservation: Reservation) -> None:
        if reservation.phase == "Pending":
            self.pending[reservation.uid] = reservation
        else:
            self.pending.pop(reservation.uid, None)
        if reservation.phase not in HOLDING or not reservation.status.node_name:
            self._drop(reservation.uid)
            if reservation.phase != "Pending":
                # It ended before we saw it hold room: nothing will confirm the reserve pod.
                self._picture.forget(reservation.uid)
            return
        old = self.by_uid.get(reservation.uid)
        offer = self._compile(reservation, old)
        if old is not None:
            self._index.remove(old.slot)
        # From here on the hold stands for the room, no longer the reserve pod that found it.
        self._picture.forget(reservation.uid)
        self.by_uid[reservation.uid] = offer
        self._slots[offer.slot] = offer
        self._index.add(offer.slot, offer.rules or ())
        self._refresh(offer)
        self._picture.epochs.bump("reservations")

    def _drop(self, uid: str) -> None:
        """Let the room go; pods that were drawing on it now count plainly on their node."""
        offer = self.by_uid.pop(uid, None)
        if offer is None:
            return
        self._index.remove(offer.slot)
        self._slots[offer.slot] = None
        self._free.append(offer.slot)
        self.matchable[offer.slot] = False
        self.row_of_offer[offer.slot] = -1
        self.remaining[:, offer.slot] = 0
        if not offer.draws:
            del self._drawn[uid]
        self._picture.release(uid)
        self._picture.epochs.bump("reservations")

    def assign(self, pod_uid: str, draws: Mapping[str, Amounts]) -> None:
        """Enter what a pod takes from which reservations (by uid), instead of what it took."""
        for uid in self._draws_of_pod.pop(pod_uid, ()):
            if uid not in draws:
                self._draw(uid, pod_uid, None)
        if draws:
            self._draws_of_pod[pod_uid] = tuple(draws)
        for uid, amounts in draws.items():
            self._draw(uid, pod_uid, amounts)

    def withdraw(self, pod_uid: str) -> None:
        """Give back what a pod took; an allocate-once offer not yet Succeeded matches again."""
        self.assign(pod_uid, {})

    def _draw(self, uid: str, pod_uid: str, amounts: Amounts | None) -> None:
        """Enter what one pod takes of one reservation, None for nothing."""
        offer = self.by_uid.get(uid)
        draws = self._drawn.setdefault(uid, {})
        if draws.get(pod_uid) == amounts:
            return
        was = offer is not None and offer.matchable
        if amounts is None:
            del draws[pod_uid]
        else:
            draws[pod_uid] = amounts
        if offer is not None:
            self._refresh(offer)
            if was != offer.matchable:
                self._picture.epochs.bump("reservations")
        elif not draws:
            del self._drawn[uid]

    def _node_changed(self, name: str) -> None:
        """Hold the room again (or know that it is gone) after a node came or went."""
        row = self._picture.row_of.get(name, -1)
        touched = [
            offer
            for offer in self.by_uid.values()
            if offer.node == name and self.row_of_offer[offer.slot] != row
        ]
        for offer in touched:
            self._refresh(offer)
        if touched:
            self._picture.epochs.bump("reservations")

    def owned(self, pod: Pod) -> list[Offer]:
        """The matchable offers this pod owns, found through the index."""
        found = (self.at(slot) for slot in self._index.candidates(pod))
        return [offer for offer in found if offer.matchable and offer.owned_by(pod)]

    def resource_id(self, name: str) -> int:
        """The id of a resource name in the columns."""
        return self._picture.resources.id(name)

    def draws_of(self, pod_uid: str) -> dict[int, Amounts]:
        """What a pod draws, by offer slot."""
        found = (self.by_uid.get(uid) for uid in self._draws_of_pod.get(pod_uid, ()))
        return {offer.slot: offer.draws[pod_uid] for offer in found if offer is not None}

    def on_row(self, row: int) -> list[Offer]:
        """The offers on a node, matchable or not."""
        return [self.at(int(slot)) for slot in (self.row_of_offer == row).nonzero()[0]]

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

    def _compile(self, reservation: Reservation, old: Offer | None) -> Offer:
        reserved = self._amounts(reservation.status.allocatable)
        inner = self._amounts(inner_reserved(reservation))
        chosen = {self._picture.resources.id(name) for name in restricted_names(reservation)} & set(
            reserved
        )
        return Offer(
            reservation=reservation,
            slot=old.slot if old else self._take_slot(),
            rules=compile_owners(reservation.spec.owners),
            reserved=reserved,
            inner=inner,
            restricted=frozenset(chosen or reserved),
            order=_order(reservation),
            draws=self._drawn.setdefault(reservation.uid, {}),
        )

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._slots.append(None)
        if len(self._slots) > self.matchable.shape[0]:
            self._size(2 * len(self._slots))
        return len(self._slots) - 1

    def _amounts(self, amounts: Mapping[str, str | int | float]) -> dict[int, int]:
        found = {}
        for name, amount in amounts.items():
            resource = self._picture.resources.id(name)
            value = milli(amount) if resource == CPU else units(amount)
            if value > 0:
                found[resource] = value
        return found

    def _refresh(self, offer: Offer) -> None:
        """Work the sums of one offer out again and enter the top-up into the columns."""
        if len(self._picture.resources) > self.remaining.shape[0]:
            self._size(self.matchable.shape[0])
        self._picture.show_labels(_visible_keys(offer))
        slot = offer.slot
        self.reserved[:, slot] = self.used[:, slot] = self.remaining[:, slot] = 0
        top_up = {}
        for resource, amount in offer.reserved.items():
            used, inner = offer.used(resource), offer.inner.get(resource, 0)
            self.reserved[resource, slot] = amount
            self.used[resource, slot] = used
            self.remaining[resource, slot] = max(0, amount - inner - used)
            if resource != PODS:
                top_up[resource] = max(amount, used + inner) - used
        self.remaining[PODS, slot] = offer.slots
        self.matchable[slot] = offer.matchable
        row = self._picture.row_of.get(offer.node, -1)
        self.row_of_offer[slot] = row
        if row >= 0:
            self._picture.hold(offer.uid, row, top_up, offer.slots)


def _visible_keys(offer: Offer) -> frozenset[str]:
    """The pod labels that decide who owns the offer: pods that differ in them differ in class."""
    selectors = [rule.selector for rule in offer.rules or () if rule.selector is not None]
    return frozenset(key for selector in selectors for key in selector.keys)


def _order(reservation: Reservation) -> int:
    try:
        return int(reservation.metadata.labels.get(names.ORDER, "0"))
    except ValueError:
        return 0
