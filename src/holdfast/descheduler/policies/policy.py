"""What a policy is: it names candidates, and judges where they would go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from holdfast.columns.pod_info import PodInfo
from holdfast.descheduler.policies.pod_selection import PolicyArgs
from holdfast.descheduler.simulation import Simulation
from holdfast.migration.pod_order import pod_rank


class CandidatePod(NamedTuple):
    """A pod that should leave its row, and why."""

    pod: PodInfo
    row: int
    reason: str


Candidates = Iterator[CandidatePod | None]
"""Candidates one after another; None is a pause. Each is tried before the next one is computed."""


class Policy:
    """A policy for one cycle. The base class permits everything."""

    name: ClassVar[str]
    balances: ClassVar[bool]
    """Whether its extension point is balance; otherwise it is deschedule."""
    Args: ClassVar[type[PolicyArgs]]

    def __init__(self, args: PolicyArgs, cluster: Simulation, rows: list[int]) -> None:
        self.cluster = cluster
        self.rows = rows
        """The rows that the configuration selects."""

    @property
    def node_fit(self) -> bool:
        """Whether a pod moves only if it fits on another node."""
        return True

    @property
    def dry_run(self) -> bool:
        """Whether its moves are only reported."""
        return False

    def candidates(self) -> Candidates:
        """Return the pods that should move."""
        raise NotImplementedError

    def improves(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether the policy would leave the pod on the target."""
        raise NotImplementedError

    def permits(self, candidate: CandidatePod, target: int) -> bool:
        """Return whether another policy may make this move without working against this one."""
        return True


def in_order(candidates: list[CandidatePod]) -> list[CandidatePod]:
    """Return candidates in the order in which pods migrate."""
    return sorted(candidates, key=lambda found: (pod_rank(found.pod.pod), found.pod.key))
