"""Check the invariants I2 and I4: what reservations hold and have left, and which pods use them.

Everything is added up again from single reservations and pods, so that an error in the columns
cannot stay hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.interner import PODS
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.reservation_cache import ReservationCache


def held_beside_owners(reservations: ReservationCache, row: int) -> Counter[int]:
    """Sum what the reservations on a row hold in addition to their owners' requests, by resource.

    What a pod that acts as a reservation shares with its owner is subtracted: both are pods.
    """
    total: Counter[int] = Counter()
    for info in reservations.on_row(row):
        allocated: Counter[int] = sum(map(Counter, info.allocated_by_pod.values()), Counter())
        pod_slots = info.reserved.get(PODS, 1) - allocated[PODS]
        total[PODS] += max(pod_slots, info.inner.get(PODS, 0))
        for resource, reserved in info.reserved.items():
            if resource != PODS:
                used = allocated[resource]
                total[resource] += max(reserved, used + info.inner.get(resource, 0)) - used
        if info.reservation.is_pod:
            total.subtract({**info.reserved, PODS: 1})
    return total


def shared_with_owners(reservations: ReservationCache, row: int) -> Counter[int]:
    """Sum what owners share with the pods on a row that act as reservations, by resource."""
    total: Counter[int] = Counter()
    for info in reservations.on_row(row):
        if info.reservation.is_pod:
            allocated: Counter[int] = sum(map(Counter, info.allocated_by_pod.values()), Counter())
            for resource, reserved in {**info.reserved, PODS: 1}.items():
                lent = max(0, reserved - info.inner.get(resource, 0))
                total[resource] += min(allocated[resource], lent)
    return total


def rows_of_waiting_reservations(reservations: ReservationCache, nodes: NodeTable) -> set[int]:
    """Return the rows where a reservation waits for its resources, or is being bound to wait."""
    holding = {nodes.row_of.get(info.node, -1) for info in reservations if info.is_waiting}
    being_bound = {
        row
        for uid, (row, _) in reservations.being_bound.items()
        if uid in reservations.pending and reservations.pending[uid].spec.pre_allocation
    }
    return holding | being_bound


def wrong_allocations(reservations: ReservationCache, nodes: NodeTable) -> list[str]:
    """List allocate-once reservations with two owners, and allocations from another node."""
    problems: list[str] = []
    for info in reservations:
        # An Available one with several owners had them before it was edited to allocate-once.
        edited = info.is_waiting or info.reservation.status.current_owners
        if info.reservation.spec.allocate_once and len(info.allocated_by_pod) > 1 and not edited:
            owners = len(info.allocated_by_pod)
            problems.append(f"{info.reservation.name} is allocate-once and has {owners} owners")
        for uid in info.allocated_by_pod:
            placed = nodes.pod(uid)
            if placed is not None and nodes.names[placed[1]] != info.node:
                problems.append(
                    f"{placed[0].key} allocates from {info.reservation.name} on another node"
                )
    return problems


class ReservationAudit:
    """Compares what reservations have left before and after a scheduling attempt."""

    def __init__(self, reservations: ReservationCache) -> None:
        self._reservations = reservations
        self._uids: list[str] = []
        self._remaining: NDArray[np.int64] = np.zeros((0, 0), np.int64)

    def before(self) -> None:
        """Store the state before an attempt."""
        self._uids = [info.uid for info in self._reservations]
        self._remaining = self._reservations.columns.remaining.copy()

    def after(self, pod: PodInfo | None) -> Iterator[str]:
        """List reservations that have less left, unless the placed pod owns and uses them.

        ``pod`` is None after an attempt that found no node.
        """
        reservations = self._reservations
        allocations = {} if pod is None else reservations.allocations_of(pod.uid)
        for slot in allocations:
            info = reservations.at(slot)
            if pod is not None and not info.group.owned_by(pod.pod):
                yield f"I4: {pod.key} allocates from {info.reservation.name} and does not own it"
        if [info.uid for info in reservations] != self._uids:
            yield "I2: an attempt changed which reservations hold resources"
            return
        now, then = reservations.columns.remaining, self._remaining
        lowered = np.nonzero(now[: len(then), : then.shape[1]] < then)[1]
        for slot in np.unique(lowered):
            if int(slot) not in allocations:
                name = reservations.at(int(slot)).reservation.name
                cause = "an attempt" if pod is None else pod.key
                yield f"I2: {cause} lowered what {name} has left, and allocates nothing from it"
