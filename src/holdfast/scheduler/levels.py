"""Gauges: how full the queue, the picture and the loop are when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.scheduler.scheduler import Scheduler

_QUEUES = ("active", "backoff", "unschedulable", "gated")


def add_levels(scheduler: Scheduler) -> None:
    """Show a scheduler's state on its metrics page."""
    level, queue, world = scheduler.metrics.level, scheduler.queue, scheduler.world

    def cached() -> dict[str, float]:
        pods = world.nodes.pods()
        assumed = sum(world.nodes.is_assumed(facts.uid) for facts, _ in pods)
        return {"nodes": world.nodes.node_count, "pods": len(pods), "assumed_pods": assumed}

    def pending() -> dict[str, float]:
        counts = queue.counts()
        return {place: counts[place] for place in _QUEUES}

    level(
        "scheduler_pending_pods", "Pods that wait, by the queue they wait in.", ("queue",),
        pending,
    )  # fmt: skip
    level(
        "scheduler_unschedulable_pods",
        "Waiting pods that a plugin rejected; one pod may count for several.",
        ("plugin", "profile"), queue.blamed,
    )  # fmt: skip
    level(
        "scheduler_inflight_events", "Events remembered for pods that are being tried.",
        ("event",), queue.events_in_flight,
    )  # fmt: skip
    level(
        "scheduler_cache_size", "Nodes, pods and assumed pods in the scheduler's picture.",
        ("type",), cached,
    )  # fmt: skip
    level(
        "scheduler_goroutines", "Work under way beside deciding.", ("operation",),
        lambda: {"binding": scheduler.binding},
    )  # fmt: skip
    level(
        "holdfast_objects_not_taken_in_total",
        "Objects that could not be read, made no sense, or met a defect, since the start.",
        ("resource", "trouble"), scheduler.sources.informers.troubles,
    )  # fmt: skip
