"""NUMA hints: the sets of NUMA nodes that could serve a pod; and their merging by NUMA policy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.numa.cpu_set import mask_of, members_of
from holdfast.state.numa.policy_names import (
    BEST_EFFORT,
    EXCLUSIVE_REQUIRED,
    NUMA_POLICIES,
    RESTRICTED,
    SINGLE_NUMA_NODE,
)

UNSATISFIED = "Unsatisfied NUMA {}"
UNALIGNED = "Unaligned NUMA Hint cause {}"
_MOST_MASKS = 4096
"""At most this many sets of NUMA nodes are tried: the smaller ones, and all together."""


class Hint(NamedTuple):
    """One set of NUMA nodes that could serve a resource, as a mask; ``None`` for any."""

    mask: int | None
    preferred: bool = False
    score: int = 0


Hints = Mapping[str, Sequence[Hint] | None]
"""Hints by resource name: ``None`` has no preference, an empty list cannot be satisfied."""


class HintProvider(Protocol):
    """Gives hints for other resources than CPUs and memory, such as shared devices."""

    def states(self, pod: PodInfo) -> NDArray[np.int64]:
        """Return a number per row: equal numbers mean equal hints if no reservation is used."""
        ...

    def number_in_steps(self) -> Iterator[None]:
        """Compute these numbers, with pauses in which the world may change."""
        ...

    def rows_in_use(self) -> Sequence[int]:
        """Return the numbers of the rows whose hints may change if pods leave."""
        ...

    def hints(
        self,
        pod: PodInfo,
        row: int,
        numa_nodes: Sequence[int],
        policy: str,
        reservation: str,
        *,
        removed: Collection[str] = (),
    ) -> Hints:
        """Return the hints for a pod on a row; empty if it requests none of these resources.

        ``reservation`` is the uid of the reservation whose resources the pod may use, "" for none;
        ``removed`` are uids of pods that count as gone.
        Hints ascend by the number of NUMA nodes, then by mask, as ``numa_masks`` lists them.
        """
        ...


class NodeUse(NamedTuple):
    """The NUMA nodes in use, as masks: by pods on one NUMA node only; by pods on several."""

    single: int = 0
    spanning: int = 0


UNUSED = NodeUse()


class Merged(NamedTuple):
    """The result of merging hints: NUMA nodes as a mask, or why there are none.

    ``mask`` is ``None`` if any will do: without a NUMA policy, and for SingleNUMANode if nothing
    has a preference.
    """

    mask: int | None
    admitted: bool
    preferred: bool = False
    score: int = 0
    reasons: tuple[str, ...] = ()


def numa_masks(numa_nodes: Sequence[int]) -> Sequence[int]:
    """Return the non-empty sets of NUMA nodes by size, then lexicographically.

    >>> [bin(mask) for mask in numa_masks([0, 1])]
    ['0b1', '0b10', '0b11']
    """
    return _numa_masks(tuple(sorted(numa_nodes)))


@lru_cache(maxsize=256)
def _numa_masks(nodes: tuple[int, ...]) -> tuple[int, ...]:
    masks: list[int] = []
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(nodes, size):
            if len(masks) == _MOST_MASKS - 1:
                return (*masks, mask_of(nodes))
            masks.append(mask_of(chosen))
    return tuple(masks)


def merge_hints(
    policy: str,
    numa_nodes: Sequence[int],
    provided: Sequence[Hints | None],
    exclusive: str = "",
    use: NodeUse = UNUSED,
) -> Merged:
    """Merge the hints of all providers into one set of NUMA nodes, as the NUMA policy says.

    One hint of each resource is combined with each of the others: their common NUMA nodes are a
    candidate, preferred if all these hints are equal and preferred. The best candidate is
    preferred, then has the fewest NUMA nodes, then the highest sum of scores, then the lowest mask.
    """
    if policy not in NUMA_POLICIES:
        return Merged(None, admitted=True)
    everything = mask_of(numa_nodes)
    gathered = gather_hints(provided)
    if gathered.reasons and policy != BEST_EFFORT:
        mask = everything if policy == RESTRICTED else None
        return Merged(mask, admitted=False, reasons=gathered.reasons)
    lists = gathered.lists
    if policy == SINGLE_NUMA_NODE:
        lists = [single_node_hints(hints) for hints in lists]
    best, satisfied = _best(lists, everything, exclusive, use)
    if policy == BEST_EFFORT:
        if gathered.reasons or not satisfied:
            return Merged(everything, admitted=True)
        return best._replace(admitted=True)
    if policy == SINGLE_NUMA_NODE and not (best.preferred and _concrete(lists)):
        best = Merged(None, best.admitted, best.preferred)
    if not best.preferred:
        separator = "," if policy == SINGLE_NUMA_NODE else " & "
        reason = UNALIGNED.format(separator.join(gathered.summaries()))
        return best._replace(admitted=False, reasons=(reason,))
    return best._replace(admitted=True)


class Gathered(NamedTuple):
    """The hints of all resources, the resources' names, and why some cannot be served."""

    lists: list[Sequence[Hint]]
    resources: list[str]
    reasons: tuple[str, ...]

    def summaries(self) -> list[str]:
        """Return the hints of each resource in words."""
        return sorted(map(_summary, self.resources, self.lists))


