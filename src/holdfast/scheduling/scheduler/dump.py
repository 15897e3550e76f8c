"""The cache dump: the scheduler's cache and queue as text, and where the cache is wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.api.scheme import NODES, PODS
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.interner import CPU
from holdfast.state.columns.pod_info import PodInfo

if TYPE_CHECKING:
    from holdfast.scheduling.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)


def dump(scheduler: Scheduler) -> str:
    """Return the differences between cache and API, every node with its pods, and the queue."""
    return "\n".join([*_mismatches(scheduler), *_nodes(scheduler), *_queue(scheduler)])


def log_dump(scheduler: Scheduler) -> None:
    """Log the dump, one record for each line."""
    for line in ("dump of the scheduler's cache and queue", *dump(scheduler).splitlines()):
        log.warning("%s", line)


def _mismatches(scheduler: Scheduler) -> Iterator[str]:
    """Compare the cache with the informers' newest objects, as upstream's comparer does."""
    informers, nodes = scheduler.informers.informer_set, scheduler.world.nodes
    listed, known = set(informers.get(NODES).cache), set(nodes.row_of)
    yield f"Nodes: missed {sorted(listed - known)}, redundant {sorted(known - listed)}"
    cached = informers.get(PODS).cache.values()
    bound = {pod.key for pod in cached if pod.spec.node_name and not pod.finished}
    assumed = {pod_info.key for pod_info, _ in nodes.pods() if nodes.is_assumed(pod_info.uid)}
    assigned = {pod_info.key for pod_info, _ in nodes.pods() if not pod_info.is_reserve_pod}
    missed = {key for key in bound - assigned if not _on_unknown_node(scheduler, key)}
    redundant = assigned - bound - assumed
    yield f"Pods: missed {sorted(missed)}, redundant {sorted(redundant)}, assumed {len(assumed)}"


def _on_unknown_node(scheduler: Scheduler, key: str) -> bool:
    """Tell whether the cache has no node for a bound pod; such a pod is not counted as missed."""
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
        shown = ", ".join(f"{name} {used}/{of}" for name, (used, of) in amounts.items())
        yield f"Node {name}: requested/allocatable {shown}"
        yield from (f"  {_pod(pod_info)}" for pod_info in nodes.pods_on(row).values())
        for pod_info in world.nominations.on(name).values():
            yield f"  nominated {_pod(pod_info)}"


def _queue(scheduler: Scheduler) -> Iterator[str]:
    pods = scheduler.queue.pods_by_queue()
    active, backoff = len(pods.get("active", ())), len(pods.get("backoff", ()))
    unschedulable = [*pods.get("unschedulable", ()), *pods.get("gated", ())]
    yield f"activeQ:{active}; backoffQ:{backoff}; unschedulablePods:{len(unschedulable)}"
    for queue_name, keys in sorted(pods.items()):
        yield from (f"  {queue_name} {key}" for key in sorted(keys))


def _pod(pod_info: PodInfo) -> str:
    return f"{pod_info.key} uid {pod_info.uid} priority {pod_info.priority}"


def node_reservations(world: World, node: str) -> list[dict[str, Any]] | None:
    """List the reservations of a node with their pods, in base units; None: no such node."""
    row = world.nodes.row_of.get(node)
    if row is None:
        return None
    reservations = sorted(world.reservations.on_row(row), key=lambda info: info.reservation.name)
    return [
        {
            "name": info.reservation.name,
            "uid": info.uid,
            "phase": info.reservation.phase,
            "allocatePolicy": info.policy,
            "allocateOnce": info.reservation.spec.allocate_once,
            "available": info.matchable,
            "order": info.order,
            "resources": {
                _unit(world, resource): {
                    "reserved": amount,
                    "used": info.allocated(resource),
                    "left": info.remaining(resource),
                }
                for resource, amount in info.reserved.items()
            },
            "pods": {uid: _named(world, amounts) for uid, amounts in info.allocated_by_pod.items()},
        }
        for info in reservations
    ]


def _named(world: World, amounts: Any) -> dict[str, int]:
    return {_unit(world, resource): amount for resource, amount in amounts.items()}


def _unit(world: World, resource: int) -> str:
    return "millicores" if resource == CPU else world.nodes.resources[resource]
