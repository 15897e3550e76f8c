"""What the scheduler believes, written out for somebody who wonders, and whether it is true."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.api.scheme import NODES, PODS
from holdfast.columns.interner import CPU
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.world import World

if TYPE_CHECKING:
    from holdfast.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)


def dump(scheduler: Scheduler) -> str:
    """Write out where picture and API differ, every node, and the queue."""
    return "\n".join([*_mismatches(scheduler), *_nodes(scheduler), *_queue(scheduler)])


def log_dump(scheduler: Scheduler) -> None:
    """Write the dump to the log, one record a line."""
    for line in ("asked for a dump", *dump(scheduler).splitlines()):
        log.warning("%s", line)


def _mismatches(scheduler: Scheduler) -> Iterator[str]:
    """Compare with what the informers last heard; what they heard since is on its way."""
    informers, nodes = scheduler.informers.informer_set, scheduler.world.nodes
    heard, known = set(informers.get(NODES).cache), set(nodes.row_of)
    yield f"Nodes: missed {sorted(heard - known)}, redundant {sorted(known - heard)}"
    cached = informers.get(PODS).cache.values()
    bound = {pod.key for pod in cached if pod.spec.node_name and not pod.finished}
    assumed = {pod_info.key for pod_info, _ in nodes.pods() if nodes.is_assumed(pod_info.uid)}
    standing = {pod_info.key for pod_info, _ in nodes.pods() if not pod_info.is_reserve_pod}
    lost = {key for key in bound - standing if not _aside(scheduler, key)}
    redundant = standing - bound - assumed
    yield f"Pods: missed {sorted(lost)}, redundant {sorted(redundant)}, assumed {len(assumed)}"


def _aside(scheduler: Scheduler, key: str) -> bool:
    """Tell whether a pod's node is unknown: then it waits for that and is not missed."""
    pod = scheduler.informers.informer_set.get(PODS).cache[key]
    return pod.spec.node_name not in scheduler.world.nodes.row_of


def _nodes(scheduler: Scheduler) -> Iterator[str]:
    world = scheduler.world
    nodes = world.nodes
    for name, row in sorted(nodes.row_of.items()):
        amounts = {
            nodes.resources[r]: (int(nodes.requested[r, row]), int(nodes.allocatable[r, row]))
            for r in range(len(nodes.resources))
            if nodes.requested[r, row] or nodes.allocatable[r, row]
        }
        room = ", ".join(f"{what} {taken}/{has}" for what, (taken, has) in amounts.items())
        yield f"Node {name}: requested/allocatable {room}"
        yield from (f"  {_pod(pod_info)}" for pod_info in nodes.pods_on(row).values())
        for pod_info in world.nominations.on(name).values():
            yield f"  nominated {_pod(pod_info)}"


def _queue(scheduler: Scheduler) -> Iterator[str]:
    places = scheduler.queue.pods_by_queue()
    active, backoff = len(places.get("active", ())), len(places.get("backoff", ()))
    parked = [*places.get("unschedulable", ()), *places.get("gated", ())]
    yield f"activeQ:{active}; backoffQ:{backoff}; unschedulablePods:{len(parked)}"
    for queue_name, keys in sorted(places.items()):
        yield from (f"  {queue_name} {key}" for key in sorted(keys))


def _pod(pod_info: PodInfo) -> str:
    return f"{pod_info.key} uid {pod_info.uid} priority {pod_info.priority}"


def node_reservations(world: World, node: str) -> list[dict[str, Any]] | None:
    """List what is held on a node and who draws on it, in base units; None: no such node."""
    row = world.nodes.row_of.get(node)
    if row is None:
        return None
    offers = sorted(world.offers.on_row(row), key=lambda offer: offer.reservation.name)
    return [
        {
            "name": offer.reservation.name,
            "uid": offer.uid,
            "phase": offer.reservation.phase,
            "allocatePolicy": offer.policy,
            "allocateOnce": offer.reservation.spec.allocate_once,
            "available": offer.matchable,
            "order": offer.order,
            "resources": {
                _unit(world, resource): {
                    "reserved": amount,
                    "used": offer.used(resource),
                    "left": offer.left(resource),
                }
                for resource, amount in offer.reserved.items()
            },
            "pods": {uid: _named(world, draws) for uid, draws in offer.draws.items()},
        }
        for offer in offers
    ]


def _named(world: World, amounts: Any) -> dict[str, int]:
    return {_unit(world, resource): amount for resource, amount in amounts.items()}


def _unit(world: World, resource: int) -> str:
    return "millicores" if resource == CPU else world.nodes.resources[resource]
