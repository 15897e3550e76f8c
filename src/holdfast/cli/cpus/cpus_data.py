"""The CPUs of nodes as JSON data."""

from __future__ import annotations

from typing import Any

from holdfast.cli.cpus.node_cpus import Holder, HolderKind, NodeCpus
from holdfast.numa.cpu_set import format_cpu_list
from holdfast.numa.resource_status import NumaAmounts

Json = dict[str, Any]


def as_data(found: NodeCpus) -> Json:
    """Return the CPUs of a node, their holders, its NUMA nodes, policies and problems.

    Amounts are in base units, cpu in millicores.
    """
    holders_of = found.holders_of()
    return {
        "node": found.node,
        "cpu": {"has": found.allocatable, "requested": found.requested},
        "policies": policies(found),
        "cpus": [
            {
                "id": cpu.id,
                "core": cpu.core,
                "numaNode": cpu.node,
                "socket": cpu.socket,
                "holders": [holder.title for holder in holders_of.get(cpu.id, ())],
            }
            for cpu in found.topology.cpus
        ],
        "freeCPUs": format_cpu_list(found.state.free),
        "holders": [_holder(holder) for holder in found.holders],
        "numaNodes": numa_nodes(found),
        "problems": found.problems(),
    }


def summary(found: NodeCpus) -> Json:
    """Return one line of the list of nodes."""
    free, topology = found.state.free, found.topology
    kinds = [holder.kind for holder in found.holders if holder.has.cpus]
    return {
        "node": found.node,
        "cpus": len(topology.cpus),
        "free": free.bit_count(),
        "freeByNUMANode": {
            str(node): (free & cpus).bit_count() for node, cpus in topology.nodes.items()
        },
        "pods": kinds.count(HolderKind.POD),
        "reservations": kinds.count(HolderKind.RESERVATION),
        "policies": policies(found),
    }


def policies(found: NodeCpus) -> Json:
    """Return the policies of a node, None for those it does not have."""
    of = found.state.shape.policies
    return {
        "numaTopologyPolicy": of.numa or None,
        "cpuBindPolicy": of.bind or None,
        "numaAllocateStrategy": of.strategy or None,
        "amplificationRatio": None if of.ratio == 1.0 else of.ratio or "invalid",
    }


def numa_nodes(found: NodeCpus) -> list[Json]:
    """Return CPUs and amounts of each NUMA node: has, used by pods, reserved beside them, free."""
    shape, topology = found.state.shape, found.topology
    taken = {node: dict(amounts) for node, amounts in found.state.used}
    by_pods: dict[tuple[int, str], int] = {}
    for holder in found.holders:
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
                "freeCPUs": format_cpu_list(cpus & found.state.free),
                "resources": resources,
            }
        )
    return listed


def _holder(holder: Holder) -> Json:
    found: Json = {
        "kind": holder.kind.value,
        "name": holder.name,
        "cpus": format_cpu_list(holder.has.cpus),
        "numaNodes": _amounts(holder.has.amounts),
        "exclusivePolicy": holder.has.exclusive_policy or None,
    }
    if holder.kind is HolderKind.POD:
        found["reservation"] = holder.reservation or None
    if holder.kind is HolderKind.RESERVATION:
        found["unusedCPUs"] = format_cpu_list(holder.left.cpus)
        found["unusedNUMANodes"] = _amounts(holder.left.amounts)
    return found


def _amounts(amounts: NumaAmounts) -> dict[str, dict[str, int]]:
    return {str(node): dict(of) for node, of in amounts}
