"""One offer: a reservation that holds room on a node, what pods draw on it, and what is left.

Draws are kept by reservation *and* node: anybody may write on a pod which reservation it took. On
another node than the reservation's it takes nothing of it, whatever it says. They are kept for
reservations that hold no room just now too: a pod may be seen before its reservation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.reservation import Reservation
from holdfast.capacity.owners import OwnerGroup
from holdfast.columns.interner import PODS
from holdfast.columns.pod_info import PodInfo

AmountsByResource = Mapping[int, int]
Amount = TypeVar("Amount", int, NDArray[np.int64])
Place = tuple[str, str]
"""A reservation's uid and the node on which somebody draws on it."""
_NOWHERE: tuple[Place, ...] = ()


class Drawn:
    """What each pod draws at one place, by pod uid, and the sums of it by resource."""

    __slots__ = ("by_pod", "sums")

    def __init__(self) -> None:
        self.by_pod: dict[str, AmountsByResource] = {}
        self.sums: dict[int, int] = {}

    def put(self, pod_uid: str, amounts: AmountsByResource | None) -> bool:
        """Enter what a pod draws instead of what it drew, None for nothing; tell if it is news."""
        old = self.by_pod.get(pod_uid)
        if old == amounts:
            return False
        self._add(old or {}, -1)
        if amounts is None:
            del self.by_pod[pod_uid]
        else:
            self.by_pod[pod_uid] = amounts
            self._add(amounts, 1)
        return True

    def _add(self, amounts: AmountsByResource, sign: int) -> None:
        for resource, amount in amounts.items():
            self.sums[resource] = self.sums.get(resource, 0) + sign * amount

    def of(self, pods: Iterable[str], resource: int) -> int:
        """What some of the pods draw of a resource."""
        return sum(self.by_pod[uid].get(resource, 0) for uid in pods)

    def fork(self) -> Drawn:
        """An independent copy."""
        copy = Drawn()
        copy.by_pod, copy.sums = dict(self.by_pod), dict(self.sums)
        return copy


class DrawLedger:
    """Every draw there is."""

    def __init__(self) -> None:
        self._at: dict[Place, Drawn] = {}
        self._places_of: dict[str, tuple[Place, ...]] = {}

    def open(self, place: Place) -> Drawn:
        """The entries at a place, for somebody who will close it again."""
        return self._at.setdefault(place, Drawn())

    def close(self, place: Place) -> None:
        """Nobody looks at a place any more; entries of pods that say so stay."""
        if place in self._at and not self._at[place].by_pod:
            del self._at[place]

    def places_of(self, pod_uid: str) -> tuple[Place, ...]:
        """Where a pod draws."""
        return self._places_of.get(pod_uid, _NOWHERE)

    def assign(self, pod_uid: str, draws: Mapping[Place, AmountsByResource]) -> list[Place]:
        """Enter what a pod draws where, instead of what it drew; answers where that is news."""
        old = self._places_of.pop(pod_uid, _NOWHERE)
        if draws:
            self._places_of[pod_uid] = tuple(draws)
        moved = [p for p in old if p not in draws and self._at[p].put(pod_uid, None)]
        return moved + [p for p, amounts in draws.items() if self.open(p).put(pod_uid, amounts)]

    def fork(self) -> DrawLedger:
        """An independent copy."""
        copy = DrawLedger()
        copy._at = {place: drawn.fork() for place, drawn in self._at.items()}
        copy._places_of = dict(self._places_of)
        return copy


