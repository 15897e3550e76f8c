"""Which offers a pod may draw on: ownership, affinity, taints, exact match, in that order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api import reservation_names as names
from holdfast.api.node import Taint
from holdfast.api.node_selection import compile_term
from holdfast.api.reservation import Reservation
from holdfast.api.tolerations import find_untolerated, tolerated
from holdfast.capacity.annotations import ReservationAffinity, affinity_of, exact_match_of
from holdfast.capacity.owners import OwnerGroup
from holdfast.columns.interner import ResourceNames
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.unseen import Unseen
from holdfast.errors import BadRequest

if TYPE_CHECKING:
    from holdfast.capacity.offers import Offers


_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_MOST_MATCHES = 4096
_MOST_STRANGERS = 65536
_IGNORING = "ignoring"
_INHERITING = "inheriting"
Slots = NDArray[np.intp]


class ReservationWishes(NamedTuple):
    """What a pod asks of the reservation it takes."""

    affinity: ReservationAffinity | None
    exact: tuple[str, ...]

    @classmethod
    def of(cls, pod_info: PodInfo) -> ReservationWishes:
        """Read them off the pod; raises BadRequest for what cannot be read."""
        return cls(affinity_of(pod_info.pod), exact_match_of(pod_info.pod))

    def __bool__(self) -> bool:
        return self.affinity is not None or bool(self.exact)

    @property
    def name(self) -> str:
        """The reservation it asks for by name, or ""."""
        return self.affinity.name if self.affinity is not None else ""


class RefusalGround(Enum):
    """On what ground an owner is refused."""

    NAME = "didn't match the requested reservation name"
    UNSCHEDULABLE = "is unschedulable"
    TAINT = "had untolerated taint"
    AFFINITY = "didn't match affinity rules"
    EXACT = "is not exact matched"


class Refusal(NamedTuple):
    """Why an owner is refused; ``taint`` is the one it does not tolerate."""

    ground: RefusalGround
    taint: Taint | None = None


def refusal(
    offers: Offers, slot: int, pod_info: PodInfo, wishes: ReservationWishes
) -> Refusal | None:
    """Why an offer does not take one of its owners, the first reason, or None."""
    found = _unwelcome(offers, slot, pod_info, wishes)
    if found is None and not _exactly(offers, slot, pod_info, wishes.exact):
        found = Refusal(RefusalGround.EXACT)
    return found


def accepts(
    pod_info: PodInfo,
    reservation: Reservation,
    node_labels: Mapping[str, str],
    reserved: Mapping[int, int],
    ids: ResourceNames,
) -> bool:
    """Whether a running pod's own wishes let it leave its room to a reservation."""
    try:
        wishes = ReservationWishes.of(pod_info)
    except BadRequest:
        return False
    affinity = wishes.affinity
    if wishes.name:
        if wishes.name != reservation.name:
            return False
    elif affinity is not None:
        own = (*affinity.tolerations, *pod_info.pod.spec.tolerations)
        if find_untolerated(reservation.spec.taints, own) is not None:
            return False
        if not _selects(affinity, {**node_labels, **reservation.metadata.labels}, reservation.name):
            return False
    return _agree(pod_info, reserved, [ids.id(name) for name in wishes.exact])


def _unwelcome(
    offers: Offers, slot: int, pod_info: PodInfo, wishes: ReservationWishes
) -> Refusal | None:
    offer, affinity = offers.at(slot), wishes.affinity
    reservation = offer.reservation
    if reservation.metadata.deletion_timestamp is not None:
        # On its way out it takes nobody in, not even who asks for it by name.
        return Refusal(RefusalGround.UNSCHEDULABLE)
    if wishes.name:
        # Asking for it by name overrides selectors, taints and unschedulable.
        return None if wishes.name == reservation.name else Refusal(RefusalGround.NAME)
    own = affinity.tolerations if affinity else ()
    if reservation.spec.unschedulable and not tolerated(own, _UNSCHEDULABLE):
        return Refusal(RefusalGround.UNSCHEDULABLE)
    taint = find_untolerated(reservation.spec.taints, (*own, *pod_info.pod.spec.tolerations))
    if taint is not None:
        return Refusal(RefusalGround.TAINT, taint)
    if affinity is None or _selects(affinity, offers.labels_of(offer), reservation.name):
        return None
    return Refusal(RefusalGround.AFFINITY)


def _selects(affinity: ReservationAffinity, labels: Mapping[str, str], name: str) -> bool:
    if any(labels.get(k) != v for k, v in affinity.reservation_selector.items()):
        return False
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return True
    terms = required.reservation_selector_terms
    return any(compile_term(term).matches(labels, name) for term in terms)


def _exactly(offers: Offers, slot: int, pod_info: PodInfo, wanted: tuple[str, ...]) -> bool:
    return _agree(pod_info, offers.at(slot).reserved, [offers.resource_id(name) for name in wanted])


def _agree(pod_info: PodInfo, reserved: Mapping[int, int], ids: list[int]) -> bool:
    request = dict(pod_info.request)
    return all(request.get(r, 0) == reserved.get(r, 0) for r in ids)


