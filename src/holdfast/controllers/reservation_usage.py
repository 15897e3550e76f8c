"""Who draws on a node's Reservations, and whether it can still give what they promise. Nanos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from holdfast.api import reservation_names as names
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import AVAILABLE, WAITING, Reservation
from holdfast.capacity.annotations import allocated_of, draws_of, inner_reserved

ResourceNanos = Mapping[str, int]
PODS, ONE = "pods", 10**9


class Use(NamedTuple):
    """What a pod takes of one Reservation; its slot is one Reservation's alone."""

    pod: Pod
    amounts: ResourceNanos


@dataclass(frozen=True)
class Ground:
    """A node with Reservations: the pods there, and those Reservations.

    ``node`` is None when the node is known to be gone. Made once for all that is asked of it: what
    is worked out for one Reservation serves its neighbours too.
    """

    node: Node | None
    pods: tuple[Pod, ...] = ()
    neighbours: tuple[Reservation, ...] = ()

    def users(self, reservation: Reservation) -> list[Pod]:
        """Find the living pods that draw on a Reservation, in the order of their uids."""
        return [use.pod for use in self._uses.get(reservation.uid, ())]

    def drawn(self, reservation: Reservation) -> dict[str, int]:
        """Sum what pods draw on a Reservation, of the resources it reserves.

        Not capped: an owner larger than the Reservation shows as such.
        """
        total: Counter[str] = Counter()
        for use in self._uses.get(reservation.uid, ()):
            total.update({n: use.amounts.get(n, 0) for n in reservation.status.allocatable})
        return {name: amount for name, amount in total.items() if amount}

    def short_of(self, reservation: Reservation) -> list[str]:
        """Name the resources of which the node cannot give what it still promises.

        Pods that ignore reservations said so themselves and break no promise; but they are in the
        way of one that waits for room. A node that has not said what it has gives no reason to
        doubt it.
        """
        assert self.node is not None, "a reservation on a node that is gone has expired"
        if not self.node.status.allocatable:
            return []
        own = self._promise(reservation)
        ahead = Counter(self._promised)
        if any(other.uid == reservation.uid for other in self.neighbours):
            ahead.subtract(own if reservation.phase == AVAILABLE else {})
        for other in self.neighbours if reservation.phase == WAITING else ():
            # Of two that wait for the same room the older is served first.
            if other.phase == WAITING and _age(other) < _age(reservation):
                ahead.update(self._promise(other))
        # What they have is not free, but no promise is broken by it.
        ahead.subtract(self._ignoring if reservation.phase == AVAILABLE else {})
        return sorted(n for n, amount in own.items() if amount + ahead[n] > self._free[n])

    def _promise(self, reservation: Reservation) -> dict[str, int]:
        """What must stay free beside its owners, of the resources of which anything must.

        What owners may still draw, and what is kept back inside; of pod slots one, if it reserves
        no other number.
        """
        slots = sum(use.amounts.get(PODS, 0) for use in self._uses.get(reservation.uid, ()))
        used = {**self.drawn(reservation), PODS: slots}
        kept = {n: nanos(amount) for n, amount in inner_reserved(reservation).items()}
        total = {n: nanos(amount) for n, amount in reservation.status.allocatable.items()}
        total.setdefault(PODS, ONE)
        left = {n: max(t - used.get(n, 0), min(kept.get(n, 0), t)) for n, t in total.items()}
        return {name: amount for name, amount in left.items() if amount > 0}

    @cached_property
    def _living(self) -> tuple[Pod, ...]:
        return tuple(p for p in self.pods if not p.finished and not _ignores(p))

    @cached_property
    def _uses(self) -> dict[str, list[Use]]:
        found: dict[str, list[Use]] = {}
        for pod in sorted(self._living, key=lambda p: p.uid):
            for uid, amounts in _taken(pod).items() if pod.spec.node_name else ():
                found.setdefault(uid, []).append(Use(pod, amounts))
        return found

    @cached_property
    def _free(self) -> Counter[str]:
        """What the node has beside its pods."""
        assert self.node is not None
        free = Counter({n: nanos(a) for n, a in self.node.status.allocatable.items()})
        for pod in self.pods:
            if not pod.finished:
                free.subtract({**request_nanos(pod), PODS: ONE})
        return free

    @cached_property
    def _ignoring(self) -> Counter[str]:
        """What pods have that ignore reservations."""
        total: Counter[str] = Counter()
        for pod in self.pods:
            if not pod.finished and _ignores(pod):
                total.update({**request_nanos(pod), PODS: ONE})
        return total

    @cached_property
    def _promised(self) -> Counter[str]:
        """What all Reservations that are open promise together."""
        total: Counter[str] = Counter()
        for other in self.neighbours:
            if other.phase == AVAILABLE:
                total.update(self._promise(other))
        return total


def _taken(pod: Pod) -> dict[str, dict[str, int]]:
    """What a pod takes, by the uid of the Reservation it takes it from."""
    allocated, several = allocated_of(pod), draws_of(pod)
    if not several:
        return {} if allocated is None else {allocated.uid: {**request_nanos(pod), PODS: ONE}}
    found = {d.uid: {k: nanos(v) for k, v in d.resources.items()} for d in several}
    first = several[0].uid if allocated is None else allocated.uid
    found[first] = {**found.get(first, {}), PODS: ONE}
    return found


def _age(reservation: Reservation) -> tuple[str, str]:
    return reservation.metadata.creation_timestamp or "", reservation.uid


def _ignores(pod: Pod) -> bool:
    return pod.metadata.labels.get(names.IGNORED) == "true"
