"""The workload of a pod, and how many of its pods may migrate or be unavailable at once."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.int_or_percent import resolve_int_or_percent
from holdfast.api.pod import Pod

MANY_REPLICAS, FEW_REPLICAS = 10, 4


@dataclass(frozen=True, slots=True)
class Workload:
    """The controller of pods."""

    uid: str
    replicas: int
    """How many pods it wants."""
    pods: tuple[Pod, ...] = ()


def make_workload(uid: str, wanted: int | None, pods: tuple[Pod, ...]) -> Workload:
    """Return a workload; without a known number of wanted pods, those that it has are counted."""
    replicas = len([p for p in pods if not p.finished]) if wanted is None else wanted
    return Workload(uid, replicas, pods)


def max_of_workload(replicas: int, limit: int | str | None) -> int:
    """Return a limit of a workload: a count, or a percentage of its replicas, rounded down.

    Without a limit it is 10 % of more than 10 replicas, 2 of 4 to 10, and 1 of fewer. It is 1 at
    least, and at most the number of replicas.

    >>> [max_of_workload(6, limit) for limit in ("80%", "150%", 7, None, 0)]
    [4, 6, 6, 2, 1]
    """
    if limit is None and replicas > MANY_REPLICAS:
        limit = "10%"
    elif limit is None:
        limit = 2 if replicas >= FEW_REPLICAS else 1
    return min(max(resolve_int_or_percent(limit, replicas, up=False), 1), replicas)


def is_available(pod: Pod) -> bool:
    """Return whether a pod runs, is ready and is not going away."""
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return ready and not pod.finished and not pod.terminating
