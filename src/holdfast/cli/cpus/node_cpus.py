"""The CPUs and NUMA nodes of one node with their holders, read from the ledger; and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.api.decode import JsonObject
from holdfast.cli.table import join_names
from holdfast.runtime.errors import Refused
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import CPU
from holdfast.state.numa.cpu_set import format_cpu_list, mask_of, members_of
from holdfast.state.numa.node_holdings import NodeHoldings
from holdfast.state.numa.node_state import NodeState
from holdfast.state.numa.resource_status import NOTHING, NumaAllocation, NumaAmounts
from holdfast.state.numa.topology import CpuTopology


class HolderKind(StrEnum):
    """The kinds of holders of CPUs; others are the kubelet and the system."""

    POD = "pod"
    RESERVATION = "reservation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Holder:
    """A holder of CPUs or of amounts of NUMA nodes.

    ``left`` is the part of a reservation that no pod uses; for other holders it is everything.
    ``reservation`` is the name of the reservation that a pod was allocated from, or "".
    """

    kind: HolderKind
    name: str
    has: NumaAllocation
    left: NumaAllocation
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
        """Return the holders of each CPU; CPUs of a reservation that a pod uses are the pod's."""
        by_cpu: dict[int, list[Holder]] = {}
        for holder in self.holders:
            for cpu in members_of(holder.left.cpus):
                by_cpu.setdefault(cpu, []).append(holder)
        return by_cpu

    def problems(self) -> list[str]:
        """Describe what is wrong with the topology and with the CPUs of holders."""
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
    nodes = [read_node_cpus(world, name) for name in sorted(world.nodes.row_of)]
    return [one for one in nodes if one.topology.valid]


def _pods(world: World, of: NodeHoldings) -> list[Holder]:
    holders = []
    for uid, (holding, _) in of.claims.items():
        placed = world.nodes.pod(uid)
        name = uid if placed is None else placed[0].key
        owned = world.reservations.name_of(holding.reservation) if holding.reservation else ""
        has = holding.allocation
        holders.append(Holder(HolderKind.POD, name, has, has, owned))
    return sorted(holders, key=_order)


def _reservations(world: World, of: NodeHoldings) -> list[Holder]:
    holders = []
    for uid, reserved in of.reservations.items():
        left = of.left_of(uid)
        name = world.reservations.name_of(uid)
        holders.append(Holder(HolderKind.RESERVATION, name, reserved.allocation, left))
    return sorted(holders, key=_order)


def _others(of: NodeHoldings) -> list[Holder]:
    holders, seen = [], 0
    for words, cpus in of.topology.unavailable_for:
        own = NumaAllocation(cpus & ~seen) if cpus & ~seen else NOTHING
        holders.append(Holder(HolderKind.OTHER, words, NumaAllocation(cpus), own))
        seen |= cpus
    return holders


def _order(holder: Holder) -> tuple[int, str]:
    """Order holders by their lowest CPU; those without CPUs are last."""
    cpus = holder.has.cpus
    return ((cpus & -cpus).bit_length() or 1 << 20, holder.name)


def as_data(node_cpus: NodeCpus) -> JsonObject:
    """Return the CPUs of a node, their holders, its NUMA nodes, policies and problems.

    Amounts are in base units, cpu in millicores.
    """
    holders_of = node_cpus.holders_of()
    return {
        "node": node_cpus.node,
        "cpu": {"has": node_cpus.allocatable, "requested": node_cpus.requested},
        "policies": policies(node_cpus),
        "cpus": [
            {
                "id": cpu.id,
                "core": cpu.core,
                "numaNode": cpu.node,
                "socket": cpu.socket,
                "holders": [holder.title for holder in holders_of.get(cpu.id, ())],
            }
            for cpu in node_cpus.topology.cpus
        ],
        "freeCPUs": format_cpu_list(node_cpus.state.free),
        "holders": [_holder_data(holder) for holder in node_cpus.holders],
        "numaNodes": numa_nodes(node_cpus),
        "problems": node_cpus.problems(),
    }


def summary(node_cpus: NodeCpus) -> JsonObject:
    """Return one line of the list of nodes."""
    free, topology = node_cpus.state.free, node_cpus.topology
    kinds = [holder.kind for holder in node_cpus.holders if holder.has.cpus]
    return {
        "node": node_cpus.node,
        "cpus": len(topology.cpus),
        "free": free.bit_count(),
        "freeByNUMANode": {
            str(node): (free & cpus).bit_count() for node, cpus in topology.nodes.items()
        },
        "pods": kinds.count(HolderKind.POD),
        "reservations": kinds.count(HolderKind.RESERVATION),
        "policies": policies(node_cpus),
    }


def policies(node_cpus: NodeCpus) -> JsonObject:
    """Return the policies of a node, None for those it does not have."""
    of = node_cpus.state.shape.policies
    return {
        "numaTopologyPolicy": of.numa or None,
        "cpuBindPolicy": of.bind or None,
        "numaAllocateStrategy": of.strategy or None,
        "amplificationRatio": None if of.ratio == 1.0 else of.ratio or "invalid",
    }


def numa_nodes(node_cpus: NodeCpus) -> list[JsonObject]:
    """Return CPUs and amounts of each NUMA node: total, used by pods, otherwise reserved, free."""
    shape, topology = node_cpus.state.shape, node_cpus.topology
    taken = {node: dict(amounts) for node, amounts in node_cpus.state.used}
    by_pods: dict[tuple[int, str], int] = {}
    for holder in node_cpus.holders:
        if holder.kind is HolderKind.POD:
            for node, amounts in holder.has.amounts:
                for name, amount in amounts:
                    by_pods[node, name] = by_pods.get((node, name), 0) + amount
    listed = []
    for node in sorted({*topology.nodes, *shape.zones}):
        cpus, resources = topology.nodes.get(node, 0), {}
        for name, has in shape.zones.get(node, {}).items():
            of_all, used = taken.get(node, {}).get(name, 0), by_pods.get((node, name), 0)
            parts = {"has": has, "used": used, "reserved": of_all - used, "free": has - of_all}
            resources[name] = parts
        listed.append(
            {
                "node": node,
                "cpus": format_cpu_list(cpus),
                "freeCPUs": format_cpu_list(cpus & node_cpus.state.free),
                "resources": resources,
            }
        )
    return listed


def _holder_data(holder: Holder) -> JsonObject:
    data: JsonObject = {
        "kind": holder.kind.value,
        "name": holder.name,
        "cpus": format_cpu_list(holder.has.cpus),
        "numaNodes": _amounts_data(holder.has.amounts),
        "exclusivePolicy": holder.has.exclusive_policy or None,
    }
    if holder.kind is HolderKind.POD:
        data["reservation"] = holder.reservation or None
    if holder.kind is HolderKind.RESERVATION:
        data["unusedCPUs"] = format_cpu_list(holder.left.cpus)
        data["unusedNUMANodes"] = _amounts_data(holder.left.amounts)
    return data


def _amounts_data(amounts: NumaAmounts) -> dict[str, dict[str, int]]:
    return {str(node): dict(of) for node, of in amounts}
