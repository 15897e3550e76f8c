"""NodeVolumeLimits: a node can attach a limited number of volumes of a CSI driver."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import CSINode
from holdfast.api.volume_sources import CSIVolumeHandle
from holdfast.columns.hidden_reserve_pods import HiddenReservePods, hidden_with_ports_or_volumes
from holdfast.columns.mounts import mounts_of
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.volumes import Attachments, Volumes
from holdfast.framework.plugin import (
    NO_CHANGE,
    ClusterEvent,
    Code,
    PodChange,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View

REASON = "node(s) exceed max volume count"


@dataclass(frozen=True, slots=True)
class _State:
    nodes: NodeTable
    attachments: Attachments
    wanted: Mapping[str, frozenset[CSIVolumeHandle]] = field(default_factory=dict)
    """The pod's volumes by driver."""
    failure: tuple[Code, str] | None = None
    """Why the pod's volumes cannot be resolved; then every node has this verdict."""
    hidden_pods: HiddenReservePods | None = None
    """Reserve pods whose volumes do not count for this pod."""


class NodeVolumeLimits:
    """Filter nodes that cannot attach the pod's volumes too."""

    name: ClassVar[str] = "NodeVolumeLimits"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.DOMAIN,
        epochs=("volumes",),
        events_to_register={
            "CSINode": ("Add", "Update"),
            "AssignedPod": ("Delete",),
            "PersistentVolumeClaim": ("Add",),
            "VolumeAttachment": ("Delete",),
        },
        ignores_requests=True,
    )

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the claims, the disks as CSI volumes, and the reserve pods that do not count."""
        mounts = pod.mounts
        if not mounts:
            return None
        own = pod.pod.uid if mounts.ephemeral else ""
        return (pod.namespace, mounts.claims, mounts.handles, own, view.hidden_pods)

    def pre_filter(self, pod: PodInfo, view: View) -> _State | Skip:
        """Resolve the pod's volumes to drivers and handles."""
        mounts, volumes = pod.mounts, view.world.volumes
        if not (mounts.claims or mounts.handles):
            return Skip()
        failure = _failure(pod, volumes)
        wanted: dict[str, set[CSIVolumeHandle]] = {}
        for handle in volumes.handles_of(pod) if failure is None else ():
            wanted.setdefault(handle.driver, set()).add(handle)
        by_driver = {driver: frozenset(handles) for driver, handles in wanted.items()}
        return _State(view.nodes, volumes.attachments, by_driver, failure, view.hidden_pods)

    def filter(self, state: _State, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes where a driver's limit would be exceeded as unschedulable."""
        if state.failure is not None:
            return np.full(len(rows), state.failure[0], np.int8)
        full = np.zeros(len(rows), np.bool_)
        for driver, wanted in state.wanted.items():
            limit = state.attachments.limit(driver)
            if limit is not None:
                new = _new_volumes(state, wanted)[rows]
                beyond = state.attachments.count(driver)[rows] + new > limit[rows]
                full |= (limit[rows] >= 0) & (new > 0) & beyond
        answer = full.astype(np.int8)
        if state.wanted and (counting_errors := state.attachments.counting_errors()):
            answer[np.isin(rows, list(counting_errors))] = Code.ERROR
        for position in np.isin(rows, _rows_with_other_pods(state, change)).nonzero()[0]:
            answer[position] = self.filter_row(state, int(rows[position]), change)
        return answer

    def filter_row(self, state: _State, row: int, change: PodChange) -> int:
        """Return the verdict of one row after a change."""
        if state.failure is not None:
            return state.failure[0]
        hidden_pods = hidden_with_ports_or_volumes(state.hidden_pods, row)
        gone = {pod.uid for pod in (*change.removed.get(row, ()), *hidden_pods)}
        stay = [pod for uid, pod in state.nodes.mounts.on(row).items() if uid not in gone]
        there = (*stay, *change.added.get(row, ()))
        if state.wanted and state.attachments.counting_error(row, there):
            return Code.ERROR
        mounted, attached = state.attachments.mounted(row, there)
        for driver, wanted in state.wanted.items():
            limits = state.attachments.limit(driver)
            new = len(wanted - mounted)
            if limits is not None and new and 0 <= limits[row] < attached[driver] + new:
                return Code.UNSCHEDULABLE
        return Code.PASS

    def depends_on_pods(self, state: _State) -> NDArray[np.bool_]:
        """Return the rows with pods that mount volumes: evicting them detaches some."""
        mounting = np.zeros(state.nodes.capacity, np.bool_)
        if state.failure is None:
            mounting[list(state.nodes.mounts.rows)] = True
        return mounting

    def reasons(self, state: _State, row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the exceeded limit, or why volumes cannot be resolved or counted."""
        if state.failure is not None:
            return (state.failure[1],)
        return (state.attachments.counting_errors().get(row, REASON) if state.wanted else REASON,)

    def count_reasons(self, state: _State, rows: Rows) -> Mapping[str, int]:
        """Count all rows under one reason."""
        message = REASON if state.failure is None else state.failure[1]
        return {message: len(rows)}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
        """Requeue for a higher limit, a detached volume, a deleted user or a claim of the pod."""
        match event.resource, event.action:
            case "CSINode", "Add":
                return True
            case "CSINode", "Update":
                return _grew(event.old, event.new)
            case "PersistentVolumeClaim", "Add":
                names = [claim.name for claim in pod.mounts.claims]
                return event.new.namespace == pod.namespace and event.new.name in names
            case "VolumeAttachment", "Delete":
                drivers = {handle.driver for handle in pod.mounts.handles}
                return bool(pod.mounts.persistent) or event.old.spec.attacher in drivers
            case _, "Delete" if event.is_pod_event and event.old is not None:
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


def _rows_with_other_pods(state: _State, change: PodChange) -> list[int]:
    """Return the rows where other pods count than those of the columns."""
    hidden_pods = () if state.hidden_pods is None else state.hidden_pods.with_ports_or_volumes
    return [*change.removed, *change.added, *hidden_pods]


def _new_volumes(state: _State, wanted: frozenset[CSIVolumeHandle]) -> NDArray[np.int32]:
    """Return how many of the volumes each row would have to attach newly."""
    new = np.full(state.nodes.capacity, len(wanted), np.int32)
    for handle in wanted:
        there = list(state.attachments.rows_with(handle))
        if there:
            new[there] -= 1
    return new


def _grew(old: CSINode, new: CSINode) -> bool:
    before, after = old.limits, new.limits
    return any(limit > before.get(driver, 0) for driver, limit in after.items())
