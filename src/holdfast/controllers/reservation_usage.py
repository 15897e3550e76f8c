"""Who draws on a Reservation, and whether its node can still give what it promises. Nanos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.requests import nanos, request_nanos
from holdfast.api.reservation import Reservation
from holdfast.capacity import names
from holdfast.capacity.annotations import allocated_of, draws_of

Nanos = Mapping[str, int]


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

    Pods that ignore reservations said so themselves and break no promise.
    """
    assert ground.node is not None, "a reservation on a node that is gone has expired"
    counted = [p for p in ground.pods if not p.finished and not _ignores(p)]
    others = [n for n in ground.neighbours if n.uid != reservation.uid and n.phase == "Available"]
    promised = remaining(reservation, counted)
    for other in others if promised else ():
        for name, amount in remaining(other, counted).items():
            if name in promised:
                promised[name] += amount
    free = {n: nanos(ground.node.status.allocatable.get(n, 0)) for n in promised}
    for pod in counted if promised else ():
        for name, amount in request_nanos(pod).items():
            if name in free:
                free[name] -= amount
    return sorted(name for name, amount in promised.items() if amount > free[name])


def remaining(reservation: Reservation, pods: Iterable[Pod]) -> dict[str, int]:
    """Tell what owners may still draw, of the resources of which anything is left."""
    used = drawn(reservation, users(reservation, pods))
    total = {n: nanos(amount) for n, amount in reservation.status.allocatable.items()}
    return {n: a - used.get(n, 0) for n, a in total.items() if a > used.get(n, 0)}


def _ignores(pod: Pod) -> bool:
    return pod.metadata.labels.get(names.IGNORED) == "true"
