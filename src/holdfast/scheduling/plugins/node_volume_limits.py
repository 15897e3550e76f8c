"""NodeVolumeLimits: a node can attach a limited number of volumes of a CSI driver."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import CSINode
from holdfast.api.volume_sources import CSIVolumeHandle
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
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.values import positions_of
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.hidden_reserve_pods import (
    HiddenReservePods,
    hidden_with_ports_or_volumes,
)
from holdfast.state.columns.mounts import mounts_of
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.volumes import Attachments, Volumes


@dataclass(frozen=True, slots=True)
class UnresolvedVolumes(NodeFilter, PreemptionRules):
    """Reject all nodes, because the pod's volumes cannot be resolved."""

    nodes: NodeTable
    code: Code
    reason: str

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return the same verdict for all rows."""
        return np.full(len(self.nodes.taint_set[rows]), self.code, np.int8)

    def depends_on_pods(self) -> bool:
        """Return False: evicting pods does not help."""
        return False


@dataclass(frozen=True, slots=True)
class VolumeLimits(NodeFilter, PreemptionRules):
    """Reject nodes that cannot attach the pod's volumes too."""

    nodes: NodeTable
    attachments: Attachments
    wanted: Mapping[str, frozenset[CSIVolumeHandle]]
    """The pod's volumes by driver."""
    hidden_pods: HiddenReservePods | None
    """Reserve pods whose volumes do not count for this pod."""

    reason = "node(s) exceed max volume count"

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes where a driver's limit would be exceeded as unschedulable."""
        full = np.zeros(self.nodes.capacity, np.bool_)[rows]
        for driver, wanted in self.wanted.items():
            limit = self.attachments.limit(driver)
            if limit is not None:
                new = self._new_volumes(wanted)[rows]
                beyond = self.attachments.count(driver)[rows] + new > limit[rows]
                full |= (limit[rows] >= 0) & (new > 0) & beyond
        answer = full.astype(np.int8)
        if self.wanted and (counting_errors := self.attachments.counting_errors()):
            for position, _ in positions_of(counting_errors.keys(), rows):
                answer[position] = Code.ERROR
        for position, row in positions_of(self._rows_with_other_pods(change), rows):
            answer[position] = self.filter_row(row, change)
        return answer

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the verdict of one row after a change."""
        hidden_pods = hidden_with_ports_or_volumes(self.hidden_pods, row)
        gone = {pod.uid for pod in (*change.removed.get(row, ()), *hidden_pods)}
        stay = [pod for uid, pod in self.nodes.mounts.on(row).items() if uid not in gone]
        there = (*stay, *change.added.get(row, ()))
        if self.wanted and self.attachments.counting_error(row, there):
            return Code.ERROR
        mounted, attached = self.attachments.mounted(row, there)
        for driver, wanted in self.wanted.items():
            limits = self.attachments.limit(driver)
            new = len(wanted - mounted)
            if limits is not None and new and 0 <= limits[row] < attached[driver] + new:
                return Code.UNSCHEDULABLE
        return Code.PASS

    def depends_on_pods(self) -> NDArray[np.bool_]:
        """Return the rows with pods that mount volumes: evicting them detaches some."""
        mounting = np.zeros(self.nodes.capacity, np.bool_)
        mounting[list(self.nodes.mounts.rows)] = True
        return mounting

    def reasons(self, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the exceeded limit, or why the volumes on the node cannot be counted."""
        errors = self.attachments.counting_errors() if self.wanted else {}
        return (errors.get(row, self.reason),)

    def _rows_with_other_pods(self, change: PodChange) -> set[int]:
        """Return the rows where the pods that count differ from those of the columns."""
        hidden_pods = () if self.hidden_pods is None else self.hidden_pods.with_ports_or_volumes
        return {*change.removed, *change.added, *hidden_pods}

    def _new_volumes(self, wanted: frozenset[CSIVolumeHandle]) -> NDArray[np.int32]:
        """Return how many more volumes each row would have to attach."""
        new = np.full(self.nodes.capacity, len(wanted), np.int32)
        for handle in wanted:
            there = list(self.attachments.rows_with(handle))
            if there:
                new[there] -= 1
        return new


