"""Measure decisions of pods that use devices: counts, constraints, counters, shares, resources.

    python benchmarks/devices.py [--nodes 500 5000] [--claims 10000] [--case counters ...]
    python benchmarks/devices.py --profile counters     the time of one case, by function

Each node has eight cards. ``--claims`` claims exist already. Claims for a quarter of the cards are
allocated; the others wait for pods. The first decision of a case finds nothing cached and is shown
separately. The rate is that of the following decisions, per second of CPU time; ``longest`` is the
CPU time of the slowest of them, in which the scheduler does nothing else.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clusters import a_cluster
from decisions import NOW
from holdfast.cli import garbage_collection
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.columns.pod_info import PodInfo
from holdfast.testing import a_claim, a_device, a_device_class, a_pod, a_slice, typed

Raw = dict[str, Any]
DRIVER, RESOURCE, NETWORK = "gpu.example.com", "example.com/gpu", "net.example.com"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NETWORKS = 8
CARDS, CLAIMS, PODS = 8, 10_000, 1000
MAX_SECONDS = 5.0
"""A case ends after this time, so that a slow one is measured with fewer pods."""
PROFILE = default_profiles()["default-scheduler"]


def _plain(node: str) -> list[Raw]:
    cards = [
        a_device(f"gpu-{i}", attributes={PCIE_ROOT: f"pci0000:0{i // 4}", "uuid": f"{node}-{i}"})
        for i in range(CARDS)
    ]
    return [a_slice(f"{node}-gpu", node=node, devices=cards)]


def _partitioned(node: str) -> list[Raw]:
    """Each card as a whole and as two halves, with its memory as a counter."""
    memory = [
        {"name": f"card-{i}", "counters": {"memory": {"value": "80Gi"}}} for i in range(CARDS)
    ]
    counters = a_slice(f"{node}-counters", node=node, slices=2, devices=[], sharedCounters=memory)
    del counters["spec"]["devices"]
    devices = [
        a_device(
            f"gpu-{i}{suffix}",
            attributes={"profile": profile},
            consumesCounters=[
                {"counterSet": f"card-{i}", "counters": {"memory": {"value": amount}}}
            ],
        )
        for i in range(CARDS)
        for suffix, profile, amount in (
            ("", "whole", "80Gi"),
            ("-a", "half", "40Gi"),
            ("-b", "half", "40Gi"),
        )
    ]
    return [counters, a_slice(f"{node}-gpu", node=node, slices=2, devices=devices)]


def _shareable(node: str) -> list[Raw]:
    policy = {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}
    memory = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    cards = [
        a_device(f"gpu-{i}", capacity=memory, allowMultipleAllocations=True) for i in range(CARDS)
    ]
    return [a_slice(f"{node}-gpu", node=node, devices=cards)]


def _of_all_nodes(node: str) -> list[Raw]:
    """Devices that every node can use, in addition to those of the nodes."""
    if node != "n0":
        return _plain(node)
    shared = [
        a_slice(f"net-{i}", driver=NETWORK, node=None, pool=f"net-{i}", devices=128, allNodes=True)
        for i in range(NETWORKS)
    ]
    return [*_plain(node), *shared]


HALF = f'device.attributes["{DRIVER}"].profile == "half"'
SHARE = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "12Gi"}}}


@dataclass(frozen=True)
class Case:
    words: str
    slices: Any
    claim: Raw = field(default_factory=dict)
    resource: bool = False
    """Whether pods request an extended resource instead of a claim."""
    target: int | None = 1000
    """Decisions per second on 5,000 nodes."""


CASES = {
    "counts": Case("one device", _plain),
    "constraints": Case(
        "two devices of one PCIe root",
        _plain,
        {"count": 2, "constraints": [{"matchAttribute": PCIE_ROOT}]},
    ),
    "counters": Case("half of a card", _partitioned, {"selectors": [HALF]}),
    "capacity": Case(
        "a share of a card", _shareable, {"requests": [{"name": "req-0", "exactly": SHARE}]}
    ),
    "network": Case("a device of all nodes", _of_all_nodes, {"device_class": "net"}, target=None),
    "resources": Case("an extended resource", _plain, resource=True),
}


def an_allocation(node: str, *devices: Raw) -> Raw:
    """Return the allocation of devices of a node."""
    selector = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        ]
    }
    return {"devices": {"results": list(devices)}, "nodeSelector": selector}


def a_result(node: str, i: int, **more: Any) -> Raw:
    """Return the result for one card of a node."""
    card = {"request": "req-0", "driver": DRIVER, "pool": node, "device": f"gpu-{i % CARDS}"}
    return card | more


def _allocated(i: int, node: str) -> Raw:
    """A claim that has one card of a node; cards are filled node by node."""
    status = {"allocation": an_allocation(node, a_result(node, i))}
    return a_claim(f"old{i}", status=status, metadata={"uid": f"uid-old{i}"})


def cards_in_use(claims: int, nodes: int) -> int:
    """Return how many of these claims are allocated: claims for a quarter of the cards."""
    return min(claims, nodes * CARDS) // 4


def a_cluster_with_devices(name: str, nodes: int, claims: int) -> World:
    """Return a cluster with the devices of a case and with claims."""
    case, world = CASES[name], a_cluster(nodes)
    world.upsert(typed(a_device_class("gpu", extendedResourceName=RESOURCE)))
    world.upsert(typed(a_device_class("net", driver=NETWORK)))
    for node in world.nodes.names:
        for raw in case.slices(node):
            world.upsert(typed(raw))
    allocated = cards_in_use(claims, nodes)
    for i in range(claims):
        if i < allocated:
            # The first device of a partitioned card is the whole card.
            node = world.nodes.names[(4 * i // CARDS) % nodes]
            raw = _allocated(i, node)
        else:
            raw = a_claim(f"waiting{i}", metadata={"uid": f"uid-waiting{i}"})
        world.upsert(typed(raw))
    return world


def a_pod_of(case: Case, number: int) -> Raw:
    """Return a pod that uses the claim of its number, or an extended resource."""
    more: Raw = {"cpu": "100m", "memory": "128Mi", "labels": {"app": "web"}}
    if case.resource:
        return a_pod(f"p{number}", requests={RESOURCE: "1"}, **more)
    claims = [{"name": "d", "resourceClaimName": f"c{number}"}]
    return a_pod(f"p{number}", claims=claims, **more)


def waiting(name: str, nodes: int, claims: int, pods: int) -> tuple[World, list[PodInfo]]:
    """Return a cluster and pods to schedule, each with its own claim."""
    case, world, made = CASES[name], a_cluster_with_devices(name, nodes, claims), []
    for i in range(pods):
        if not case.resource:
            world.upsert(typed(a_claim(f"c{i}", metadata={"uid": f"uid-c{i}"}, **case.claim)))
        made.append(world.pod_info(typed(a_pod_of(case, i))))
    return world, made


@dataclass(frozen=True)
class Result:
    """Times in milliseconds of CPU time."""

    per_second: float
    first: float
    longest: float
    pods: int


def measure(name: str, nodes: int, claims: int = CLAIMS, pods: int = PODS) -> Result:
    """Measure one case on one cluster."""
    world, pod_infos = waiting(name, nodes, claims, pods)
    garbage_collection.freeze_existing_objects()
    times = decide(world, pod_infos)
    gc.unfreeze()
    warm = times[1:]
    return Result(len(warm) / sum(warm), 1000 * times[0], 1000 * max(warm), len(warm))


def decide(world: World, pod_infos: Sequence[PodInfo]) -> list[float]:
    """Schedule pods until the time is over; return the CPU seconds of each decision."""
    rng, times = np.random.default_rng(1), []
    for pod_info in pod_infos:
        began = time.process_time()
        outcome = schedule_pod(PROFILE, PROFILE.view(pod_info, world, NOW), rng)
        times.append(time.process_time() - began)
        assert isinstance(outcome, Placement), outcome
        if len(times) > 1 and sum(times) > MAX_SECONDS + times[0]:
            break
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--claims", type=int, default=CLAIMS)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--profile", choices=list(CASES), help="profile one case instead")
    args = parser.parse_args()
    if args.profile:
        profiler = cProfile.Profile()
        world, pod_infos = waiting(args.profile, args.nodes[-1], args.claims, args.pods)
        decide(world, pod_infos[:1])
        profiler.runcall(decide, world, pod_infos[1:])
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(30)
        return
    print(f"{'pods with':32}{'nodes':>7}{'per s':>9}{'first ms':>10}{'longest':>9}{'pods':>6}")
    for nodes in args.nodes:
        for name in args.case:
            found = measure(name, nodes, args.claims, args.pods)
            print(
                f"{CASES[name].words:32}{nodes:>7}{found.per_second:>9,.0f}{found.first:>10,.1f}"
                f"{found.longest:>9,.2f}{found.pods:>6}",
                flush=True,
            )


if __name__ == "__main__":
    main()
