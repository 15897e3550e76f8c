"""Read NodeResourceTopologies: CPUs by core, NUMA node and socket; zones; unavailable CPUs.

A bad annotation counts as absent; ``NodeTopology.faults`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any, NamedTuple, TypeVar

import msgspec

from holdfast.api.annotations import parse_annotation
from holdfast.api.koordinator_names import (
    AMPLIFICATION_RATIO,
    CPU_MANAGER_POLICY,
    CPU_TOPOLOGY,
    NODE_RESERVATION,
    POD_CPU_ALLOCS,
    SYSTEM_QOS_RESOURCE,
)
from holdfast.api.meta import Struct
from holdfast.api.node_resource_topology import NodeResourceTopology, Zone
from holdfast.api.quantity import milli, units
from holdfast.api.resource_names import CPU
from holdfast.runtime.errors import BadRequest
from holdfast.state.numa.cpu_set import MAX_CPUS, mask_of, parse_cpu_list
from holdfast.state.numa.policy_names import BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE

MAX_NUMA_NODES = 64
"""NUMA node ids are below this."""

T = TypeVar("T")


class Cpu(NamedTuple):
    """One logical CPU and where it is; ``core`` is unique within its socket only."""

    id: int
    core: int
    node: int
    socket: int


@dataclass(frozen=True, slots=True, eq=False)
class CpuTopology:
    """The CPUs of a node. Equal topologies are usually one object: see ``cpu_topology``.

    Masks of cores ascend by (socket, core), masks of NUMA nodes and sockets by id.
    """

    cpus: tuple[Cpu, ...]
    all: int
    cores: tuple[int, ...]
    nodes: Mapping[int, int]
    """Masks by NUMA node id."""
    sockets: Mapping[int, int]
    """Masks by socket id."""
    socket_of_node: Mapping[int, int]
    """The socket of each NUMA node; of its lowest CPU if there are several."""
    places: tuple[tuple[int, int], ...]
    """The NUMA node and the socket of each of ``cores``."""
    cpus_per_core: int
    """Of the largest core, if they differ."""

    @property
    def valid(self) -> bool:
        """Return whether CPUs can be chosen."""
        return bool(self.all)


@lru_cache(maxsize=1024)
def cpu_topology(cpus: tuple[Cpu, ...]) -> CpuTopology:
    """Return the topology of these CPUs, which have different ids."""
    ordered = tuple(sorted(cpus))
    cores = _masks(ordered, lambda cpu: (cpu.socket, cpu.core))
    places = {(cpu.socket, cpu.core): (cpu.node, cpu.socket) for cpu in reversed(ordered)}
    nodes = _masks(ordered, lambda cpu: cpu.node)
    sockets = _masks(ordered, lambda cpu: cpu.socket)
    return CpuTopology(
        cpus=ordered,
        all=mask_of(cpu.id for cpu in ordered),
        cores=tuple(cores.values()),
        nodes=nodes,
        sockets=sockets,
        socket_of_node={cpu.node: cpu.socket for cpu in reversed(ordered)},
        places=tuple(places[core] for core in cores),
        cpus_per_core=max((mask.bit_count() for mask in cores.values()), default=0),
    )


def _masks(cpus: tuple[Cpu, ...], group: Callable[[Cpu], Any]) -> dict[Any, int]:
    """Return the mask of each group of CPUs, ascending by group."""
    masks: dict[Any, int] = {}
    for cpu in sorted(cpus, key=group):
        masks[group(cpu)] = masks.get(group(cpu), 0) | 1 << cpu.id
    return masks


NO_CPUS = cpu_topology(())


class NumaZone(NamedTuple):
    """The resources of one NUMA node: cpu in millicores, others in units."""

    node: int
    amounts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """The content of a NodeResourceTopology. Equal if all of it is equal.

    ``unavailable`` are CPUs that no pod may be bound to: those of the kubelet and of its pods, of
    the node's reservation and of the system. Each lowers the cpu of its zone by one.
    """

    cpu: CpuTopology = NO_CPUS
    unavailable: int = 0
    zones: tuple[NumaZone, ...] = ()
    policy: str = ""
    """BestEffort, Restricted or SingleNUMANode, unless a label of the Node says otherwise."""
    full_pcpus_only: bool = False
    """The kubelet's static policy allocates whole cores only."""
    ratios: tuple[tuple[str, float], ...] | None = None
    """Amplification by resource; the zones' amounts are amplified already if it is there."""
    faults: tuple[str, ...] = field(default=(), compare=False)
    unavailable_for: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    """The unavailable CPUs by what they are kept for, in words; some may be listed twice."""


NO_TOPOLOGY = NodeTopology()


class _CpuInfo(Struct, frozen=True):
    id: int = 0
    core: int = 0
    socket: int = 0
    node: int = 0


class _CpuDetail(Struct, frozen=True):
    detail: tuple[_CpuInfo, ...] = ()


