"""Jobs by the pods and reservations they are about, and the workloads of pods."""

from __future__ import annotations

from holdfast.api.meta import ObjectReference, controller_of
from holdfast.api.pod import Pod
from holdfast.api.pod_migration_job import PodMigrationJob
from holdfast.api.scheme import PODS, REPLICASETS, STATEFULSETS
from holdfast.client.informer_set import InformerSet
from holdfast.controllers.object_index import ControllerIndex, KeyIndex
from holdfast.controllers.pod_migration.job_fields import reservation_ref
from holdfast.state.migration.limits import Workload, make_workload


def pod_key(ref: ObjectReference | None) -> str:
    """Return the key of a referenced pod, "" if the reference is not complete."""
    return f"{ref.namespace}/{ref.name}" if ref is not None and ref.namespace and ref.name else ""


def reservation_names(job: PodMigrationJob) -> set[str]:
    """Return the names that the reservation of a job may have, stored in the job or not yet."""
    ref, options = reservation_ref(job), job.spec.reservation_options
    template = (options.template if options is not None else None) or {}
    metadata = template.get("metadata")
    given = metadata.get("name") if isinstance(metadata, dict) else ""
    names = {ref.name if ref is not None else "", job.uid, given}
    return {name for name in names if isinstance(name, str) and name}


class JobIndex:
    """Indexes the jobs by the pods and reservations that concern them."""

    def __init__(self) -> None:
        self._by_pod: KeyIndex[PodMigrationJob] = KeyIndex(
            lambda job: {pod_key(job.spec.pod_ref), pod_key(job.status.pod_ref)}
        )
        self._by_reservation: KeyIndex[PodMigrationJob] = KeyIndex(reservation_names)
        self.handlers = (self._by_pod.on_change, self._by_reservation.on_change)

    def of_pod(self, key: str) -> tuple[str, ...]:
        """Return the names of the jobs of a pod, old or new."""
        return self._by_pod.of(key)

    def of_reservation(self, name: str) -> tuple[str, ...]:
        """Return the names of the jobs of a reservation."""
        return self._by_reservation.of(name)


class Workloads:
    """The workloads of pods, by the controllers that the pods name."""

    def __init__(self, informers: InformerSet) -> None:
        self._replicasets = informers.get(REPLICASETS)
        self._statefulsets = informers.get(STATEFULSETS)
        pods = informers.get(PODS)
        self._pods: ControllerIndex[Pod] = ControllerIndex(pods.cache)
        pods.add_handler(self._pods.on_change)

    def of(self, pod: Pod) -> Workload | None:
        """Return the workload of a pod.

        The pods of a workload that is neither a ReplicaSet nor a StatefulSet are counted.
        """
        owner = controller_of(pod)
        if owner is None:
            return None
        pods = self._pods.of(owner.uid)
        key = f"{pod.namespace}/{owner.name}"
        wanted: int | None = None
        for obj in (self._replicasets.cache.get(key), self._statefulsets.cache.get(key)):
            if obj is not None and obj.uid == owner.uid:
                wanted = obj.spec.replicas
        return make_workload(owner.uid, wanted, pods)