@dataclass(frozen=True, slots=True)
class OfferMatch:
    """The offers one pod may draw on, those already taken among them.

    ``slots`` are offer slots in the order of their rows; ``rows`` the distinct rows they are on;
    ``first`` where each row's slots begin; ``at`` each slot's position in ``rows``. ``unseen`` are
    their reserve pods. A pod that ignores reservations matches all of them.
    """

    key: Hashable
    slots: Slots
    rows: Slots
    first: Slots
    at: Slots
    unseen: Unseen

    def span(self, row: int) -> slice:
        """Where the slots of a row are among all of them; an empty slice if it has none."""
        here = int(self.rows.searchsorted(row))
        if not len(self.slots) or here == len(self.rows) or self.rows[here] != row:
            return slice(0, 0)
        end = int(self.first[here + 1]) if here + 1 < len(self.rows) else len(self.slots)
        return slice(int(self.first[here]), end)

    @property
    def ignoring(self) -> bool:
        """Whether the pod uses held room without taking any offer."""
        return self.key == _IGNORING


class OfferMatcher:
    """Finds a pod's offers and remembers what it found until offers change."""

    def __init__(self, offers: Offers, node_table: NodeTable) -> None:
        self._offers = offers
        self._node_table = node_table
        self._matches: dict[Hashable, OfferMatch | None] = {}
        self._unseen: dict[Hashable, Unseen] = {}
        self._strangers: set[int] = set()
        """Kinds of pods that own nothing; most pods are of one of these."""

    def forget(self) -> None:
        """Look again: offers, or who owns them, changed."""
        self._matches.clear()
        self._strangers.clear()

    def match(self, pod_info: PodInfo) -> OfferMatch | None:
        """The offers a pod may draw on now, or None."""
        if pod_info.is_reserve_pod:
            return self._inheriting(pod_info)
        groups: Sequence[OwnerGroup] = ()
        key: Hashable = _IGNORING
        if not ignores(pod_info):
            kind = self._node_table.label_group_of(pod_info)
            if kind.id in self._strangers:
                return None
            groups = self._offers.index.owned_by(pod_info.pod)
            if not groups:
                if self._offers.index.is_strange(pod_info.labels):
                    if len(self._strangers) >= _MOST_STRANGERS:
                        self._strangers.clear()
                    self._strangers.add(kind.id)
                return None
            key = _key(groups, pod_info)
        if key not in self._matches:
            if len(self._matches) >= _MOST_MATCHES:
                self._matches.clear()
            slots = self._welcoming(groups, pod_info) if groups else self._all()
            self._matches[key] = self._match(slots, key)
        return self._matches[key]

    def _inheriting(self, pod_info: PodInfo) -> OfferMatch | None:
        """Every row, for a reservation that may take room others still have: no offers."""
        reservation = self._offers.pending.get(pod_info.uid)
        if reservation is None or not reservation.spec.pre_allocation:
            return None
        none, rows = np.zeros(0, np.intp), self._node_table.rows
        first = np.zeros(len(rows), np.intp)
        return OfferMatch(_INHERITING, none, rows, first, none, self._hide(none, _INHERITING))

    def _all(self) -> Slots:
        slots: Slots = (self._offers.columns.row >= 0).nonzero()[0]
        return slots

    def _welcoming(self, groups: Sequence[OwnerGroup], pod_info: PodInfo) -> Slots:
        """The offers of these owners that take this pod."""
        offers = self._offers
        slots = np.concatenate([group.slots for group in groups])
        slots = slots[offers.columns.row[slots] >= 0]
        try:
            wishes = ReservationWishes.of(pod_info)
        except BadRequest:
            # The attempt itself says so; here it only means that nothing matches.
            return np.zeros(0, np.intp)
        # Without wishes of the pod's own, only offers that do not welcome everybody must be asked.
        welcome = offers.columns.open[slots] & (not wishes)
        kept = [s for s in slots[~welcome] if refusal(offers, int(s), pod_info, wishes) is None]
        return np.concatenate([slots[welcome], np.array(kept, np.intp)])

    def _match(self, slots: Slots, key: Hashable) -> OfferMatch | None:
        if not len(slots):
            return None
        of_slot = self._offers.columns.row[slots]
        order = np.lexsort((slots, of_slot))
        slots = slots[order]
        rows, first, at = np.unique(of_slot[order], return_index=True, return_inverse=True)
        return OfferMatch(key, slots, rows, first, at, self._hide(slots, key))

    def _hide(self, slots: Slots, key: Hashable) -> Unseen:
        """The reserve pods of these offers; whoever does not see them holds on to the answer."""
        found = self._unseen.get(key)
        if found is None:
            if len(self._unseen) >= _MOST_MATCHES:
                self._unseen.clear()
                # Whoever holds on to one of them must let go.
                self._node_table.epochs.bump("layout")
            found = self._unseen[key] = Unseen(self._node_table)
        columns = self._offers.columns
        laden: dict[int, tuple[PodInfo, ...]] = {}
        for slot in slots[columns.laden[slots]].tolist():
            row = int(columns.row[slot])
            laden[row] = (*laden.get(row, ()), self._offers.at(slot).pod_info)
        found.update(columns.row[slots], columns.look[slots], self._offers.looks, laden)
        return found


def ignores(pod_info: PodInfo) -> bool:
    """Whether the pod uses held room as if nobody held it."""
    return pod_info.labels.get(names.IGNORED) == "true"


def _key(groups: Sequence[OwnerGroup], pod_info: PodInfo) -> Hashable:
    """Everything of a pod that decides which offers of its groups it may draw on."""
    notes = pod_info.pod.metadata.annotations
    exact = notes.get(names.EXACT_MATCH)
    return (
        tuple([group.number for group in groups]),
        notes.get(names.AFFINITY),
        exact and (exact, pod_info.request),
        pod_info.pod.spec.tolerations,
    )
