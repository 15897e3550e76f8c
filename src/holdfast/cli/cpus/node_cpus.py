"""The CPUs and NUMA nodes of one node with their holders, read from the ledger of CPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.cli.table import join_names
from holdfast.columns.interner import CPU
from holdfast.errors import Refused
from holdfast.framework.world import World
from holdfast.numa.cpu_set import format_cpu_list, mask_of, members_of
from holdfast.numa.node_holdings import NodeHoldings
from holdfast.numa.node_state import NodeState
from holdfast.numa.resource_status import NOTHING, Allocation
from holdfast.numa.topology import CpuTopology


class HolderKind(StrEnum):
    """What may hold CPUs; others are the kubelet and the system."""

    POD = "pod"
    RESERVATION = "reservation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Holder:
    """A holder of CPUs or of amounts of NUMA nodes.

    ``left`` is what no pod uses of a reservation; all of it for other holders. ``reservation`` is
    the name of the one that a pod was allocated from, or "".
    """

    kind: HolderKind
    name: str
    has: Allocation
    left: Allocation
    reservation: str = ""

    @property
    def title(self) -> str:
        """Kind and name in words."""
        return self.name if self.kind is HolderKind.OTHER else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """A node: its state, and pods, reservations and others that hold a part of it, in this order.

    ``allocatable`` and ``requested`` are millicores of the whole node.
    """

    node: str
    allocatable: int
    requested: int
    state: NodeState
    holders: tuple[Holder, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def topology(self) -> CpuTopology:
        """The CPUs of the node."""
        return self.state.shape.topology.cpu

    def holders_of(self) -> dict[int, list[Holder]]:
        """Return the holders of each CPU; what pods use of a reservation is theirs."""
        found: dict[int, list[Holder]] = {}
        for holder in self.holders:
            for cpu in members_of(holder.left.cpus):
                found.setdefault(cpu, []).append(holder)
        return found

    def problems(self) -> list[str]:
        """Describe what is wrong with the topology and with the CPUs that holders have."""
        return [*self.faults, *self._held_twice(), *self._unknown()]

    def _held_twice(self) -> Iterable[str]:
        together: dict[tuple[str, ...], list[int]] = {}
        for cpu, holders in self.holders_of().items():
            if len(holders) > 1:
                together.setdefault(tuple(one.title for one in holders), []).append(cpu)
        for titles, cpus in together.items():
            yield f"CPUs {format_cpu_list(mask_of(cpus))} are held by {' and by '.join(titles)}"

    def _unknown(self) -> Iterable[str]:
        known = self.topology.all
        for holder in self.holders if known else ():
            if missing := format_cpu_list(holder.has.cpus & ~known):
                yield f"{holder.title} holds CPUs {missing}, which are not in the topology"


def read_node_cpus(world: World, node: str) -> NodeCpus:
    """Return the CPUs of a node; raise Refused if there is no such node."""
    nodes, ledger = world.nodes, world.numa
    row = nodes.row_of.get(node)
    if row is None:
        known = f"there are {join_names(list(nodes.row_of))}" if nodes.row_of else "there are none"
        raise Refused(f'there is no node "{node}": {known}')
    of = ledger.holdings(row) or NodeHoldings()
    return NodeCpus(
        node,
        int(nodes.allocatable[CPU, row]),
        int(nodes.requested[CPU, row]),
        ledger.state(ledger.signature(row)),
        (*_pods(world, of), *_reservations(world, of), *_others(of)),
        of.topology.faults,
    )


def nodes_with_topology(world: World) -> list[NodeCpus]:
    """Return the nodes whose CPUs are known, by name."""
    found = [read_node_cpus(world, name) for name in sorted(world.nodes.row_of)]
    return [one for one in found if one.topology.valid]


def _pods(world: World, of: NodeHoldings) -> list[Holder]:
    found = []
    for uid, (holding, _) in of.claims.items():
        placed = world.nodes.pod(uid)
        name = uid if placed is None else placed[0].key
        owned = world.reservations.name_of(holding.reservation) if holding.reservation else ""
        has = holding.allocation
        found.append(Holder(HolderKind.POD, name, has, has, owned))
    return sorted(found, key=_order)


def _reservations(world: World, of: NodeHoldings) -> list[Holder]:
    found = []
    for uid, reserved in of.reservations.items():
        left = of.left_of(uid)
        name = world.reservations.name_of(uid)
        found.append(Holder(HolderKind.RESERVATION, name, reserved.allocation, left))
    return sorted(found, key=_order)


def _others(of: NodeHoldings) -> list[Holder]:
    found, seen = [], 0
    for words, cpus in of.topology.unavailable_for:
        own = Allocation(cpus & ~seen) if cpus & ~seen else NOTHING
        found.append(Holder(HolderKind.OTHER, words, Allocation(cpus), own))
        seen |= cpus
    return found


def _order(holder: Holder) -> tuple[int, str]:
    """Order holders by their lowest CPU, those without CPUs last."""
    cpus = holder.has.cpus
    return ((cpus & -cpus).bit_length() or 1 << 20, holder.name)
