"""The use of a node's Reservations by pods, and whether the node still has the rest, in nanos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from holdfast.api.annotations import allocated_reservation
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import AVAILABLE, WAITING, Reservation
from holdfast.state.device_share.requests import device_resources
from holdfast.state.reservations.gpu_names import nanos_in_names_of
from holdfast.state.reservations.operating_pods import operating_reservation
from holdfast.state.reservations.reservation_annotations import (
    annotated_allocations,
    draws_within,
    inner_reserved,
)

ResourceNanos = Mapping[str, int]
PODS, ONE = "pods", 10**9


class PodUse(NamedTuple):
    """The amounts that a pod uses of one Reservation; its pod slot counts in only one."""

    pod: Pod
    amounts: ResourceNanos


@dataclass(frozen=True)
class NodeUsage:
    """A node with its pods and Reservations; the pods have only annotations that are believed.

    ``node`` is None if the node is known to be gone. It is shared by the Reservations of the node,
    because most sums are the same for all of them.
    """

    node: Node | None
    pods: tuple[Pod, ...] = ()
    neighbours: tuple[Reservation, ...] = ()

    def users(self, reservation: Reservation) -> list[Pod]:
        """Return the running pods that use a Reservation, in the order of their uids."""
        return [use.pod for use in self._uses.get(reservation.uid, ())]

    def allocated(self, reservation: Reservation) -> dict[str, int]:
        """Sum what pods use of a Reservation, of the resources it reserves.

        The sum is not capped: it may exceed what is reserved.
        """
        reserved = reservation.status.allocatable
        return self._sum(reservation, lambda amounts: nanos_in_names_of(amounts, reserved))

    def _sum(
        self, reservation: Reservation, read: Callable[[ResourceNanos], ResourceNanos]
    ) -> dict[str, int]:
        total: Counter[str] = Counter()
        for use in self._uses.get(reservation.uid, ()):
            amounts = read(use.amounts)
            total.update({n: amounts.get(n, 0) for n in reservation.status.allocatable})
        return {name: amount for name, amount in total.items() if amount}

    def short_of(self, reservation: Reservation) -> list[str]:
        """List the resources of which the node has less than the reservation holds.

        A node without allocatable resources in its status is assumed to have enough. So is a node
        that does not list the resources of its Device.
        """
        assert self.node is not None, "a reservation on a node that is gone has expired"
        if not self.node.status.allocatable:
            return []
        own = self._promise(reservation)
        ahead = Counter(self._promised)
        if any(other.uid == reservation.uid for other in self.neighbours):
            ahead.subtract(own if reservation.phase == AVAILABLE else {})
        for other in self.neighbours if reservation.phase == WAITING else ():
            # Of two reservations that wait, the older one is served first.
            if other.phase == WAITING and _age(other) < _age(reservation):
                ahead.update(self._promise(other))
        listed = self.node.status.allocatable
        unlisted = device_resources(own) - listed.keys()
        return sorted(
            n
            for n, amount in own.items()
            if amount + ahead[n] > self._free[n] and n not in unlisted
        )

    def _promise(self, reservation: Reservation) -> dict[str, int]:
        """Return the amounts above 0 that must stay free in addition to what its owners use.

        That is what owners may still allocate, or what is reserved inside if that is more. By
        default it includes one pod slot.
        """
        pod_slots = sum(use.amounts.get(PODS, 0) for use in self._uses.get(reservation.uid, ()))
        # Owners that request a resource by another name do not use this one on the node.
        used = {**self._sum(reservation, lambda amounts: amounts), PODS: pod_slots}
        kept = {n: nanos(amount) for n, amount in inner_reserved(reservation).items()}
        total = {n: nanos(amount) for n, amount in reservation.status.allocatable.items()}
        total.setdefault(PODS, ONE)
        left = {n: max(t - used.get(n, 0), min(kept.get(n, 0), t)) for n, t in total.items()}
        return {name: amount for name, amount in left.items() if amount > 0}

    @cached_property
    def _uses(self) -> dict[str, list[PodUse]]:
        uses: dict[str, list[PodUse]] = {}
        living = (pod for pod in self.pods if not pod.finished)
        for pod in sorted(living, key=lambda p: p.uid):
            for uid, amounts in _taken(pod).items() if pod.spec.node_name else ():
                uses.setdefault(uid, []).append(PodUse(pod, amounts))
        return uses

    @cached_property
    def _free(self) -> Counter[str]:
        """Return allocatable resources less the requests of all pods."""
        assert self.node is not None
        free = Counter({n: nanos(a) for n, a in self.node.status.allocatable.items()})
        for pod in self.pods:
            if not pod.finished:
                request = {**request_nanos(pod), PODS: ONE}
                acts_as = operating_reservation(pod)
                # What a pod that acts as a reservation shares with its owner counts once.
                free.subtract(request if acts_as is None else self._promise(acts_as))
        return free

    @cached_property
    def _promised(self) -> Counter[str]:
        """Return the amounts that must be free for all Available reservations."""
        total: Counter[str] = Counter()
        for other in self.neighbours:
            if other.phase == AVAILABLE:
                total.update(self._promise(other))
        return total


def _taken(pod: Pod) -> dict[str, dict[str, int]]:
    """Return what a pod uses, by the uid of the Reservation."""
    allocated, several = allocated_reservation(pod), annotated_allocations(pod)
    if not several:
        return {} if allocated is None else {allocated.uid: {**request_nanos(pod), PODS: ONE}}
    draws = ((d.uid, {k: nanos(v) for k, v in d.resources.items()}) for d in several)
    by_uid = draws_within(request_nanos(pod), draws)
    first = several[0].uid if allocated is None else allocated.uid
    by_uid[first] = {**by_uid.get(first, {}), PODS: ONE}
    return by_uid


def _age(reservation: Reservation) -> tuple[str, str]:
    return reservation.metadata.creation_timestamp or "", reservation.uid
