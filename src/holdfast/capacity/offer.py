"""One offer: a reservation that holds room on a node, and what is left of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from holdfast.api.reservation import Reservation
from holdfast.capacity.owner_index import OwnerGroup
from holdfast.columns.interner import PODS

Amounts = Mapping[int, int]


@dataclass(slots=True)
class Offer:
    """A reservation that holds room on a node."""

    reservation: Reservation
    slot: int
    group: OwnerGroup
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
        return self.reservation.phase == "Available" and not (
            self.reservation.spec.allocate_once and self.draws
        )

    @property
    def open(self) -> bool:
        """Whether every owner is welcome: no taints, not unschedulable, not on its way out."""
        spec, meta = self.reservation.spec, self.reservation.metadata
        return not (spec.taints or spec.unschedulable or meta.deletion_timestamp)

    def used(self, resource: int) -> int:
        """What the owners take of one resource; of pod slots each takes one."""
        if resource == PODS:
            return len(self.draws)
        return sum(draw.get(resource, 0) for draw in self.draws.values())

    def left(self, resource: int) -> int:
        """What an owner may still draw of one resource."""
        kept = self.inner.get(resource, 0) + self.used(resource)
        return max(0, self.reserved.get(resource, 0) - kept)

    def regained(self, gone: Collection[str]) -> tuple[dict[int, int], dict[int, int]]:
        """What more it would hold beside its owners, and what more lend, were some of them gone."""
        held, lent = {}, {}
        for resource in self.reserved.keys() - {PODS}:
            reserved, inner = self.reserved[resource], self.inner.get(resource, 0)
            used = self.used(resource)
            then = used - sum(self.draws[uid].get(resource, 0) for uid in gone)
            held[resource] = max(reserved - then, inner) - max(reserved - used, inner)
            lent[resource] = max(0, reserved - inner - then) - max(0, reserved - inner - used)
        of_pods = self.reserved.get(PODS, 1) - len(self.draws)
        held[PODS] = lent[PODS] = max(0, of_pods + len(gone)) - max(0, of_pods)
        return held, lent

    @property
    def slots(self) -> int:
        """Pod slots held beside those the owners use."""
        return max(0, self.reserved.get(PODS, 1) - len(self.draws))


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
