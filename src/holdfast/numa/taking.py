"""Choose CPUs of a node for one pod (Koordinator's CPU accumulator)."""

from __future__ import annotations

from holdfast.errors import NotBuilt
from holdfast.numa.policies import FULL_PCPUS, LEAST_ALLOCATED
from holdfast.numa.topology import CpuTopology

NOT_ENOUGH_CPUS = "not enough cpus available to satisfy request"
NO_CHOICE = "failed to allocate cpus"
INSUFFICIENT_FOR_POLICY = "insufficient CPUs to satisfy required cpu bind policy {}"


def usable_cpus(topology: CpuTopology, free: int, required_policy: str) -> int:
    """Return the free CPUs that a required bind policy allows; all of them if it is empty.

    FullPCPUs keeps cores that are wholly free, SpreadByPCPUs the lowest free CPU of each core.
    """
    raise NotBuilt("choosing CPUs")


def satisfies(topology: CpuTopology, cpus: int, required_policy: str) -> bool:
    """Return whether chosen CPUs hold a required bind policy."""
    raise NotBuilt("choosing CPUs")


def take_cpus(
    topology: CpuTopology,
    free: int,
    count: int,
    *,
    bind_policy: str = FULL_PCPUS,
    required: bool = False,
    exclusive_policy: str = "",
    held_exclusively: int = 0,
    strategy: str = LEAST_ALLOCATED,
    preferred: int = 0,
) -> int | None:
    """Return the CPUs chosen for a pod as a mask, none if there are too few.

    ``free`` contains ``preferred``: the CPUs of the pod's reservation, which are taken first; the
    rest then comes from the same NUMA node or socket if possible (ND1). ``held_exclusively`` are
    the CPUs held by pods with the same ``exclusive_policy``; they are avoided where possible.
    ``required``: ``bind_policy`` must hold, see ``usable_cpus`` and ``satisfies``.
    """
    raise NotBuilt("choosing CPUs")
