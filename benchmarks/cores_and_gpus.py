"""Measure pods that are bound to CPUs or share GPUs, and owners of reservations that hold both.

    python benchmarks/cores_and_gpus.py [--nodes 1000] [--case lsr shared ...]
    python benchmarks/cores_and_gpus.py --profile lsr     the time of one case, by function

Each node has 64 CPUs (2 sockets, 2 threads per core) in a NodeResourceTopology and 8 GPUs in a
Device. *Ordinary* pods ask for neither; in the first case the nodes have neither of the objects.
*Owners* use 1,000 reservations of 8 CPUs and a GPU each. In *no two nodes alike* each node has
different CPUs and GPUs in use, and pods ask for 1 to 8 CPUs in turn. Cases are measured in turn, in
CPU time (``in_turn.py``); ``first ms`` is the time of the first pod, for which every node is
searched; ``step ms`` is the longest part of it without a pause.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from decisions import decide_all
from holdfast.api import koordinator_names as names
from holdfast.api.decode import JsonObject
from holdfast.api.reservation_names import AFFINITY
from holdfast.api.scheme import SHARED_DEVICES
from holdfast.scheduling.framework.world import World
from holdfast.testing import a_node, a_pod, a_reservation, typed
from holdfast.testing.builders import an_object
from holdfast.testing.numa_builders import a_bound_pod, a_topology
from in_turn import Result, Scene, measure_scenes

NODES, RESERVATIONS, PODS = 1000, 1000, 2000
SOCKETS, CORES, THREADS, GPUS = 2, 16, 2, 8
GPU_GIB, RESERVED_CPUS = 80, 8
SINGLE = {names.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}
OWNER = {"app": "owner"}
_made: dict[tuple[int, bool], World] = {}


def a_device_object(node: str) -> JsonObject:
    """The Device of a node: half of the GPUs on each NUMA node."""
    listed = [
        {
            "type": "gpu", "id": f"{node}-gpu-{minor}", "minor": minor, "health": True,
            "resources": _gpu(100),
            "topology": {
                "socketID": minor * SOCKETS // GPUS, "nodeID": minor * SOCKETS // GPUS,
                "pcieID": str(minor // 2), "busID": f"0000:{minor:02}:00.0",
            },
        }
        for minor in range(GPUS)
    ]  # fmt: skip
    return an_object(SHARED_DEVICES, node, {"devices": listed})


def node_objects(name: str, *, plain: bool = False) -> list[JsonObject]:
    """A node with its NodeResourceTopology and its Device, or ``plain`` without them."""
    listed = {
        names.GPU: 100 * GPUS, names.GPU_CORE: 100 * GPUS, names.GPU_MEMORY_RATIO: 100 * GPUS,
        names.GPU_MEMORY: f"{GPUS * GPU_GIB}Gi", names.GPU_SHARED: 100 * GPUS,
    }  # fmt: skip
    if plain:
        return [a_node(name, cpu="64", memory="512Gi", pods=250)]
    return [
        a_node(name, cpu="64", memory="512Gi", pods=250, allocatable=listed),
        a_topology(name, numa_nodes=SOCKETS, cores=CORES, threads=THREADS, memory="256Gi"),
        a_device_object(name),
    ]


def reservation_objects(i: int, node: str) -> tuple[JsonObject, JsonObject]:
    """A reservation of CPUs and a GPU for owners, and its status as it is placed."""
    placed = {
        names.RESOURCE_STATUS: f'{{"cpuset":"0-{RESERVED_CPUS - 1}"}}',
        names.DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 0, "resources": _gpu(100)}]}),
    }
    raw = a_reservation(
        f"r{i}", cpu=str(RESERVED_CPUS), memory="32Gi", requests={names.GPU: "100"},
        owner_labels=OWNER, allocate_once=False, ttl="24h", annotations=placed,
        metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
    )  # fmt: skip
    template = raw["spec"]["template"]
    template["metadata"]["labels"] = {names.QOS_CLASS: "LSR"}
    allocatable = {"cpu": str(RESERVED_CPUS), "memory": "32Gi", **_gpu(100)}
    return raw, {"phase": "Available", "nodeName": node, "allocatable": allocatable}


def a_pod_of(name: str, number: int) -> JsonObject:
    """Return a pod of a case."""
    case = CASES[name]
    requests = {names.GPU: case.gpu} if case.gpu else None
    more: dict[str, Any] = {"memory": "1Gi", "requests": requests, "annotations": case.annotations}
    labels = OWNER if case.owners else {"app": "web"}
    if case.lsr:
        cpu = case.cpu or str(1 + number % 8)
        return a_bound_pod(f"p{number}", cpu, labels=labels, **more)
    return a_pod(f"p{number}", cpu=case.cpu, labels=labels, **more)


@dataclass(frozen=True)
class Case:
    """Equal pods; ``target`` is in decisions per second on one core, with 1,000 nodes."""

    words: str
    cpu: str = "100m"
    """ The CPU request; "": 1 to 8 in turn."""
    gpu: str = ""
    lsr: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    owners: bool = False
    busy: bool = False
    """Whether the CPUs and GPUs in use differ from node to node."""
    rejected: bool = False
    most: int = PODS
    target: int = 2000


CASES = {
    "plain": Case("ordinary, plain nodes", plain=True, target=8000),
    "ordinary": Case("ordinary", target=8000),
    "lsr": Case("LSR, 4 CPUs", "4", lsr=True),
    "single": Case("LSR, SingleNUMANode", "4", lsr=True, annotations=SINGLE),
    "shared": Case("half a GPU", gpu="50"),
    "whole": Case("a GPU", gpu="100"),
    "both": Case("LSR with half a GPU", "4", gpu="50", lsr=True),
    "aligned": Case("LSR, SingleNUMANode, half a GPU", "4", "50", lsr=True, annotations=SINGLE),
    "owners": Case("owners, 2 CPUs", "2", lsr=True, owners=True, target=1000),
    "gpu-owners": Case("owners, a quarter of a GPU", gpu="25", owners=True, target=1000),
    "both-owners": Case("owners of both", "2", "25", lsr=True, owners=True, target=1000),
    "no-owners": Case(
        "owners, no reservation fits",
        "80",
        "50",
        lsr=True,
        owners=True,
        rejected=True,
        annotations={AFFINITY: "{}"},
        most=100,
        target=100,
    ),
    "different": Case("no two nodes alike", "", gpu="25", lsr=True, busy=True, target=1000),
    "rejected": Case("LSR, no node fits", "60", lsr=True, busy=True, rejected=True, most=500),
}


def a_cluster(nodes: int, *, plain: bool = False) -> World:
    """Return a cluster of nodes with CPUs and GPUs, all free."""
    key = (nodes, plain)
    if key not in _made:
        world = _made[key] = World()
        for i in range(nodes):
            for raw in node_objects(f"n{i}", plain=plain):
                world.upsert(typed(raw))
    return _made[key].fork()


def waiting(name: str, nodes: int, pods: int = PODS) -> Scene:
    """Return a cluster for a case, and pods to schedule."""
    case = CASES[name]
    world = a_cluster(nodes, plain=case.plain)
    if case.owners:
        for i in range(min(RESERVATIONS, nodes)):
            raw, status = reservation_objects(i, f"n{i}")
            world.upsert(typed(raw | {"status": status}))
    if case.busy:
        dice = Random(1)
        for i in range(nodes):
            world.upsert(typed(busy_pod(f"n{i}", dice)))
    return world, [world.pod_info(typed(a_pod_of(name, i))) for i in range(min(pods, case.most))]


def busy_pod(node: str, dice: Random) -> JsonObject:
    """A pod that uses some random CPUs and parts of GPUs of its node."""
    cpus = dice.sample(range(SOCKETS * CORES * THREADS), 8)
    shares = [dice.randint(1, 50) for _ in range(GPUS)]
    used = [{"minor": minor, "resources": _gpu(share)} for minor, share in enumerate(shares)]
    notes = {
        names.RESOURCE_STATUS: json.dumps({"cpuset": ",".join(map(str, cpus))}),
        names.DEVICE_ALLOCATED: json.dumps({"gpu": used}),
    }
    return a_bound_pod(
        f"busy-{node}", "8", node=node, annotations=notes, requests={names.GPU: str(sum(shares))}
    )


def _gpu(percent: int) -> dict[str, str]:
    share = str(percent)
    memory = f"{GPU_GIB * 1024 * percent // 100}Mi"
    return {names.GPU_CORE: share, names.GPU_MEMORY_RATIO: share, names.GPU_MEMORY: memory}


def measure_in_turn(
    cases: Sequence[str], nodes: int = NODES, pods: int = PODS
) -> dict[str, Result]:
    """Measure cases in turn."""
    scenes = {name: waiting(name, nodes, pods) for name in cases}
    return measure_scenes(scenes, [name for name in cases if CASES[name].rejected])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--profile", choices=list(CASES), help="profile one case instead")
    args = parser.parse_args()
    if args.profile:
        profiler = cProfile.Profile()
        profiler.runcall(decide_all, *waiting(args.profile, args.nodes, args.pods))
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(30)
        return
    print(
        f"{'pods':36}{'per s':>10}{'of the first':>14}{'first ms':>10}{'step ms':>9}{'target':>9}"
    )
    for name, found in measure_in_turn(args.case, args.nodes, args.pods).items():
        case = CASES[name]
        print(
            f"{case.words:36}{found.per_second:>10,.0f}{found.of_first:>14.2f}"
            f"{1000 * found.first_seconds:>10,.1f}{1000 * found.longest_step_seconds:>9,.1f}"
            f"{case.target:>9,}",
            flush=True,
        )


if __name__ == "__main__":
    main()
