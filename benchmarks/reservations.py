"""Measure scheduling with reservations: of owners, of other pods, and of the reservations.

    python benchmarks/reservations.py [--nodes 5000] [--reservations 0 100 1000 5000]

Reservations for pods of one workload are on the nodes, round robin. *Others* are basic pods that
own none of them. *Owners* are pods of that workload, five to a reservation, which use reserved
resources while some are free. *Scheduled* are pending reservations: the attempt, and the event that
they are available. *Pre-allocations* are reservations that take over the resources of running pods;
each is for one of a hundred workloads, and 50,000 pods are running.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from clusters import WORKLOADS, a_cluster
from decisions import NOW, decide_all
from holdfast.api.pod import Pod
from holdfast.api.reservation import Reservation
from holdfast.cli import garbage_collection
from holdfast.scheduling.framework.plugin import Placement
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins import default_profiles
from holdfast.scheduling.scheduler.cycle import schedule_pod
from holdfast.state.reservations.reserve_pod import reserve_pod
from holdfast.testing import a_pod, a_reservation, typed
from kinds import web

COUNTS = (0, 100, 1000, 5000)
PER_RESERVATION = 5
PODS = 2000
PLACED = 50_000


def reservation(i: int, node: str = "") -> Reservation:
    amounts = {"cpu": "500m", "memory": "512Mi"}
    status = {"phase": "Available", "nodeName": node, "allocatable": amounts} if node else None
    raw = a_reservation(
        f"r{i}", cpu="500m", memory="512Mi", owner_labels={"app": "owner"}, allocate_once=False,
        status=status, metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
    )  # fmt: skip
    return typed(raw)


def owners(count: int) -> Iterator[Pod]:
    for i in range(count):
        yield typed(a_pod(f"o{i}", cpu="100m", memory="64Mi", labels={"app": "owner"}))


def a_reserved_cluster(nodes: int, count: int) -> World:
    world = a_cluster(nodes)
    names = world.nodes.names
    for i in range(count):
        world.upsert(reservation(i, names[i % len(names)]))
    return world


def of_others(nodes: int, count: int, pods: int = PODS) -> float:
    """Return decisions per second for pods that own no reservation."""
    world = a_reserved_cluster(nodes, count)
    pod_infos = [world.pod_info(pod) for pod in web(pods)]
    return (pods - 1) / decide_all(world, pod_infos)[0]


def of_owners(nodes: int, count: int, pods: int = PODS) -> float:
    """Return decisions per second for owners."""
    world = a_reserved_cluster(nodes, count)
    pods = min(pods, PER_RESERVATION * count)
    pod_infos = [world.pod_info(pod) for pod in owners(pods)]
    return (pods - 1) / decide_all(world, pod_infos)[0]


def scheduled(nodes: int, count: int, more: int = 1000) -> float:
    """Return scheduled reservations per second, with ``count`` others on the nodes."""
    world = a_reserved_cluster(nodes, count)
    profile, rng = default_profiles()["default-scheduler"], np.random.default_rng(1)
    waiting = [reservation(count + i) for i in range(more)]
    garbage_collection.freeze_existing_objects()
    began = time.process_time()
    for pending in waiting:
        world.upsert(pending)
        pod_info = world.pod_info(reserve_pod(pending), is_reserve_pod=True)
        placed = schedule_pod(profile, profile.view(pod_info, world, NOW), rng)
        assert isinstance(placed, Placement), placed
        world.upsert(_available(pending, placed.node))
    spent = time.process_time() - began
    gc.unfreeze()
    return more / spent


def of_pre_allocations(nodes: int, placed: int = PLACED, more: int = 50) -> float:
    """Return attempts per second of pre-allocation reservations."""
    world = a_cluster(nodes, placed)
    profile, rng = default_profiles()["default-scheduler"], np.random.default_rng(1)
    waiting = [_pre_allocating(i) for i in range(more)]
    for pending in waiting:
        world.upsert(pending)
    pod_infos = [world.pod_info(reserve_pod(pending), is_reserve_pod=True) for pending in waiting]
    schedule_pod(profile, profile.view(pod_infos[0], world, NOW), rng)
    garbage_collection.freeze_existing_objects()
    began = time.process_time()
    for each in pod_infos[1:]:
        placed_at = schedule_pod(profile, profile.view(each, world, NOW), rng)
        assert isinstance(placed_at, Placement), placed_at
    spent = time.process_time() - began
    gc.unfreeze()
    return (more - 1) / spent


def _pre_allocating(i: int) -> Reservation:
    labels = {"app": f"placed{i % WORKLOADS}"}
    raw = a_reservation(
        f"h{i}", cpu="50m", memory="64Mi", owner_labels=labels, pre_allocation=True,
        metadata={"creationTimestamp": "2026-01-01T00:00:00Z"},
    )  # fmt: skip
    return typed(raw)


def _available(pending: Reservation, node: str) -> Reservation:
    amounts: dict[str, Any] = {"cpu": "500m", "memory": "512Mi"}
    status = msgspec.structs.replace(
        pending.status, phase="Available", node_name=node, allocatable=amounts
    )
    return msgspec.structs.replace(pending, status=status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--reservations", type=int, nargs="+", default=list(COUNTS))
    args = parser.parse_args()
    print(f"{'reservations':>12}{'others/s':>12}{'owners/s':>12}{'scheduled/s':>14}")
    for count in args.reservations:
        mine = f"{of_owners(args.nodes, count):12,.0f}" if count else f"{'':12}"
        print(
            f"{count:>12}{of_others(args.nodes, count):12,.0f}{mine}"
            f"{scheduled(args.nodes, count):14,.0f}",
            flush=True,
        )
    print(f"pre-allocations/s beside {PLACED:,} pods: {of_pre_allocations(args.nodes):,.0f}")


if __name__ == "__main__":
    main()
