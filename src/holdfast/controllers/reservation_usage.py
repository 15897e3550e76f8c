"""Who draws on a Reservation, and whether its node can still give what it promises. Nanos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import Reservation
from holdfast.capacity import names
from holdfast.capacity.annotations import allocated_of, draws_of, inner_reserved

Nanos = Mapping[str, int]
PODS, ONE = "pods", 10**9


@dataclass(frozen=True, slots=True)
class Ground:
    """The node a Reservation is on: the pods there and the other Reservations that hold room.

    ``node`` is None when the node is known to be gone.
    """

    node: Node | None
    pods: tuple[Pod, ...] = ()
    neighbours: tuple[Reservation, ...] = ()


def users(reservation: Reservation, pods: Iterable[Pod]) -> list[Pod]:
    """Find the living pods that draw on a Reservation, in the order of their uids."""
    found = [
        p for p in pods if not p.finished and p.spec.node_name and _draws_on(p, reservation.uid)
    ]
    return sorted(found, key=lambda p: p.uid)


def _draws_on(pod: Pod, uid: str) -> bool:
    taken = allocated_of(pod)
    if taken is not None and taken.uid == uid:
        return True
    return any(draw.uid == uid for draw in draws_of(pod))


def drawn(reservation: Reservation, pods: Iterable[Pod]) -> dict[str, int]:
    """Sum what pods draw on a Reservation, in nanos, of the resources it reserves.

    Not capped: an owner larger than the Reservation shows as such.
    """
    total: dict[str, int] = {}
    for pod in pods:
        own = next((d for d in draws_of(pod) if d.uid == reservation.uid), None)
        amounts: Nanos = (
            {k: nanos(v) for k, v in own.resources.items()} if own else request_nanos(pod)
        )
        for name in reservation.status.allocatable:
            if amount := amounts.get(name):
                total[name] = total.get(name, 0) + amount
    return total


def short_of(reservation: Reservation, ground: Ground) -> list[str]:
    """Name the resources of which the node cannot give what its Reservations still promise.

    Pods that ignore reservations said so themselves and break no promise. A node that has not
    said what it has gives no reason to doubt it.
    """
    assert ground.node is not None, "a reservation on a node that is gone has expired"
    if not ground.node.status.allocatable:
        return []
    counted = [p for p in ground.pods if not p.finished and not _ignores(p)]
    promised = promises(reservation, counted)
    if not promised:
        return []
    for other in ground.neighbours:
        if other.uid != reservation.uid and _comes_first(other, reservation):
            for name, amount in promises(other, counted).items():
                if name in promised:
                    promised[name] += amount
    free = {n: nanos(ground.node.status.allocatable.get(n, 0)) for n in promised}
    for pod in counted:
        for name, amount in {**request_nanos(pod), PODS: ONE}.items():
            if name in free:
                free[name] -= amount
    return sorted(name for name, amount in promised.items() if amount > free[name])


def _comes_first(other: Reservation, reservation: Reservation) -> bool:
    """Of two that wait for the same room the older is served first; those open came before."""
    if other.phase != "Waiting":
        return other.phase == "Available"
    return reservation.phase == "Waiting" and _age(other) < _age(reservation)


def _age(reservation: Reservation) -> tuple[str, str]:
    return reservation.metadata.creation_timestamp or "", reservation.uid


def promises(reservation: Reservation, pods: Iterable[Pod]) -> dict[str, int]:
    """Tell what must stay free beside its owners, of the resources of which anything must.

    What owners may still draw, and what is kept back inside; of pod slots one, if it reserves
    no other number.
    """
    owners = users(reservation, pods)
    used = {**drawn(reservation, owners), PODS: len(owners) * ONE}
    kept = {n: nanos(amount) for n, amount in inner_reserved(reservation).items()}
    total = {n: nanos(amount) for n, amount in reservation.status.allocatable.items()}
    total.setdefault(PODS, ONE)
    left = {n: max(t - used.get(n, 0), min(kept.get(n, 0), t)) for n, t in total.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _ignores(pod: Pod) -> bool:
    return pod.metadata.labels.get(names.IGNORED) == "true"
