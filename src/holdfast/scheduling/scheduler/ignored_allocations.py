"""Report annotations about impossible allocations: in an event, a counter and a list of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.pod import Pod
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.scheduler.metrics import Metrics
from holdfast.state.recorded_allocations import Ignored

REASON = "AllocationIgnored"


def report_ignored(
    ignored: Ignored, metrics: Metrics, record: Callable[[Pod, str, str], None]
) -> None:
    """Count a key of a pod, and record an event that names it."""
    metrics.ignored_allocations.add(ignored.key)
    record(ignored.pod, REASON, f"metadata.annotations[{ignored.key}]: {ignored.why}")


def ignored_allocations(world: World) -> list[dict[str, Any]]:
    """Return the bound pods with such annotations, and what is wrong with each."""
    return [
        {"namespace": pod.namespace, "name": pod.name, "annotations": dict(keys)}
        for pod, keys in world.recorded.ignored.values()
    ]
