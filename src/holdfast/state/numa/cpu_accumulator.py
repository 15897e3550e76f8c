"""Choose CPUs of a node for one pod, as Koordinator's CPU accumulator does.

FullPCPUs takes wholly free cores of one NUMA node, else of one socket, else of as few sockets as
possible; SpreadByPCPUs takes CPUs of different cores of one NUMA node, else of one socket. The CPUs
that are still missing are loose CPUs. Among NUMA nodes and sockets that have enough, the strategy
decides: LeastAllocated takes the one with the most free CPUs, MostAllocated the one with the
fewest; then the lowest id.

The order of all these rules is Koordinator's: 79 of its 81 test vectors give the same CPUs. The
other two differ on purpose. The rest of a pod larger than its reservation comes from the NUMA node
or socket of the reserved CPUs (ND1 in docs/coming-from-koordinator.md).

A set of CPUs is an integer with one bit per CPU. A choice is then a few operations on integers, and
``_take`` can be cached by its arguments: equal nodes with the same free CPUs are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from holdfast.state.numa.cpu_set import lowest
from holdfast.state.numa.policy_names import (
    FULL_PCPUS,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    NUMA_NODE_LEVEL,
    PCPU_LEVEL,
    SPREAD_BY_PCPUS,
)
from holdfast.state.numa.topology import CpuTopology

NOT_ENOUGH_CPUS = "not enough cpus available to satisfy request"
INSUFFICIENT_FOR_POLICY = "insufficient CPUs to satisfy required cpu bind policy {}"


def usable_cpus(topology: CpuTopology, free: int, required_policy: str, preferred: int = 0) -> int:
    """Return the free CPUs that a required bind policy allows; all of them if it is empty.

    FullPCPUs keeps cores that are wholly free; SpreadByPCPUs keeps one CPU of each core: the lowest
    that is preferred, else the lowest.
    """
    if required_policy == FULL_PCPUS:
        return _whole_cores(topology, free)
    if required_policy == SPREAD_BY_PCPUS:
        first = _one_per_core(topology, free & preferred)
        return first | _one_per_core(topology, free & ~_touching(topology.cores, first))
    return free


def satisfies(topology: CpuTopology, cpus: int, required_policy: str) -> bool:
    """Return whether chosen CPUs satisfy a required bind policy.

    FullPCPUs: whole cores only; SpreadByPCPUs: no two CPUs of one core.
    """
    if required_policy == FULL_PCPUS:
        return _whole_cores(topology, cpus) == cpus
    if required_policy == SPREAD_BY_PCPUS:
        return _one_per_core(topology, cpus) == cpus
    return True


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
    """Return the CPUs chosen for a pod as a mask, None if there are too few.

    ``free`` contains ``preferred``: the CPUs of the pod's reservation, which are taken first; the
    rest then comes from the same NUMA node or socket if possible (ND1). ``held_exclusively`` are
    the CPUs held by pods with the same ``exclusive_policy``; they are avoided where possible.
    ``required``: ``bind_policy`` must hold, see ``usable_cpus`` and ``satisfies``.
    """
    preferred &= free
    if required:
        free = usable_cpus(topology, free, bind_policy, preferred)
        preferred = usable_cpus(topology, preferred & free, bind_policy)
    if free.bit_count() < count:
        return None
    way = _Way(bind_policy, exclusive_policy, held_exclusively, strategy)
    taken = _take(topology, preferred, min(count, preferred.bit_count()), way) or 0
    missing = count - taken.bit_count()
    if missing:
        others = free & ~preferred
        for near in _neighbourhoods(topology, taken):
            if (cpus := _take(topology, others & near, missing, way)) is not None:
                taken |= cpus
                break
    if required and not satisfies(topology, taken, bind_policy):
        return None
    return taken


def _neighbourhoods(topology: CpuTopology, taken: int) -> Iterator[int]:
    """Return the NUMA nodes of CPUs already taken, their sockets, then the whole node."""
    if taken:
        for groups in (topology.nodes, topology.sockets):
            yield sum(mask for mask in groups.values() if mask & taken)
    yield topology.all


class _Way(NamedTuple):
    """The rules by which CPUs are chosen."""

    bind_policy: str
    exclusive_policy: str
    held: int
    strategy: str


@lru_cache(maxsize=8192)
def _take(topology: CpuTopology, free: int, count: int, way: _Way) -> int | None:
    """Take CPUs in one pass; None if there are too few, otherwise it always succeeds."""
    if free.bit_count() < count:
        return None
    if not count:
        return 0
    by_node = by_core = 0
    if way.exclusive_policy == NUMA_NODE_LEVEL:
        by_node = _touching(topology.nodes.values(), way.held)
    elif way.exclusive_policy == PCPU_LEVEL:
        by_core = _touching(topology.cores, way.held)
    chooser = _Chooser(topology, 1 if way.strategy == MOST_ALLOCATED else -1, by_node, by_core)
    taken = 0
    if way.bind_policy == FULL_PCPUS or topology.cpus_per_core == 1:
        cpus = chooser.take_full(free, count)
        if cpus is None:
            taken = _take_sockets(topology, _whole_cores(topology, free), count)
    else:
        cpus = chooser.take_spread(free, count)
    if cpus is not None:
        return cpus
    for avoided in (by_node | by_core, 0):
        missing = count - taken.bit_count()
        taken |= chooser.take_loose(free & ~taken & ~avoided, missing, taken)
    return taken


@dataclass(frozen=True, slots=True)
class _Chooser:
    """Chooses among NUMA nodes, sockets and loose CPUs; the avoided CPUs are taken last."""

    topology: CpuTopology
    sign: int
    """1 if few free CPUs come first (MostAllocated), -1 if many."""
    by_node: int
    """CPUs avoided because of NUMANodeLevel."""
    by_core: int
    """CPUs avoided because of PCPULevel."""

    def take_full(self, free: int, count: int) -> int | None:
        """Take wholly free cores of one NUMA node or socket; None if none has enough."""
        whole = _whole_cores(self.topology, free)
        for considered in dict.fromkeys((free & ~self.by_node, free)):
            listed = whole & considered
            node = self._best_node(count, listed, listed, considered)
            if node is not None:
                return _first_cpus(self.topology, listed & node, count)
        socket = self._best_socket(count, whole)
        return None if socket is None else _first_cpus(self.topology, whole & socket, count)

    def take_spread(self, free: int, count: int) -> int | None:
        """Take CPUs of one NUMA node or socket, of different cores if possible; None if too few."""
        considered = free & ~self.by_node & ~self.by_core
        listed = _one_per_core(self.topology, considered)
        node = self._best_node(count, listed, considered, considered)
        if node is not None:
            return lowest(listed & node, count)
        node = self._best_node(count, free, free, free)
        if node is not None:
            return _round_robin(self.topology, free & node, count)
        listed = _one_per_core(self.topology, free & ~self.by_core)
        socket = self._best_socket(count, listed)
        if socket is not None:
            return lowest(listed & socket, count)
        socket = self._best_socket(count, free)
        return None if socket is None else _round_robin(self.topology, free & socket, count)

    def take_loose(self, listed: int, count: int, taken: int) -> int:
        """Take up to ``count`` listed CPUs, round-robin over cores.

        First come cores of the sockets that have most of the CPUs taken already, then cores of the
        sockets that the strategy prefers, then cores with the fewest CPUs.
        """
        if not count or not listed:
            return 0
        near = _sizes(self.topology.sockets, taken)
        of_socket = _sizes(self.topology.sockets, listed)
        of_node = _sizes(self.topology.nodes, listed)
        ranked: list[tuple[int, int, int, int, int, int, int]] = []
        cores = zip(self.topology.cores, self.topology.places, strict=True)
        for index, (core, (node, socket)) in enumerate(cores):
            if cpus := core & listed:
                rank = (-near[socket], self.sign * of_socket[socket], self.sign * of_node[node])
                ranked.append((*rank, cpus.bit_count(), socket, index, cpus))
        return _by_rounds([core[-1] for core in sorted(ranked)], count)

    def _best_node(self, count: int, listed: int, ranked: int, considered: int) -> int | None:
        """Return the mask of the first NUMA node, by the strategy, with enough listed CPUs.

        NUMA nodes are compared by ``ranked`` CPUs, then by the considered ones of their sockets.
        """
        topology = self.topology
        enough = [
            (
                self.sign * (ranked & mask).bit_count(),
                self.sign
                * (considered & topology.sockets[topology.socket_of_node[node]]).bit_count(),
                node,
            )
            for node, mask in topology.nodes.items()
            if (listed & mask).bit_count() >= count
        ]
        return topology.nodes[min(enough)[2]] if enough else None

    def _best_socket(self, count: int, listed: int) -> int | None:
        """Return the mask of the first socket, by the strategy, with enough listed CPUs."""
        sizes = _sizes(self.topology.sockets, listed)
        enough = [(self.sign * size, socket) for socket, size in sizes.items() if size >= count]
        return self.topology.sockets[min(enough)[1]] if enough else None


def _sizes(groups: Mapping[int, int], cpus: int) -> dict[int, int]:
    """Return how many of the CPUs each group has."""
    return {group: (mask & cpus).bit_count() for group, mask in groups.items()}


def _take_sockets(topology: CpuTopology, whole: int, count: int) -> int:
    """Take sockets that are needed with all their wholly free cores, the largest first.

    Then take cores, of the smallest sockets first, as long as a whole core is needed.
    """
    taken = 0
    sizes = _sizes(topology.sockets, whole)
    order = sorted(sizes, key=lambda socket: (-sizes[socket], socket))
    left: list[int] = []
    for socket in order:
        if sizes[socket] <= count - taken.bit_count():
            taken |= whole & topology.sockets[socket]
        else:
            left.append(socket)
    for socket in sorted(left, key=lambda socket: (sizes[socket], socket)):
        for core in topology.cores:
            if core & whole & topology.sockets[socket]:
                if core.bit_count() > count - taken.bit_count():
                    break
                taken |= core
    return taken


def _by_rounds(cores: list[int], count: int) -> int:
    """Take up to ``count`` CPUs: the lowest of each core, then the second, and so on."""
    taken = 0
    while cores and count:
        for cpus in cores[:count]:
            taken |= cpus & -cpus
        count -= min(count, len(cores))
        cores = [rest for cpus in cores if (rest := cpus & (cpus - 1))]
    return taken


def _first_cpus(topology: CpuTopology, whole: int, count: int) -> int:
    """Return the first CPUs of wholly free cores, core by core."""
    taken = 0
    for core in topology.cores:
        if core & whole:
            size = core.bit_count()
            if size >= count:
                return taken | lowest(core, count)
            taken |= core
            count -= size
    return taken


def _round_robin(topology: CpuTopology, cpus: int, count: int) -> int:
    """Take CPUs: the first of each core, then the second, and so on; ascending in each round."""
    taken = 0
    while count:
        listed = lowest(_one_per_core(topology, cpus), count)
        taken |= listed
        cpus ^= listed
        count -= listed.bit_count()
    return taken


def _whole_cores(topology: CpuTopology, free: int) -> int:
    """Return the CPUs of wholly free cores."""
    return sum([core for core in topology.cores if core & free == core])


def _one_per_core(topology: CpuTopology, cpus: int) -> int:
    """Return the lowest of these CPUs on each core."""
    return sum([of_core & -of_core for core in topology.cores if (of_core := core & cpus)])


def _touching(groups: Iterable[int], cpus: int) -> int:
    """Return all CPUs of the groups that have some of these."""
    return sum([mask for mask in groups if mask & cpus]) if cpus else 0
