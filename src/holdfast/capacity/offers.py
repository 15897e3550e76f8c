"""The offers table: one row a reservation that holds room, in columns.

For each offer the ledger knows what is reserved (T), what is kept back inside (I) and what its
owners use (A), per resource. Three sums follow, and nothing else says what a reservation has::

    hold      = max(T, A + I)        what nobody else may use
    top-up    = hold - A             what is entered into the columns beside the owners themselves
    remaining = max(0, T - I - A)    what an owner may still draw

Pod slots follow the same sums: every owner uses one, and a reservation that does not reserve
``pods`` itself reserves one of them. What a pod has besides amounts (labels, terms, ports,
volumes) its reserve pod has, which is seated in the columns and which its owners do not see.

An allocate-once offer stops matching the moment a pod is assumed into it (not when its status is
written), so two owners can never both take it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.api.reservation import Reservation
from holdfast.capacity.held_room import Lifted
from holdfast.capacity.matching import OfferMatch, OfferMatcher
from holdfast.capacity.offer import (
    AmountsByResource,
    DrawLedger,
    Offer,
    Place,
    WaitingOffers,
    alike,
)
from holdfast.capacity.offer_columns import Holding
from holdfast.capacity.owners import OwnerIndex
from holdfast.capacity.reading import Content, read_content, read_draws
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.unseen import Looks

HOLDING = ("Available", "Waiting")


class Offers:
    """Every reservation that holds room, and who draws on it.

    The ``reservations`` epoch moves when the set of offers, or who owns them, does. Amounts, and
    whether an allocate-once offer is still to be had, travel as changed rows.
    """

    takes = (Reservation, Node)

    def __init__(self, node_table: NodeTable) -> None:
        self._node_table = node_table
        self.by_uid: dict[str, Offer] = {}
        self._slots: list[Offer | None] = []
        self._free: list[int] = []
        self.index = OwnerIndex()
        self._ledger = DrawLedger()
        self.pending: dict[str, Reservation] = {}
        """Reservations that look for their node, by uid."""
        self.placing: dict[str, tuple[int, bool]] = {}
        """Of those, the ones being bound: their row, and whether their policy is Default."""
        self.awaiting: dict[str, str] = {}
        """Of those, the ones that wait until it is seen who is on the way to a node: its name."""
        self._leaving: dict[str, Place] = {}
        """Running pods chosen to leave their room to a reservation, which do not say so yet."""
        self._holding = Holding(node_table)
        self.columns = self._holding.columns
        self._on_node: dict[str, dict[str, None]] = {}
        self.waiting = WaitingOffers()
        self._labels_seen: dict[str, Mapping[str, str] | None] = {}
        """Labels of nodes with offers: a reservation selector sees them too."""
        self._matcher = OfferMatcher(self, node_table)
        self._lifted: Lifted | None = None
        """That of the last match: several plugins ask for it in one attempt."""

    def __len__(self) -> int:
        return len(self.by_uid)

    def __iter__(self) -> Iterator[Offer]:
        return iter(self.by_uid.values())

    @property
    def looks(self) -> Looks:
        """What reserve pods look like, by the ids in the columns."""
        return self._holding.looks

    def at(self, slot: int) -> Offer:
        """The offer in a slot."""
        offer = self._slots[slot]
        assert offer is not None, f"offer slot {slot} is empty"
        return offer

    # --- what happens -----------------------------------------------------------------------

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
            self.awaiting.pop(obj.uid, None)
            self.disinherit(obj.uid)
            self._drop(obj.uid)
            self._node_table.forget(obj.uid)

    def pod_set(self, pod_info: PodInfo, node: str) -> None:
        """Read off a bound pod which reservations it draws on."""
        draws = read_draws(pod_info, self._node_table.resources)
        if not draws and pod_info.uid in self._leaving:
            return
        self._leaving.pop(pod_info.uid, None)
        self._assign(pod_info.uid, {(uid, node): amounts for uid, amounts in draws.items()})

    def pod_removed(self, uid: str) -> None:
        """Give back what a gone pod drew."""
        self._leaving.pop(uid, None)
        self.withdraw(uid)

    def assign(self, pod_uid: str, draws: Mapping[str, AmountsByResource]) -> None:
        """Enter what a pod takes from which offers (by uid), instead of what it took."""
        self._assign(pod_uid, {(uid, self.by_uid[uid].node): a for uid, a in draws.items()})

    def withdraw(self, pod_uid: str) -> None:
        """Give back what a pod took; an allocate-once offer not yet Succeeded matches again."""
        self._assign(pod_uid, {})

    def bequeath(self, pods: Iterable[PodInfo], uid: str, node: str) -> None:
        """Enter that running pods leave their room to a reservation coming to their node."""
        for pod in pods:
            self._leaving[pod.uid] = (uid, node)
            self._assign(pod.uid, {(uid, node): {**dict(pod.request), PODS: pod.slots}})

    def disinherit(self, uid: str) -> None:
        """Withdraw what ``bequeath`` entered for a reservation and no pod confirmed since."""
        for pod_uid in [pod for pod, place in self._leaving.items() if place[0] == uid]:
            del self._leaving[pod_uid]
            self.withdraw(pod_uid)

    # --- what others read -------------------------------------------------------------------

    def match(self, pod_info: PodInfo) -> OfferMatch | None:
        """The offers a pod may draw on now, or None."""
        return self._matcher.match(pod_info) if self.by_uid or self.pending else None

    def lifted(self, pod_info: PodInfo) -> Lifted | None:
        """What a pod's offers hold, which it does not count as taken; None if it has none."""
        match = self.match(pod_info)
        if match is None or not len(match.slots):
            return None
        if self._lifted is None or self._lifted.match is not match:
            self._lifted = Lifted(self, match, self._node_table)
        return self._lifted

    def is_spoken_for(self, pod_uid: str, uid: str) -> bool:
        """Whether a pod draws on, or leaves its room to, another reservation than this one."""
        return any(
            place[0] != uid and (place[0] in self.pending or self._offer(place) is not None)
            for place in self._ledger.places_of(pod_uid)
        )

    def resource_id(self, name: str) -> int:
        """The id of a resource name in the columns."""
        return self._node_table.resources.id(name)

    def draws_of(self, pod_uid: str) -> dict[int, AmountsByResource]:
        """What a pod draws, by offer slot."""
        found = map(self._offer, self._ledger.places_of(pod_uid))
        return {offer.slot: offer.draws[pod_uid] for offer in found if offer is not None}

    def regained(
        self, gone: Iterable[str], coming: Mapping[Place, AmountsByResource] | None = None
    ) -> list[tuple[Offer, AmountsByResource, AmountsByResource]]:
        """Per offer that pods draw on: what more it would hold, and lend, were they gone.

        ``coming`` is what others would draw there instead.
        """
        coming = coming or {}
        leaving: dict[Place, list[str]] = {place: [] for place in coming}
        for pod_uid in gone:
            for place in self._ledger.places_of(pod_uid):
                leaving.setdefault(place, []).append(pod_uid)
        found = ((self._offer(place), pods) for place, pods in leaving.items())
        return [
            (offer, *offer.regained(pods, coming.get((offer.uid, offer.node))))
            for offer, pods in found
            if offer is not None
        ]

    def leaving(self, offer: Offer) -> list[str]:
        """Who draws on an offer and has been asked to leave, by uid."""
        standing = ((uid, self._node_table.pod(uid)) for uid in offer.draws)
        return [uid for uid, found in standing if found is not None and found[0].terminating]

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
        row = self._node_table.row_of.get(offer.node)
        node = self._node_table.nodes[row] if row is not None else None
        return {**(node.metadata.labels if node else {}), **offer.reservation.metadata.labels}

    def fork(self, node_table: NodeTable) -> Offers:
        """An independent copy over a fork of the picture, which has the holds already."""
        copy = Offers(node_table)
        copy._ledger = self._ledger.fork()
        copy.by_uid = {
            uid: replace(offer, drawn=copy._ledger.open((uid, offer.node)))
            for uid, offer in self.by_uid.items()
        }
        copy._slots = [o and copy.by_uid[o.uid] for o in self._slots]
        copy._free = list(self._free)
        copy.pending, copy.placing = dict(self.pending), dict(self.placing)
        copy._leaving, copy.awaiting = dict(self._leaving), dict(self.awaiting)
        for offer in copy.by_uid.values():
            offer.group = copy.index.join(offer.slot, offer.reservation.spec.owners)
            copy._on_node.setdefault(offer.node, {})[offer.uid] = None
            copy.waiting.enter(offer)
        copy._holding = self._holding.fork(node_table)
        copy.columns = copy._holding.columns
        return copy

    # --- how it is kept ---------------------------------------------------------------------

    def _upsert(self, reservation: Reservation) -> None:
        if reservation.phase == "Pending":
            self.pending[reservation.uid] = reservation
        else:
            self.pending.pop(reservation.uid, None)
            self.placing.pop(reservation.uid, None)
            self.awaiting.pop(reservation.uid, None)
        if reservation.phase not in HOLDING or not reservation.status.node_name:
            self._drop(reservation.uid)
            if reservation.phase != "Pending":
                # It ended before we saw it hold room: nothing will confirm the reserve pod.
                self._node_table.forget(reservation.uid)
            return
        old = self.by_uid.get(reservation.uid)
        if old is not None and alike(old.reservation, reservation):
            old.reservation = reservation
            return
        # An amount that cannot be read is refused here, before anything has moved.
        content = read_content(reservation, self._node_table)
        if old is not None:
            self._leave(old)
        # From here on the hold stands for the room, no longer the reserve pod that found it.
        self._node_table.forget(reservation.uid)
        self._enter(self._compile(reservation, content, old))
        self._changed()

    def _compile(self, reservation: Reservation, content: Content, old: Offer | None) -> Offer:
        slot = old.slot if old else self._take_slot()
        return Offer(
            reservation,
            slot=slot,
            group=self.index.join(slot, reservation.spec.owners),
            drawn=self._ledger.open((reservation.uid, reservation.status.node_name)),
            **content._asdict(),
        )

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._slots.append(None)
        return len(self._slots) - 1

    def _enter(self, offer: Offer) -> None:
        self.by_uid[offer.uid] = offer
        self._slots[offer.slot] = offer
        self._on_node.setdefault(offer.node, {})[offer.uid] = None
        self.waiting.enter(offer)
        self._node_table.add_selector_keys(offer.group.label_keys)
        self._holding.settle(offer, len(self._slots), self)

    def _leave(self, offer: Offer) -> None:
        self.index.leave(offer.slot, offer.group)
        self._ledger.close((offer.uid, offer.node))
        there = self._on_node[offer.node]
        del there[offer.uid]
        self.waiting.leave(offer)
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
        self._holding.clear(offer)
        self._changed()

    def _changed(self) -> None:
        """Say that offers or owners changed: nothing remembered about them holds."""
        self._matcher.forget()
        self._node_table.epochs.bump("reservations")

    def _assign(self, pod_uid: str, draws: Mapping[Place, AmountsByResource]) -> None:
        for place in self._ledger.assign(pod_uid, draws):
            offer = self._offer(place)
            if offer is None:
                self._ledger.close(place)
            else:
                self._holding.recount(offer)

    def _offer(self, place: Place) -> Offer | None:
        """The offer at a place, if there is one just now."""
        offer = self.by_uid.get(place[0])
        return offer if offer is not None and offer.node == place[1] else None

    def _node_changed(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Hold the room again (or know that it is gone) after a node came, went or changed."""
        if name not in self._on_node:
            return
        row = self._node_table.row_of.get(name, -1)
        there = [self.by_uid[uid] for uid in self._on_node.get(name, ())]
        moved = [offer for offer in there if self.columns.row[offer.slot] != row]
        for offer in moved:
            self._holding.settle(offer, len(self._slots), self)
        relabelled = self._labels_seen.get(name) != labels
        self._labels_seen[name] = labels
        if moved or relabelled:
            self._changed()
