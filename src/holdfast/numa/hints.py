"""Hints: the sets of NUMA nodes that could serve a pod; and their merging by NUMA policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.columns.pod_info import PodInfo
from holdfast.errors import NotBuilt


class Hint(NamedTuple):
    """One set of NUMA nodes that could serve a resource, as a mask; ``None`` for any."""

    mask: int | None
    preferred: bool = False
    score: int = 0


Hints = Mapping[str, Sequence[Hint] | None]
"""Hints by resource name: ``None`` has no preference, an empty list cannot be satisfied."""


class HintProvider(Protocol):
    """Something else than CPUs and memory with hints, such as the ledger of shared devices."""

    def hints(
        self, pod: PodInfo, row: int, numa_nodes: Sequence[int], policy: str, reservation: str
    ) -> Hints:
        """Return the hints of a pod on a row for its request; empty if it concerns nothing.

        ``reservation`` is the uid of the reservation whose resources the pod may use, "" for none.
        Hints ascend by the number of NUMA nodes, then by mask, as ``numa_masks`` lists them.
        """
        ...


class NodeUse(NamedTuple):
    """Who uses the NUMA nodes, as masks: pods on one NUMA node only; pods on several."""

    single: int = 0
    spanning: int = 0


UNUSED = NodeUse()


class Merged(NamedTuple):
    """The result of merging hints: NUMA nodes as a mask, or why there are none.

    ``mask`` is ``None`` without a NUMA policy: any CPU and memory of the node will do.
    """

    mask: int | None
    admitted: bool
    preferred: bool = False
    score: int = 0
    reasons: tuple[str, ...] = ()


def numa_masks(numa_nodes: Sequence[int]) -> list[int]:
    """Return the non-empty sets of NUMA nodes by size, then lexicographically."""
    raise NotBuilt("hints")


def merge_hints(
    policy: str,
    numa_nodes: Sequence[int],
    provided: Sequence[Hints | None],
    exclusive: str = "",
    use: NodeUse = UNUSED,
) -> Merged:
    """Merge the hints of all providers into one set of NUMA nodes, as the NUMA policy says."""
    raise NotBuilt("merging hints")