class NodeVolumeLimits(Plugin):
    """Filter nodes that cannot attach the pod's volumes too."""

    name = "NodeVolumeLimits"
    traits = Traits(
        scope=Scope.DOMAIN,
        epochs=(Epoch.VOLUMES,),
        events_to_register={
            EventResource.CSI_NODE: (ActionType.ADD, ActionType.UPDATE),
            EventResource.ASSIGNED_POD: (ActionType.DELETE,),
            EventResource.PERSISTENT_VOLUME_CLAIM: (ActionType.ADD,),
            EventResource.VOLUME_ATTACHMENT: (ActionType.DELETE,),
        },
        ignores_requests=True,
    )
    plan_classes = (VolumeLimits, UnresolvedVolumes)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the claims, the disks as CSI volumes, and the reserve pods that do not count."""
        mounts = pod.mounts
        if not mounts:
            return None
        own = pod.pod.uid if mounts.ephemeral else ""
        return (pod.namespace, mounts.claims, mounts.handles, own, view.hidden_pods)

    def pre_filter(self, pod: PodInfo, view: View) -> VolumeLimits | UnresolvedVolumes | Skip:
        """Resolve the pod's volumes to drivers and handles."""
        mounts, volumes = pod.mounts, view.world.volumes
        if not (mounts.claims or mounts.handles):
            return Skip()
        failure = _failure(pod, volumes)
        if failure is not None:
            return UnresolvedVolumes(view.nodes, *failure)
        wanted: dict[str, set[CSIVolumeHandle]] = {}
        for handle in volumes.handles_of(pod):
            wanted.setdefault(handle.driver, set()).add(handle)
        by_driver = {driver: frozenset(handles) for driver, handles in wanted.items()}
        return VolumeLimits(view.nodes, volumes.attachments, by_driver, view.hidden_pods)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue for a higher limit, a detached volume, a deleted user or a claim of the pod."""
        match event.resource, event.action:
            case EventResource.CSI_NODE, ActionType.ADD:
                return True
            case EventResource.CSI_NODE, ActionType.UPDATE:
                return _grew(event.old, event.new)
            case EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD:
                names = [claim.name for claim in pod.mounts.claims]
                return event.new.namespace == pod.namespace and event.new.name in names
            case EventResource.VOLUME_ATTACHMENT, ActionType.DELETE:
                drivers = {handle.driver for handle in pod.mounts.handles}
                return bool(pod.mounts.persistent) or event.old.spec.attacher in drivers
            case _, ActionType.DELETE if event.is_pod_event and event.old is not None:
                placed = event.old.spec.node_name or event.old.status.nominated_node_name
                mounts = mounts_of(event.old)
                return bool(placed) and bool(mounts.claims or mounts.handles)
        return False


def _failure(pod: PodInfo, volumes: Volumes) -> tuple[Code, str] | None:
    for use in pod.mounts.claims:
        if not use.name:
            return Code.ERROR, "PersistentVolumeClaim had no name"
        claim = volumes.claim(pod.namespace, use.name)
        where = f"{pod.namespace}/{use.name}"
        if claim is None:
            missing = f'persistentvolumeclaim "{use.name}" not found'
            return Code.UNRESOLVABLE, f"looking up PVC {where}: {missing}"
        if use.ephemeral and not claim.belongs_to(pod.pod):
            message = f"PVC {where} was not created for pod {pod.key} (pod is not owner)"
            return Code.ERROR, message
    return None


def _grew(old: CSINode, new: CSINode) -> bool:
    before, after = old.limits, new.limits
    return any(limit > before.get(driver, 0) for driver, limit in after.items())
