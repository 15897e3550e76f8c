"""Limits of the pods that migrate at once: in the cluster, a node, a namespace, a workload."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.api.meta import controller_of
from holdfast.api.pod import Pod
from holdfast.api.workloads import resolve_int_or_percent
from holdfast.runtime.settings import MigrationSettings

EVICT = "descheduler.alpha.kubernetes.io/evict"
"""Annotation of a pod, or of a job, to which no filter and no limit applies."""
_MANY_REPLICAS, _FEW_REPLICAS = 10, 4


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

    Without a limit it is 10 % for more than 10 replicas, 2 for 4 to 10, and 1 for fewer. It is 1 at
    least, and at most the number of replicas.

    >>> [max_of_workload(6, limit) for limit in ("80%", "150%", 7, None, 0)]
    [4, 6, 6, 2, 1]
    """
    if limit is None and replicas > _MANY_REPLICAS:
        limit = "10%"
    elif limit is None:
        limit = 2 if replicas >= _FEW_REPLICAS else 1
    return min(max(resolve_int_or_percent(limit, replicas, up=False), 1), replicas)


def _is_available(pod: Pod) -> bool:
    """Return whether a pod runs, is ready and is not going away."""
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return ready and not pod.finished and not pod.terminating


class Limit(NamedTuple):
    """A limit that a pod would exceed: the argument that sets it, and what it counts now."""

    argument: str
    message: str


@dataclass(slots=True)
class MigratingPods:
    """The pods that migrate now, counted for the limits; pods that are gone count no more."""

    settings: MigrationSettings
    pods: dict[str, Pod] = field(default_factory=dict)
    """By uid."""
    _on_node: Counter[str] = field(default_factory=Counter)
    _in_namespace: Counter[str] = field(default_factory=Counter)
    _of_workload: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, pod: Pod) -> None:
        """Count a pod, once."""
        if pod.uid in self.pods:
            return
        self.pods[pod.uid] = pod
        self._on_node[pod.spec.node_name] += 1
        self._in_namespace[pod.namespace] += 1
        if (owner := controller_of(pod)) is not None:
            self._of_workload[owner.uid].add(pod.uid)

    def find_limit(self, pod: Pod, workload: Workload | None) -> Limit | None:
        """Return the limit that a pod would exceed now, or None."""
        if EVICT in pod.metadata.annotations:
            return None
        itself = pod.uid in self.pods
        settings, node = self.settings, pod.spec.node_name
        for argument, count, most, where in (
            ("maxMigratingGlobally", len(self.pods), settings.max_globally, "the cluster"),
            ("maxMigratingPerNode", self._on_node[node] if node else itself,
             settings.max_per_node, f"node {node}"),
            ("maxMigratingPerNamespace", self._in_namespace[pod.namespace],
             settings.max_per_namespace, f"namespace {pod.namespace}"),
        ):  # fmt: skip
            if most and most > 0 and count - itself >= most:
                return Limit(argument, f"{count - itself} pods of {where} migrate already")
        return None if workload is None else self._limit_of(pod, workload)

    def _limit_of(self, pod: Pod, workload: Workload) -> Limit | None:
        migrating = self._of_workload[workload.uid] - {pod.uid}
        most = max_of_workload(workload.replicas, self.settings.max_per_workload)
        if migrating and len(migrating) >= most:
            message = f"{len(migrating)} pods of its workload migrate already"
            return Limit("maxMigratingPerWorkload", message)
        lost = {p.uid for p in workload.pods if not _is_available(p) and p.uid != pod.uid}
        unavailable = len(lost | migrating)
        most = max_of_workload(workload.replicas, self.settings.max_unavailable_per_workload)
        if unavailable >= most:
            message = f"{unavailable} pods of its workload are not available or migrate already"
            return Limit("maxUnavailablePerWorkload", message)
        return None
