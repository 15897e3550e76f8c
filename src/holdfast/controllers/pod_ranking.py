"""The order in which a ReplicaSet deletes pods when it is scaled down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cmp_to_key
from typing import NamedTuple

from holdfast.api.deletion_cost import parse_deletion_cost
from holdfast.api.pod import Pod
from holdfast.api.timestamps import parse_rfc3339
from holdfast.controllers import conditions


def in_deletion_order(
    pods: Iterable[Pod], pods_per_node: Mapping[str, int], now: float
) -> list[Pod]:
    """Return the pods in the order of deletion.

    ``pods_per_node`` counts the pods of the same workload on each node. Ages are compared by
    powers of two, as upstream does; if these are equal, the uid decides.
    """
    listed = list(pods)
    ranks = {pod.uid: _rank(pod, pods_per_node, now) for pod in listed}
    in_order = cmp_to_key(_compare)
    return sorted(listed, key=lambda pod: in_order(ranks[pod.uid]))


class _Rank(NamedTuple):
    """The values by which pods are compared; the smaller one is deleted first."""

    first: tuple[bool, int, bool, int, int]
    """Bound, phase, ready, deletion cost, related pods on the node (the most first)."""
    ready_age: float
    restarts: tuple[int, int]
    """Restarts of regular and of sidecar containers, negated."""
    age: float
    uid: str


def _rank(pod: Pod, pods_per_node: Mapping[str, int], now: float) -> _Rank:
    ready = conditions.find(pod.status.conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    since = ready.last_transition_time if ready is not None and is_ready else None
    bound = pod.spec.node_name != ""
    return _Rank(
        (
            bound,
            {"Pending": 0, "Unknown": 1}.get(pod.status.phase or "Pending", 2),
            is_ready,
            parse_deletion_cost(pod.metadata.annotations) or 0,
            -pods_per_node.get(pod.spec.node_name, 0) if bound else 0,
        ),
        _age(since, now),
        _restarts(pod),
        _age(pod.metadata.creation_timestamp, now),
        pod.uid,
    )


def _compare(a: _Rank, b: _Rank) -> int:
    if a.first != b.first:
        return _order(a.first, b.first)
    if a.ready_age != b.ready_age:
        return _compare_ages(a, b, a.ready_age, b.ready_age)
    if a.restarts != b.restarts:
        return _order(a.restarts, b.restarts)
    return _compare_ages(a, b, a.age, b.age)


def _compare_ages(a: _Rank, b: _Rank, age: float, other: float) -> int:
    """Compare the powers of two of two ages, then the uids."""
    return _order((_magnitude(age), a.uid), (_magnitude(other), b.uid))


def _order(a: tuple[object, ...], b: tuple[object, ...]) -> int:
    return (a > b) - (a < b)


def _age(since: str | None, now: float) -> float:
    """Return an age in seconds; -1 (the newest) if there is no time."""
    return max(now - parse_rfc3339(since), 0.0) if since else -1.0


def _magnitude(age: float) -> int:
    return int(math.log2(age * 1e9)) if age > 0 else -1


def _restarts(pod: Pod) -> tuple[int, int]:
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    status = pod.status
    regular = (c.restart_count for c in status.container_statuses)
    of_sidecars = (c.restart_count for c in status.init_container_statuses if c.name in sidecars)
    return -max(regular, default=0), -max(of_sidecars, default=0)