class _PodCpus(Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    cpuset: str = ""
    managed_by_kubelet: bool = False


class _KubeletPolicy(Struct, frozen=True):
    policy: str = ""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")


class _NodeReservation(Struct, frozen=True):
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")


class _SystemQos(Struct, frozen=True):
    cpuset: str = ""
    cpuset_exclusive: bool = True


def read_topology(obj: NodeResourceTopology) -> NodeTopology:
    """Read a NodeResourceTopology; what is wrong in it is left out and named in ``faults``."""
    annotations = obj.metadata.annotations
    faults: list[str] = []
    detail = read_annotation(annotations, CPU_TOPOLOGY, _CpuDetail, faults)
    topology = _read_cpus(detail, faults)
    kubelet = read_annotation(annotations, CPU_MANAGER_POLICY, _KubeletPolicy, faults)
    kept = [
        (words, cpus & topology.all) for words, cpus in _unavailable(annotations, kubelet, faults)
    ]
    unavailable = reduce(int.__or__, (cpus for _, cpus in kept), 0)
    ratios = read_annotation(annotations, AMPLIFICATION_RATIO, dict[str, float], faults)
    static = kubelet if kubelet is not None and kubelet.policy == "static" else _KubeletPolicy()
    return NodeTopology(
        cpu=topology,
        unavailable=unavailable,
        zones=tuple(_read_zones(obj.zones, topology, unavailable, faults)),
        policy=next(filter(None, map(_POLICIES.get, obj.topology_policies)), ""),
        full_pcpus_only=static.options.get("full-pcpus-only") == "true",
        ratios=None if ratios is None else tuple(sorted(ratios.items())),
        faults=tuple(faults),
        unavailable_for=tuple((words, cpus) for words, cpus in kept if cpus),
    )


def read_annotation(
    annotations: Mapping[str, str], name: str, kind: type[T], faults: list[str]
) -> T | None:
    """Parse an annotation; a malformed one counts as absent, and is added to the faults."""
    try:
        return parse_annotation(annotations, name, kind)
    except BadRequest as error:
        faults.append(str(error))
        return None


_POLICIES = {
    "BestEffort": BEST_EFFORT,
    "Restricted": RESTRICTED,
    "SingleNUMANodePodLevel": SINGLE_NUMA_NODE,
    "SingleNUMANodeContainerLevel": SINGLE_NUMA_NODE,
}


def _read_cpus(detail: _CpuDetail | None, faults: list[str]) -> CpuTopology:
    by_id = {
        info.id: Cpu(info.id, info.core, info.node, info.socket)
        for info in (detail.detail if detail is not None else ())
    }
    for cpu in by_id.values():
        if not (0 <= cpu.id < MAX_CPUS and 0 <= cpu.node < MAX_NUMA_NODES):
            faults.append(f"annotation {CPU_TOPOLOGY}: CPU {cpu.id} of NUMA node {cpu.node}")
            return NO_CPUS
    return cpu_topology(tuple(by_id.values()))


def _unavailable(
    annotations: Mapping[str, str], kubelet: _KubeletPolicy | None, faults: list[str]
) -> Iterable[tuple[str, int]]:
    """Return the CPUs that no pod may be bound to, by what they are kept for."""
    lists: list[tuple[str, str, str]] = []
    if kubelet is not None:
        lists.append((CPU_MANAGER_POLICY, "the kubelet (reservedCPUs)", kubelet.reserved_cpus))
    reservation = read_annotation(annotations, NODE_RESERVATION, _NodeReservation, faults)
    if reservation is not None:
        lists.append((NODE_RESERVATION, "the node's reservation", reservation.reserved_cpus))
    system = read_annotation(annotations, SYSTEM_QOS_RESOURCE, _SystemQos, faults)
    if system is not None and system.cpuset_exclusive:
        lists.append((SYSTEM_QOS_RESOURCE, "QoS class SYSTEM", system.cpuset))
    pods = read_annotation(annotations, POD_CPU_ALLOCS, tuple[_PodCpus, ...], faults) or ()
    lists += [
        (POD_CPU_ALLOCS, f"pod {pod.namespace}/{pod.name}, bound by the kubelet", pod.cpuset)
        for pod in pods
        if pod.managed_by_kubelet and pod.uid
    ]
    for name, words, text in lists:
        try:
            yield words, parse_cpu_list(text)
        except BadRequest as error:
            faults.append(f"annotation {name}: {error}")


def _read_zones(
    zones: tuple[Zone, ...], topology: CpuTopology, unavailable: int, faults: list[str]
) -> Iterable[NumaZone]:
    """Return the NUMA nodes ascending by id; a zone that occurs twice counts once."""
    by_node: dict[int, NumaZone] = {}
    for zone in zones:
        prefix, _, number = zone.name.partition("node-")
        if zone.type != "Node" or prefix or not (number.isascii() and number.isdigit()):
            continue
        node = int(number[:4])
        if node >= MAX_NUMA_NODES:
            faults.append(f"zone {zone.name[:20]}: more than {MAX_NUMA_NODES} NUMA nodes")
            continue
        amounts: dict[str, int] = {}
        for resource in zone.resources:
            try:
                read = milli if resource.name == CPU else units
                amounts[resource.name] = max(read(resource.allocatable), 0)
            except BadRequest as error:
                faults.append(f"zone {zone.name}: {resource.name}: {error}")
        if amounts.get(CPU):
            taken = (topology.nodes.get(node, 0) & unavailable).bit_count()
            amounts[CPU] = max(amounts[CPU] - 1000 * taken, 0)
        by_node[node] = NumaZone(node, tuple(sorted(amounts.items())))
    return (by_node[node] for node in sorted(by_node))
