"""VolumeRestrictions: disks that cannot be shared on a node, and exclusive claims."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import READ_WRITE_ONCE_POD
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeFilter,
    Plugin,
    PodChange,
    PreemptionRules,
    Reject,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.hidden_reserve_pods import (
    HiddenReservePods,
    hidden_with_ports_or_volumes,
)
from holdfast.state.columns.mounts import Disk, disks_conflict, mounts_of
from holdfast.state.columns.node_rows import Rows
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)


@dataclass(frozen=True, slots=True)
class VolumeConflicts(NodeFilter, PreemptionRules):
    """Reject rows where a disk is in use, and all rows while an exclusive claim is."""

    nodes: NodeTable
    namespace: str
    exclusive: frozenset[str]
    """Claims that only one pod may use (ReadWriteOncePod)."""
    disks: frozenset[Disk]
    hidden_pods: HiddenReservePods | None
    """Reserve pods whose volumes do not count for this pod."""

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject rows where a disk is in use as unschedulable; all rows if a claim is."""
        if self.in_use(change):
            return np.full(len(self.nodes.taint_set[rows]), Code.UNSCHEDULABLE, np.int8)
        verdicts = np.zeros(self.nodes.capacity, np.int8)
        taken = list(self.nodes.mounts.rows_taken(self.disks))
        verdicts[taken] = [self._disk_taken(row, NO_CHANGE) for row in taken]
        answer: Verdicts = verdicts[rows]
        for position, row in change.positions_in(rows):
            answer[position] = self._disk_taken(row, change)
        return answer

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row after a change."""
        taken = self.in_use(change) or self._disk_taken(row, change)
        return Code.UNSCHEDULABLE if taken else Code.PASS

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows with pods that use one of the disks or claims."""
        taken = np.zeros(self.nodes.capacity, np.bool_)
        taken[list(self.nodes.mounts.rows_taken(self.disks))] = True
        for name in self.exclusive:
            taken[list(self.nodes.mounts.users(f"{self.namespace}/{name}").values())] = True
        return taken

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return whether a disk or a claim is in use; disks are checked first."""
        return (DISK,) if self._disk_taken(row, change) else (IN_USE,)

    def count_reasons(self, rows: Rows) -> Mapping[str, int]:
        """Count the rows of both reasons."""
        taken = self.nodes.mounts.rows_taken(self.disks) & set(rows.tolist())
        disks = sum(self._disk_taken(row, NO_CHANGE) for row in taken)
        return {DISK: disks, IN_USE: len(rows) - disks}

    def _disk_taken(self, row: int, change: PodChange) -> bool:
        if not self.disks:
            return False
        hidden_pods = hidden_with_ports_or_volumes(self.hidden_pods, row)
        ignored = {pod.uid for pod in (*change.removed.get(row, ()), *hidden_pods)}
        stay = (pod for uid, pod in self.nodes.mounts.on(row).items() if uid not in ignored)
        return any(
            disks_conflict(self.disks, pod.mounts.disks)
            for pod in (*stay, *change.added.get(row, ()))
        )

    def in_use(self, change: PodChange) -> bool:
        """Return whether a pod uses one of the exclusive claims after the change.

        A claim in use counts once. As in kube-scheduler, removing one of its pods is enough.
        """
        uses = sum(map(self._is_used, self.exclusive))
        if change:
            uses -= sum(self._uses(pod) for pods in change.removed.values() for pod in pods)
            uses += sum(self._uses(pod) for pods in change.added.values() for pod in pods)
        return uses > 0

    def _is_used(self, claim: str) -> bool:
        mounts = self.nodes.mounts
        users = mounts.users(f"{self.namespace}/{claim}")
        reserve_pods: set[str] = set()
        if users and self.hidden_pods is not None:
            reserve_pods = {
                pod.uid for pods in self.hidden_pods.with_ports_or_volumes.values() for pod in pods
            }
        return any(
            claim in mounts.on(row)[uid].mounts.persistent
            for uid, row in users.items()
            if uid not in reserve_pods
        )

    def _uses(self, pod: PodInfo) -> int:
        if pod.namespace != self.namespace:
            return 0
        return sum(name in self.exclusive for name in pod.mounts.persistent)


class VolumeRestrictions(Plugin):
    """Filter nodes where a disk is in use, and all nodes while an exclusive claim is."""

    name = "VolumeRestrictions"
    traits = Traits(
        scope=Scope.ROW,
        epochs=(Epoch.VOLUMES, Epoch.MOUNTS),
        events_to_register={
            EventResource.NODE: (ActionType.ADD,),
            EventResource.ASSIGNED_POD: (ActionType.DELETE,),
            EventResource.PERSISTENT_VOLUME_CLAIM: (ActionType.ADD,),
        },
        ignores_requests=True,
        accepts_slices=True,
    )
    plan_classes = (VolumeConflicts,)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the claims and disks, and the reserve pods that do not count."""
        mounts = pod.mounts
        return (
            (pod.namespace, mounts.persistent, mounts.disks, view.hidden_pods) if mounts else None
        )

    def pre_filter(self, pod: PodInfo, view: View) -> VolumeConflicts | Skip | Reject:
        """Find the exclusive claims; skip the pod if nothing can conflict."""
        exclusive = []
        for name in pod.mounts.persistent:
            claim = view.world.volumes.claim(pod.namespace, name)
            if claim is None:
                return Reject(Code.UNRESOLVABLE, (f'persistentvolumeclaim "{name}" not found',))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.append(name)
        disks = pod.mounts.disks
        plan = VolumeConflicts(
            view.nodes, pod.namespace, frozenset(exclusive), disks, view.hidden_pods
        )
        return plan if disks or plan.in_use(NO_CHANGE) else Skip()

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a node or claim was added, or a pod deleted that used its volumes."""
        if event.resource == EventResource.NODE:
            return event.action == ActionType.ADD
        if event.resource == EventResource.PERSISTENT_VOLUME_CLAIM:
            of_namespace = event.action == ActionType.ADD and event.new.namespace == pod.namespace
            return of_namespace and event.new.name in pod.mounts.persistent
        if not event.is_pod_event or event.action != ActionType.DELETE or event.old is None:
            return False
        if event.old.namespace != pod.namespace:
            return False
        mounts = mounts_of(event.old)
        shared = set(mounts.persistent) & set(pod.mounts.persistent)
        return bool(shared) or disks_conflict(pod.mounts.disks, mounts.disks)
