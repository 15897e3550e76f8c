"""One offer: a reservation that holds room on a node, and what is left of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.api.reservation import Reservation
from holdfast.capacity.draws import Amounts, Drawn
from holdfast.capacity.owner_index import OwnerGroup
from holdfast.columns.interner import PODS
from holdfast.columns.pod_facts import PodFacts


@dataclass(slots=True)
class Offer:
    """A reservation that holds room on a node; ``facts`` are those of its reserve pod."""

    reservation: Reservation
    facts: PodFacts
    slot: int
    group: OwnerGroup
    reserved: Amounts
    inner: Amounts
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
    def draws(self) -> dict[str, Amounts]:
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
        self, gone: Collection[str], coming: Amounts | None = None
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