def gather_hints(provided: Sequence[Hints | None]) -> Gathered:
    """Return the hints resource by resource, without resources that have no preference."""
    lists: list[Sequence[Hint]] = []
    resources: list[str] = []
    reasons: list[str] = []
    for hints in provided:
        for resource, of_resource in sorted((hints or {}).items()):
            if of_resource:
                lists.append(of_resource)
                resources.append(resource)
            elif of_resource is not None:
                reasons.append(UNSATISFIED.format(resource))
    return Gathered(lists, resources, tuple(reasons))


def _summary(resource: str, hints: Sequence[Hint]) -> str:
    preferred = " ".join(mask_text(hint.mask) for hint in hints if hint.preferred)
    possible = " ".join(mask_text(hint.mask) for hint in hints)
    return f"{resource} prefer [{preferred}] among [{possible}]"


def mask_text(mask: int | None) -> str:
    """Write a set of NUMA nodes as bits, as messages do; the rightmost is NUMA node 0.

    >>> mask_text(0b1), mask_text(0b1001), mask_text(None)
    ('01', '1001', '<nil>')
    """
    if mask is None:
        return "<nil>"
    digits = mask.bit_length() - (mask & (mask - 1) == 0)  # a power of two is not padded
    return f"{mask:0{max(digits + digits % 2, 2)}b}"


def single_node_hints(hints: Sequence[Hint]) -> list[Hint]:
    """Return the preferred hints of one NUMA node, or of any."""
    return [
        hint
        for hint in hints
        if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
    ]


def keeps_exclusive(mask: int, exclusive: str, use: NodeUse) -> bool:
    """Return whether a pod on these NUMA nodes may share them with the pods that are there.

    If it is required, a pod on several NUMA nodes may not share one with pods of a single NUMA
    node, nor the other way round.
    """
    if exclusive != EXCLUSIVE_REQUIRED:
        return True
    if mask.bit_count() > 1:
        return not mask & use.single & ~use.spanning
    return not mask & use.spanning


def _best(
    lists: Sequence[Sequence[Hint]], everything: int, exclusive: str, use: NodeUse
) -> tuple[Merged, bool]:
    """Return the best candidate, and whether it is a hint of each resource that has some.

    Combinations are not enumerated: a preferred candidate is a preferred hint of every resource,
    and the sets of common NUMA nodes are few, however many combinations lead to them.
    """
    fallback = Merged(everything, admitted=False)
    if not all(lists):
        return fallback, True
    concrete = _concrete(lists)
    indifferent = all(hint.preferred for hints in lists for hint in hints if hint.mask is None)
    if not concrete:
        return fallback._replace(preferred=indifferent), True
    scores = [
        {hint.mask if hint.mask is not None else everything: hint.score for hint in hints}
        for hints in concrete
    ]

    def candidate(mask: int) -> tuple[int, int, int]:
        return mask.bit_count(), -sum(score.get(mask, 0) for score in scores), mask

    if indifferent:
        preferred = [{hint.mask for hint in hints if hint.preferred} for hints in concrete]
        common = reduce(set.intersection, preferred)
        allowed = [mask for mask in common if mask and keeps_exclusive(mask, exclusive, use)]
        if allowed:
            _, score, mask = min(map(candidate, allowed))
            return Merged(mask & everything, admitted=False, preferred=True, score=-score), True
    masks = _common_nodes([sorted(each, key=_size) for each in scores], everything)
    if not masks:
        return fallback, True
    _, score, mask = min(map(candidate, masks))
    return Merged(mask, admitted=False, score=-score), all(mask in each for each in scores)


_size = int.bit_count


def _common_nodes(lists: Sequence[Sequence[int]], everything: int) -> set[int]:
    """Return the smallest sets that are common to masks of each list, and perhaps larger ones.

    Lists ascend by size. Among the masks with a certain NUMA node only the smallest matter: larger
    ones have more NUMA nodes in common with others.
    """
    common_masks: set[int] = set()
    for node in members_of(everything):
        common = {everything}
        for masks in lists:
            smallest: list[int] = []
            for mask in masks:
                if mask >> node & 1 and not any(mask & other == other for other in smallest):
                    smallest.append(mask)
            common = {one & other for one in common for other in smallest}
        common_masks |= common
    return common_masks


def _concrete(lists: Sequence[Sequence[Hint]]) -> list[Sequence[Hint]]:
    """Return the lists that name NUMA nodes."""
    return [hints for hints in lists if any(hint.mask is not None for hint in hints)]