@dataclass(slots=True)
class Offer:
    """A reservation that holds room on a node; ``facts`` are those of its reserve pod."""

    reservation: Reservation
    pod_info: PodInfo
    slot: int
    group: OwnerGroup
    reserved: AmountsByResource
    inner: AmountsByResource
    restricted: frozenset[int]
    order: int
    created: float
    drawn: Drawn

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
    def draws(self) -> dict[str, AmountsByResource]:
        """What each assigned pod takes, by pod uid."""
        return self.drawn.by_pod

    @property
    def waits(self) -> bool:
        """Whether its room is not free yet: who draws on it are those it inherits from."""
        return self.reservation.phase == "Waiting"

    @property
    def available(self) -> bool:
        """Whether its room is there for owners, unless it serves once and has one."""
        return self.reservation.phase == "Available"

    @property
    def matchable(self) -> bool:
        """Whether a new owner may take it."""
        return self.available and not (self.reservation.spec.allocate_once and self.draws)

    @property
    def open(self) -> bool:
        """Whether every owner is welcome: no taints, not unschedulable, not on its way out."""
        spec, meta = self.reservation.spec, self.reservation.metadata
        return not (spec.taints or spec.unschedulable or meta.deletion_timestamp)

    def limits(self, resource: int) -> bool:
        """Whether owners may have no more of a resource than what is left of it."""
        return self.policy == "Restricted" and resource in self.restricted

    def used(self, resource: int) -> int:
        """What the owners take of one resource; an owner's pod slot is one offer's alone."""
        return self.drawn.sums.get(resource, 0)

    def left(self, resource: int) -> int:
        """What an owner may still draw of one resource; of pod slots it has one, if not more."""
        kept = self.inner.get(resource, 0) + self.drawn.sums.get(resource, 0)
        left = self.reserved.get(resource, resource == PODS) - kept
        return left if left > 0 else 0

    def regained(
        self, gone: Collection[str], coming: AmountsByResource | None = None
    ) -> tuple[dict[int, int], dict[int, int]]:
        """What more it would hold beside its owners, and what more lend, were some of them gone.

        ``coming`` is what others would draw instead.
        """
        coming = coming or {}
        held, lent = {}, {}
        for resource in self.reserved.keys() | {PODS}:
            reserved, inner = self.reserved.get(resource, 1), self.inner.get(resource, 0)
            used = self.used(resource)
            then = used - self.drawn.of(gone, resource) + coming.get(resource, 0)
            held[resource] = max(reserved - then, inner) - max(reserved - used, inner)
            lent[resource] = max(0, reserved - inner - then) - max(0, reserved - inner - used)
        return held, lent

    @property
    def top_up(self) -> dict[int, int]:
        """What is held beside its owners, pod slots apart."""
        sums, inner = self.drawn.sums, self.inner
        found = {}
        for resource, reserved in self.reserved.items():
            if resource != PODS:
                unused, kept = reserved - sums.get(resource, 0), inner.get(resource, 0)
                found[resource] = unused if unused > kept else kept
        return found

    @property
    def slots(self) -> int:
        """Pod slots held beside those the owners use; without saying so it reserves one."""
        return max(self.reserved.get(PODS, 1) - self.used(PODS), self.inner.get(PODS, 0))


def fullness(amount: Amount, reserved: Amount) -> Amount:
    """How full so much makes what is reserved, 0 to 100; 0 if it is more than there is.

    Takes numbers, or arrays of them; what is reserved is above zero.

    >>> fullness(1, 3), fullness(3, 3), fullness(4, 3)
    (33, 100, 0)
    """
    return 100 * amount // reserved * (amount <= reserved)


def alike(old: Reservation, new: Reservation) -> bool:
    """Tell whether two versions offer the same room to the same pods.

    What the controller writes about owners and conditions makes no difference to anybody.
    """
    return (
        old.spec == new.spec
        and old.phase == new.phase
        and old.status.node_name == new.status.node_name
        and old.status.allocatable == new.status.allocatable
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    )


class WaitingOffers:
    """The offers that wait, by node.

    Where they hold more than is free, the rest is what others stand in. It is not taken from what
    other offers there still have: that was promised before, and its owners may draw on it.
    """

    def __init__(self) -> None:
        self._on: dict[str, dict[str, Offer]] = {}

    def __bool__(self) -> bool:
        return bool(self._on)

    def __iter__(self) -> Iterator[str]:
        """The nodes."""
        return iter(self._on)

    def enter(self, offer: Offer) -> None:
        """Note an offer if it waits."""
        if offer.waits:
            self._on.setdefault(offer.node, {})[offer.uid] = offer

    def leave(self, offer: Offer) -> None:
        """Forget an offer."""
        there = self._on.get(offer.node, {})
        there.pop(offer.uid, None)
        if not there:
            self._on.pop(offer.node, None)

    def held(self, node: str, resource: int) -> int:
        """What they hold of a resource on a node."""
        there = self._on.get(node, {}).values()
        if resource == PODS:
            return sum([offer.slots for offer in there])
        return sum([offer.top_up.get(resource, 0) for offer in there])
