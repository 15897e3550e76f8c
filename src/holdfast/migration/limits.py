"""How many pods may migrate at once: in the cluster, on a node, in a namespace, of a workload."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.api.meta import controller_of
from holdfast.api.pod import Pod
from holdfast.migration.pod_filters import EVICT
from holdfast.migration.workloads import Workload, is_available, max_of_workload
from holdfast.settings import MigrationSettings


@dataclass(slots=True)
class Migrating:
    """The pods that migrate now, counted for the limits; pods that are gone count no more."""

    settings: MigrationSettings
    pods: dict[str, Pod] = field(default_factory=dict)
    """By uid."""

    def add(self, pod: Pod) -> None:
        """Count a pod."""
        self.pods[pod.uid] = pod

    def find_limit(self, pod: Pod, workload: Workload | None) -> str:
        """Return the limit that a pod would exceed now, "" if none."""
        if EVICT in pod.metadata.annotations:
            return ""
        others = [p for uid, p in self.pods.items() if uid != pod.uid]
        settings, node = self.settings, pod.spec.node_name
        on_node = sum(p.spec.node_name == node for p in others) if node else 0
        in_namespace = sum(p.namespace == pod.namespace for p in others)
        for count, most, where in (
            (len(others), settings.max_globally, "the cluster"),
            (on_node, settings.max_per_node, f"node {node}"),
            (in_namespace, settings.max_per_namespace, f"namespace {pod.namespace}"),
        ):
            if most and most > 0 and count >= most:
                return f"{count} pods of {where} migrate already"
        return "" if workload is None else self._limit_of(pod, workload, others)

    def _limit_of(self, pod: Pod, workload: Workload, others: list[Pod]) -> str:
        migrating = {p.uid for p in others if _is_of(p, workload)}
        most = max_of_workload(workload.replicas, self.settings.max_per_workload)
        if migrating and len(migrating) >= most:
            return f"{len(migrating)} pods of its workload migrate already"
        lost = {p.uid for p in workload.pods if not is_available(p) and p.uid != pod.uid}
        unavailable = len(lost | migrating)
        most = max_of_workload(workload.replicas, self.settings.max_unavailable_per_workload)
        if unavailable >= most:
            return f"{unavailable} pods of its workload are not available or migrate already"
        return ""


def _is_of(pod: Pod, workload: Workload) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.uid == workload.uid
