"""What pods and reservations hold of one node's CPUs and NUMA nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from holdfast.numa.node_state import (
    NO_OFFER,
    NO_SHAPE,
    NodeShape,
    NodeState,
    Offer,
    PodHolding,
    ReservationHolding,
    offer_of,
    remaining,
    state_of,
)
from holdfast.numa.resource_status import Allocation
from holdfast.numa.topology import NO_TOPOLOGY, NodeTopology


@dataclass(slots=True)
class NodeHoldings:
    """What is known of one node; it may have no Node object (yet).

    A pod may act as a reservation: its owners have what it has, as those of a reservation do.
    """

    topology: NodeTopology = NO_TOPOLOGY
    shape: NodeShape = NO_SHAPE
    pods: dict[str, PodHolding] = field(default_factory=dict)
    reservations: dict[str, ReservationHolding] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost if it was forgotten."""
        return not (self.pods or self.reservations) and self.shape is NO_SHAPE

    def state(
        self,
        removed: Collection[str] = (),
        added: Collection[PodHolding] = (),
        *,
        without_reservations: bool = False,
    ) -> NodeState:
        """Return the state of the node as if pods were removed and added.

        ``without_reservations``: for a pod that ignores reservations; pods that act as such stay.
        """
        pods = {uid: holding for uid, holding in self.pods.items() if uid not in removed}
        reservations = {} if without_reservations else self.reservations
        sources = {holding.reservation for holding in (*pods.values(), *added)}
        if acting := sources & pods.keys():
            parts = {uid: ReservationHolding(pods.pop(uid).allocation) for uid in acting}
            reservations = {**reservations, **parts}
        return state_of(self.shape, (*pods.values(), *added), reservations)

    def offer(
        self, reservation: str, removed: Collection[str] = (), added: Collection[PodHolding] = ()
    ) -> Offer:
        """Return what a pod may use of a reservation; nothing of an unknown one."""
        reserved = self.reservations.get(reservation)
        if reserved is None and reservation in self.pods:
            reserved = ReservationHolding(self.pods[reservation].allocation)
        if reserved is None:
            return NO_OFFER
        gone = {*removed, reservation}
        pods = [holding for uid, holding in self.pods.items() if uid not in gone]
        return offer_of(self.shape, reservation, reserved, (*pods, *added))

    def left_of(self, reservation: str) -> Allocation:
        """Return what of a reservation no owner has."""
        return remaining(reservation, self.reservations[reservation], tuple(self.pods.values()))
