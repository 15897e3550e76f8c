"""What one placement does to everybody's promises: I1 to I4 of docs/architecture.md, step by step.

``check_invariants`` looks at the ledgers as they stand. It cannot tell our doing from that of
others: whoever binds past us may over-commit a node rightly. The auditor looks before and after
each attempt, over the whole world: what an attempt made worse is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.audit import OfferAudit, rows_waited_for
from holdfast.capacity.matching import ignores
from holdfast.columns.interner import PODS
from holdfast.columns.pod_info import sum_of
from holdfast.engine.invariants import (
    accounted_elsewhere,
    invariant_violations,
)
from holdfast.framework.values import Placement
from holdfast.framework.world import World

PODS_A_CHECK = 500
"""With so many pods more, adding everything up anew is left out one attempt more often."""
NODES_A_CHECK = 500
"""With so many nodes more, deciding again is left out one decision more often."""
AmountArray = NDArray[np.int64]


class Auditor:
    """Compares the world before and after attempts. What it finds stays found."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._broken = ""
        self._requested: AmountArray = np.zeros((0, 0), np.int64)
        self._offers = OfferAudit(world.offers)
        self._attempts = self._decisions = 0

    def note_faults(self, faults: Iterable[str]) -> None:
        """Note what is wrong with a decision; on many nodes not every decision is looked at."""
        self._decisions += 1
        if self._decisions % (1 + self._world.nodes.size // NODES_A_CHECK) == 0:
            self._broken = self._broken or "; ".join(faults)

    def before_attempt(self) -> None:
        """Remember how things are."""
        nodes = self._world.nodes
        self._requested = nodes.requested[:, : nodes.size].copy()
        self._offers.before()

    def after_attempt(self, placement: Placement | None) -> None:
        """Look what an attempt changed; None is for one that found no node."""
        problems = [
            *self._elsewhere(placement),
            *(() if placement is None else self._there(placement)),
            *self._offers.after(None if placement is None else placement.pod),
        ]
        self._attempts += 1
        pods = int(self._world.nodes.requested[PODS].sum())
        if self._attempts % (1 + pods // PODS_A_CHECK) == 0:
            # What nodes are promised was looked at above, our doing and others' apart.
            problems += invariant_violations(self._world, ours=())
        self._broken = self._broken or "; ".join(problems)

    def raise_faults(self) -> None:
        """Crash loudly if a promise was broken: an AssertionError says which."""
        assert not self._broken, self._broken

    def _elsewhere(self, placement: Placement | None) -> Iterator[str]:
        """Nothing changes on any node but the one chosen, and nothing at all without one."""
        changed = (self._now() != self._requested).any(axis=0)
        for row in changed.nonzero()[0]:
            if placement is None or row != placement.row:
                yield f"I1: an attempt changed what is taken on {self._world.nodes.names[row]}"

    def _there(self, placement: Placement) -> Iterator[str]:
        """I1 and I4: on the node chosen nothing is promised beyond what it has, or was before."""
        nodes, row, pod = self._world.nodes, placement.row, placement.pod
        now, before = self._now()[:, row], self._requested[:, row]
        if ignores(pod) or row in rows_waited_for(self._world.offers, nodes):
            # Held room may be stood in by whoever says so; other pods' room never.
            now = self._standing(row)
            before = now - self._standing(row, only=pod.uid)
        for resource in ((now > nodes.allocatable[:, row]) & (now > before)).nonzero()[0]:
            has = int(nodes.allocatable[resource, row])
            if not accounted_elsewhere(self._world, int(resource), has):
                what = nodes.resources[int(resource)]
                taken = f"{now[resource]} of {what}"
                yield f"I1: with {pod.key}, {placement.node} promises {taken} and has {has}"

    def _standing(self, row: int, only: str = "") -> AmountArray:
        """What the pods on a node take, or one of them, whatever reservations hold besides."""
        there = self._world.nodes.pods_on(row).values()
        sums = sum_of(p for p in there if not p.is_reserve_pod and only in ("", p.uid))
        return np.array([sums[resource] for resource in range(len(self._requested))], np.int64)

    def _now(self) -> AmountArray:
        """What is taken now, in as many resources as there were before."""
        nodes = self._world.nodes
        return nodes.requested[: self._requested.shape[0], : self._requested.shape[1]]
