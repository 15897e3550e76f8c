"""Check the invariants I1 to I4 of docs/architecture.md before and after every attempt.

``check_invariants`` checks the ledgers at one moment. It cannot tell whether this scheduler or
another one has overcommitted a node. The auditor compares the whole world before and after an
attempt: what became worse is a fault of this scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.invariants import (
    accounted_elsewhere,
    invariant_violations,
)
from holdfast.scheduling.framework.values import Placement
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import PODS
from holdfast.state.columns.pod_info import sum_of
from holdfast.state.reservations.audit import ReservationAudit, rows_of_waiting_reservations
from holdfast.state.reservations.matching import ignores_reservations

PODS_A_CHECK = 500
"""All sums are computed again after every attempt; from this number of pods on, after every second
attempt; from twice that number on, after every third; and so on."""
NODES_A_CHECK = 500
"""The same for repeating decisions, by the number of nodes."""
AmountArray = NDArray[np.int64]


class Auditor:
    """Compares the world before and after attempts, and stores the first fault it finds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults = ""
        self._requested: AmountArray = np.zeros((0, 0), np.int64)
        self._reservations = ReservationAudit(world.reservations)
        self._attempts = self._decisions = 0

    def note_faults(self, faults: Iterable[str]) -> None:
        """Keep what is wrong with a decision; with many nodes only some decisions are checked."""
        self._decisions += 1
        if self._decisions % (1 + self._world.nodes.size // NODES_A_CHECK) == 0:
            self._faults = self._faults or "; ".join(faults)

    def before_attempt(self) -> None:
        """Store the state of the ledgers."""
        nodes = self._world.nodes
        self._requested = nodes.requested[:, : nodes.size].copy()
        self._reservations.before()

    def after_attempt(self, placement: Placement | None) -> None:
        """Compare the ledgers with the state before; ``placement`` is None if no node was found."""
        faults = [
            *self._faults_on_other_nodes(placement),
            *(() if placement is None else self._faults_on_node(placement)),
            *self._reservations.after(None if placement is None else placement.pod),
        ]
        self._attempts += 1
        pods = int(self._world.nodes.requested[PODS].sum())
        if self._attempts % (1 + pods // PODS_A_CHECK) == 0:
            # Overcommitted nodes are checked above, apart from those of other schedulers.
            faults += invariant_violations(self._world, ours=())
        self._faults = self._faults or "; ".join(faults)

    def raise_faults(self) -> None:
        """Raise an AssertionError that describes the faults, if there are any."""
        assert not self._faults, self._faults

    def _faults_on_other_nodes(self, placement: Placement | None) -> Iterator[str]:
        """Describe changes of requests on other nodes than the chosen one."""
        changed = (self._requests_now() != self._requested).any(axis=0)
        for row in changed.nonzero()[0]:
            if placement is None or row != placement.row:
                yield f"I1: an attempt changed the requests on {self._world.nodes.names[row]}"

    def _faults_on_node(self, placement: Placement) -> Iterator[str]:
        """I1, I4: describe resources that are overcommitted on the node, more than before."""
        nodes, row, pod = self._world.nodes, placement.row, placement.pod
        now, before = self._requests_now()[:, row], self._requested[:, row]
        if ignores_reservations(pod) or row in rows_of_waiting_reservations(
            self._world.reservations, nodes
        ):
            # Such a pod may use reserved resources, but never those of other pods.
            now = self._requests_of_pods(row)
            before = now - self._requests_of_pods(row, only=pod.uid)
        for resource in ((now > nodes.allocatable[:, row]) & (now > before)).nonzero()[0]:
            has = int(nodes.allocatable[resource, row])
            if not accounted_elsewhere(self._world, int(resource), has):
                what = nodes.resources[int(resource)]
                requested = f"{now[resource]} of {what} are requested"
                yield f"I1: with {pod.key}, {requested} on {placement.node}, allocatable are {has}"

    def _requests_of_pods(self, row: int, only: str = "") -> AmountArray:
        """Return the requests of the pods on a node, or of one of them, without reserve pods."""
        there = self._world.nodes.pods_on(row).values()
        sums = sum_of(p for p in there if not p.is_reserve_pod and only in ("", p.uid))
        return np.array([sums[resource] for resource in range(len(self._requested))], np.int64)

    def _requests_now(self) -> AmountArray:
        """Return the requests now, of the resources that were known before the attempt."""
        nodes = self._world.nodes
        return nodes.requested[: self._requested.shape[0], : self._requested.shape[1]]
