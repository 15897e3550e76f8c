"""The order in which a ReplicaSet deletes pods when it is scaled down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.api.pod import Pod
from holdfast.api.timestamps import parse_rfc3339
from holdfast.controllers import conditions

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def in_deletion_order(
    pods: Iterable[Pod], pods_per_node: Mapping[str, int], now: float
) -> list[Pod]:
    """Return the pods in the order of deletion.

    ``pods_per_node`` counts the pods of the same workload on each node. Ages are compared by
    powers of two, as upstream does, so that small differences do not decide.
    """

    def deletion_rank(pod: Pod) -> tuple[Any, ...]:
        ready = conditions.find(pod.status.conditions, "Ready")
        is_ready = ready is not None and ready.status == "True"
        since = ready.last_transition_time if ready is not None and is_ready else None
        return (
            pod.spec.node_name != "",
            {"Pending": 0, "Unknown": 1}.get(pod.status.phase or "Pending", 2),
            is_ready,
            _deletion_cost(pod),
            -pods_per_node.get(pod.spec.node_name, 0) if pod.spec.node_name else 0,
            _magnitude(since, now),
            _magnitude(pod.metadata.creation_timestamp, now),
            pod.uid,
        )

    return sorted(pods, key=deletion_rank)


def _magnitude(since: str | None, now: float) -> int:
    """Return the power of two of an age; -1, the newest, without one."""
    age = now - parse_rfc3339(since) if since else 0.0
    return int(math.log2(age * 1e9)) if age > 0 else -1


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0
