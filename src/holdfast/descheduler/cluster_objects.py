"""The objects that a cycle of the descheduler reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.api.meta import Object, controller_of
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.workloads import ReplicaSet, StatefulSet
from holdfast.migration.workloads import Workload, make_workload


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """A copy of the cluster at one moment."""

    others: Sequence[Object] = ()
    """Everything else that decides where pods fit, in this order: namespaces, nodes and so on."""
    replicasets: Sequence[ReplicaSet] = ()
    statefulsets: Sequence[StatefulSet] = ()
    pods: Sequence[Pod] = ()
    jobs: Sequence[PodMigrationJob] = ()
    local_storage: frozenset[str] = field(default_factory=frozenset)
    """The uids of pods that are known to have local storage."""


class Workloads:
    """The workloads of pods."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._replicas = {each.uid: each.spec.replicas for each in objects.replicasets}
        self._replicas |= {each.uid: each.spec.replicas for each in objects.statefulsets}
        self._pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in objects.pods:
            if (owner := controller_of(pod)) is not None:
                self._pods[owner.uid].append(pod)

    def of(self, pod: Pod) -> Workload | None:
        """Return the workload of a pod, None if no controller has created it."""
        owner = controller_of(pod)
        if owner is None:
            return None
        pods = tuple(self._pods[owner.uid])
        return make_workload(owner.uid, self._replicas.get(owner.uid), pods)
