"""The CPUs and amounts of NUMA nodes that pods and reservations hold on one node."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdfast.state.columns.claimants import Claimant
from holdfast.state.numa.node_state import (
    NO_OFFER,
    NO_SHAPE,
    NodeState,
    NumaOffer,
    NumaShape,
    PodHolding,
    ReservationHolding,
    offer_of,
    remaining,
    state_of,
)
from holdfast.state.numa.resource_status import NumaAllocation
from holdfast.state.numa.topology import NO_TOPOLOGY, NodeTopology


class ClaimedHolding(NamedTuple):
    """The allocation of a pod if no other pod or reservation claimed the same."""

    holding: PodHolding
    claimant: Claimant


@dataclass(slots=True)
class NodeHoldings:
    """The holders on one node, which may have no Node object (yet).

    A pod may act as a reservation: its owners have what it has, as those of a reservation do.
    Invariant: ``pods`` are the claims without the CPUs of earlier claimants, and of reservations
    that the pod does not own. They differ from the claims only if a CPU is claimed twice
    (``disputed``).
    """

    topology: NodeTopology = NO_TOPOLOGY
    shape: NumaShape = NO_SHAPE
    pods: dict[str, PodHolding] = field(default_factory=dict)
    reservations: dict[str, ReservationHolding] = field(default_factory=dict)
    claims: dict[str, ClaimedHolding] = field(default_factory=dict)
    yielding: set[str] = field(default_factory=set)
    """Reservations that take nothing from pods: see ``set_reservation``."""
    disputed: bool = False
    _claimed: int = 0
    """The CPUs that pods claim, while none is disputed."""

    def fork(self) -> NodeHoldings:
        """Return an independent copy."""
        return replace(
            self, pods=dict(self.pods), reservations=dict(self.reservations),
            claims=dict(self.claims), yielding=set(self.yielding),
        )  # fmt: skip

    def set_pod(self, uid: str, claim: ClaimedHolding) -> list[str]:
        """Set what a pod claims; return the pods that have less than before, by uid."""
        known, (holding, _) = self.claims.get(uid), claim
        self.claims[uid] = claim
        if not self.disputed:
            if known is not None and known.holding == holding:
                return []
            if known is not None:
                self._claimed = self._claimed_cpus(but=uid)
            cpus = holding.allocation.cpus
            if not (cpus & self._claimed or self._is_reserved(claim)):
                self._claimed |= cpus
                self.pods[uid] = holding
                return []
        return self._settle()

    def set_reservation(
        self, uid: str, holding: ReservationHolding, *, yields: bool = False
    ) -> list[str]:
        """Set what a reservation has; return the pods that have less than before, by uid.

        A reservation that ``yields`` takes nothing from pods: either it is being bound, so that
        pods that it pre-allocates do not name it yet, or a pod acts as it and claims no more than
        others.
        """
        (self.yielding.add if yields else self.yielding.discard)(uid)
        self.reservations[uid] = holding
        cpus = holding.allocation.cpus
        return self._settle() if self.disputed or cpus & self._claimed else []

    def remove(self, uid: str) -> None:
        """Remove a pod or a reservation, if it is there."""
        claim = self.claims.pop(uid, None)
        self.pods.pop(uid, None)
        self.yielding.discard(uid)
        if claim is not None:
            self._claimed = self._claimed_cpus()
        if (self.reservations.pop(uid, None), claim) != (None, None) and self.disputed:
            self._settle()

    def _claimed_cpus(self, but: str = "") -> int:
        """Return what pods claim; the owner of a pod that acted as a reservation has the same."""
        cpus = 0
        for uid, claim in self.claims.items():
            if uid != but:
                cpus |= claim.holding.allocation.cpus
        return cpus

    def _is_reserved(self, claim: ClaimedHolding) -> bool:
        return bool(claim.holding.allocation.cpus & self._others_cpus(claim))

    def _others_cpus(self, claim: ClaimedHolding) -> int:
        """Return the CPUs of reservations that the pod does not own."""
        cpus = 0
        if not claim.claimant.ignores_reservations:
            for uid, reserved in self.reservations.items():
                if uid != claim.holding.reservation and uid not in self.yielding:
                    cpus |= reserved.allocation.cpus
        return cpus

    def _settle(self) -> list[str]:
        """Give each CPU to its first claimant; return the pods that have less than before."""
        before, self.pods, self._claimed, self.disputed = self.pods, {}, 0, False
        for uid, claim in sorted(self.claims.items(), key=lambda item: item[1].claimant.rank):
            holding = claim.holding
            cpus, lost = holding.allocation.cpus, self._others_cpus(claim)
            for other, held in self.pods.items():
                # The owner of a pod that acted as a reservation has what that pod has.
                if other != holding.reservation and held.reservation != uid:
                    lost |= held.allocation.cpus
            if cpus & lost:
                self.disputed = True
                allocation = replace(holding.allocation, cpus=cpus & ~lost)
                holding = PodHolding(allocation, holding.reservation)
            self.pods[uid] = holding
            self._claimed |= cpus
        return [
            uid for uid, held in self.pods.items()
            if held != self.claims[uid].holding and before.get(uid) != held
        ]  # fmt: skip

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost if this were forgotten."""
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
    ) -> NumaOffer:
        """Return what a pod may use of a reservation; nothing of an unknown one."""
        reserved = self.reservations.get(reservation)
        if reserved is None and reservation in self.pods:
            reserved = ReservationHolding(self.pods[reservation].allocation)
        if reserved is None:
            return NO_OFFER
        gone = {*removed, reservation}
        pods = [holding for uid, holding in self.pods.items() if uid not in gone]
        if reservation in self.yielding:
            reserved = self._without_others(reservation, reserved)
        return offer_of(self.shape, reservation, reserved, (*pods, *added))

    def _without_others(self, own: str, reserved: ReservationHolding) -> ReservationHolding:
        """Return what no other reservation has: a pod that acts as one may claim more than that."""
        cpus = reserved.allocation.cpus
        for uid, other in self.reservations.items():
            if uid != own:
                cpus &= ~other.allocation.cpus
        return reserved._replace(allocation=replace(reserved.allocation, cpus=cpus))

    def left_of(self, reservation: str) -> NumaAllocation:
        """Return the part of a reservation that no owner has."""
        return remaining(reservation, self.reservations[reservation], tuple(self.pods.values()))
