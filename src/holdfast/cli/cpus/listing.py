"""``holdfast cpus``: the CPUs of a node as a drawing, or a line for each node.

A drawing has a column for each core, and a letter for each holder.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

from holdfast.api import scheme
from holdfast.cli.connection import connect, list_all
from holdfast.cli.cpus.node_cpus import (
    Holder,
    HolderKind,
    NodeCpus,
    as_data,
    nodes_with_topology,
    numa_nodes,
    policies,
    read_node_cpus,
    summary,
)
from holdfast.cli.table import counted, escaped, format_table, in_one_unit, print_json
from holdfast.cli.world_building import build_world
from holdfast.scheduling.framework.world import World
from holdfast.state.numa.cpu_set import format_cpu_list, members_of

READ = (scheme.NODES, scheme.PODS, scheme.RESERVATIONS, scheme.NODE_RESOURCE_TOPOLOGIES)
NARROWEST = 40
"""The fewest columns for which the drawing is made."""
FREE, OTHER, MORE, SEVERAL = ".", "#", "+", "!"
"""Marks of CPUs: free; of the kubelet or the system; of a holder without a letter; of several
holders."""
NO_TOPOLOGY = (
    "its CPUs are not known: no NodeResourceTopology of its name has the annotation "
    "node.koordinator.sh/cpu-topology; koordlet publishes it, a simulated node with "
    "`holdfast up --node-shape cpu=16,memory=64Gi,numa=2`"
)
NO_NODES = (
    "there is no node whose CPUs are known: no NodeResourceTopology has the annotation "
    "node.koordinator.sh/cpu-topology"
)
_LABELS = {
    "numaTopologyPolicy": "NUMA policy",
    "cpuBindPolicy": "CPU bind policy",
    "numaAllocateStrategy": "allocate strategy",
    "amplificationRatio": "amplification",
}
_PARTS = ("has", "used", "reserved", "free")


def run(node: str, kubeconfig: Path | None, output: str) -> None:
    """Print the CPUs of a node, or a line for each node."""
    world = asyncio.run(_read(kubeconfig))
    every = [read_node_cpus(world, node)] if node else nodes_with_topology(world)
    if output == "json":
        print_json(as_data(every[0]) if node else list(map(summary, every)))
    elif node:
        width = max(shutil.get_terminal_size((80, 24)).columns, NARROWEST)
        print(as_text(every[0], width))
    else:
        print(nodes_as_text(every))


async def _read(kubeconfig: Path | None) -> World:
    async with connect(kubeconfig, "holdfast-cpus") as (client, _endpoint):
        return build_world(await list_all(client, READ))


def as_text(node_cpus: NodeCpus, width: int) -> str:
    """Draw a node within this number of columns: CPUs, holders, NUMA nodes, problems."""
    marks = _marks(node_cpus.holders)
    parts = [
        _headline(node_cpus),
        *_drawings(node_cpus, marks, width),
        _holder_table(node_cpus, marks),
        _numa_table(node_cpus),
        "\n".join(map(escaped, node_cpus.problems())),
    ]
    return "\n\n".join(part for part in parts if part)


def nodes_as_text(nodes: Sequence[NodeCpus]) -> str:
    """Format a line for each node."""
    if not nodes:
        return NO_NODES
    head = ("NODE", "CPUS", "FREE", "FREE BY NUMA NODE", "PODS", "RESERVATIONS", "POLICIES")
    rows = []
    for one in map(summary, nodes):
        free = ", ".join(f"{node}: {count}" for node, count in one["freeByNUMANode"].items())
        numbers = [str(one[key]) for key in ("cpus", "free", "pods", "reservations")]
        chosen = ", ".join(str(value) for value in one["policies"].values() if value) or "-"
        rows.append((one["node"], *numbers[:2], free, *numbers[2:], chosen))
    return format_table(head, rows)


def _headline(node_cpus: NodeCpus) -> str:
    topology, state = node_cpus.topology, node_cpus.state
    has, requested = in_one_unit("cpu", [node_cpus.allocatable, node_cpus.requested])
    amounts = f"pods and reservations request {requested} of {has} cpu"
    if not topology.valid:
        return f"{node_cpus.node}: {amounts}\n{NO_TOPOLOGY}"
    counts = (
        counted(len(topology.cpus), "CPU"),
        counted(len(topology.cores), "core"),
        counted(len(topology.nodes), "NUMA node"),
        counted(len(topology.sockets), "socket"),
    )
    lines = [
        f"{node_cpus.node}: {', '.join(counts)}",
        f"{counted(state.free.bit_count(), 'CPU')} without a holder; {amounts}",
    ]
    chosen = [f"{_LABELS[key]} {value}" for key, value in policies(node_cpus).items() if value]
    return "\n".join(lines + ([", ".join(chosen)] if chosen else []))


def _marks(holders: Iterable[Holder]) -> list[str]:
    """Return the mark of each holder: letters in lower case for pods, upper for reservations."""
    letters = {
        HolderKind.POD: iter(ascii_lowercase),
        HolderKind.RESERVATION: iter(ascii_uppercase),
        HolderKind.OTHER: iter(()),
    }
    marks = []
    for holder in holders:
        last = OTHER if holder.kind is HolderKind.OTHER else MORE
        marks.append(next(letters[holder.kind], last) if holder.has.cpus else " ")
    return marks


def _drawings(node_cpus: NodeCpus, marks: Sequence[str], width: int) -> Iterable[str]:
    """Draw the cores of each NUMA node of each socket, and how many CPUs are free."""
    topology, free = node_cpus.topology, node_cpus.state.free
    mark_of = dict.fromkeys(members_of(free), FREE)
    for holder, mark in zip(node_cpus.holders, marks, strict=True):
        for cpu in members_of(holder.left.cpus):
            mark_of[cpu] = SEVERAL if mark_of.get(cpu, FREE) != FREE else mark
    cores: dict[tuple[int, int], list[int]] = {}
    for core, (node, socket) in zip(topology.cores, topology.places, strict=True):
        cores.setdefault((socket, node), []).append(core)
    digits = len(str(max(topology.cpus).id)) if topology.cpus else 1
    for (socket, node), of in sorted(cores.items()):
        cpus = sum(of)  # masks of different cores have no CPU in common
        counts = f"{counted(cpus.bit_count(), 'CPU')}, {(cpus & free).bit_count()} free"
        title = f"socket {socket}, NUMA node {node}: {counts}"
        yield "\n".join([title, *_grid([members_of(core) for core in of], mark_of, digits, width)])


def _grid(
    cores: Sequence[Sequence[int]], mark_of: Mapping[int, str], digits: int, width: int
) -> Iterable[str]:
    """Draw cores side by side; the CPUs of a core are below one another."""
    cell = digits + 5  # a space and the mark after the number, three spaces between cores
    most = max(1, (width - 2 + 3) // cell)
    most = most - most % 4 if most > 4 else most
    for start in range(0, len(cores), most):
        block = cores[start : start + most]
        for thread in range(max(map(len, block))):
            cells = [
                f"{core[thread]:>{digits}} {mark_of.get(core[thread], FREE)}"
                if thread < len(core)
                else ""
                for core in block
            ]
            yield "  " + "".join(text.ljust(cell) for text in cells).rstrip()
        if start + most < len(cores):
            yield ""


def _holder_table(node_cpus: NodeCpus, marks: Sequence[str]) -> str:
    rows = []
    for holder, mark in zip(node_cpus.holders, marks, strict=True):
        unused = ""
        if holder.kind is HolderKind.RESERVATION and holder.left != holder.has:
            unused = f"unused: {format_cpu_list(holder.left.cpus) or 'no CPUs'}"
        of = f"from reservation {holder.reservation}" if holder.reservation else ""
        exclusive = holder.has.exclusive_policy and f"exclusive: {holder.has.exclusive_policy}"
        cpus = format_cpu_list(holder.has.cpus) or "-"
        notes = ", ".join(filter(None, (of, unused, exclusive, *_amounts(holder))))
        rows.append((mark, holder.title, cpus, notes))
    if node_cpus.topology.valid:
        rows.append((FREE, "free", format_cpu_list(node_cpus.state.free) or "-", ""))
    kept = 4 if any(notes for *_, notes in rows) else 3
    head = ("", "HOLDER", "CPUS", "NOTES")
    return format_table(head[:kept], [row[:kept] for row in rows]) if rows else ""


def _amounts(holder: Holder) -> Iterable[str]:
    """Write the amounts of NUMA nodes that a holder has."""
    for node, amounts in holder.has.amounts:
        written = [f"{name} {in_one_unit(name, [amount])[0]}" for name, amount in amounts]
        yield f"NUMA node {node}: {', '.join(written)}"


def _numa_table(node_cpus: NodeCpus) -> str:
    """Format the amounts of NUMA nodes; they are counted for pods that a NUMA policy aligned."""
    listed = numa_nodes(node_cpus)
    names = list(dict.fromkeys(name for one in listed for name in one["resources"]))
    if not names:
        return ""
    counts = bool(node_cpus.state.shape.policies.numa or node_cpus.state.used)
    parts = _PARTS if counts else _PARTS[:1]
    head, columns = ["NUMA NODE"], [[str(one["node"]) for one in listed]]
    for name in names:
        head += [name.upper(), *(part.upper() for part in parts[1:])]
        amounts = [one["resources"].get(name, {}).get(part, 0) for one in listed for part in parts]
        cells = in_one_unit(name, amounts)
        columns += [cells[at :: len(parts)] for at in range(len(parts))]
    table = format_table(head, zip(*columns, strict=True))
    note = "the node has no NUMA policy: what pods use of each NUMA node is not counted"
    return table if counts else f"{table}\n{note}"
