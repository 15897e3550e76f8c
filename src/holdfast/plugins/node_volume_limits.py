"""NodeVolumeLimits: a node attaches only so many volumes of a CSI driver."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import CSINode
from holdfast.api.volume_sources import CSIVolumeHandle
from holdfast.columns.mounts import mounts_of
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.unseen import Unseen, laden_on
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
    """Volumes of the pod by driver."""
    failure: tuple[Code, str] | None = None
    """Why its volumes cannot even be named; then every node says so."""
    unseen: Unseen | None = None
    """Reserve pods whose volumes do not count for the pod."""


class NodeVolumeLimits:
    """Rule out nodes that could not attach the pod's volumes as well."""

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
        """The claims, the disks as CSI volumes, and whose do not count."""
        mounts = pod.mounts
        if not mounts:
            return None
        own = pod.pod.uid if mounts.ephemeral else ""
        return (pod.namespace, mounts.claims, mounts.handles, own, view.unseen)

    def pre_filter(self, pod: PodInfo, view: View) -> _State | Skip:
        """Name the pod's volumes by driver and handle."""
        mounts, volumes = pod.mounts, view.world.volumes
        if not (mounts.claims or mounts.handles):
            return Skip()
        failure = _failure(pod, volumes)
        wanted: dict[str, set[CSIVolumeHandle]] = {}
        for handle in volumes.handles_of(pod) if failure is None else ():
            wanted.setdefault(handle.driver, set()).add(handle)
        by_driver = {driver: frozenset(handles) for driver, handles in wanted.items()}
        return _State(view.nodes, volumes.attachments, by_driver, failure, view.unseen)

    def filter(self, state: _State, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Unschedulable where one driver has not enough room left."""
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
        for position in np.isin(rows, _judged_alone(state, change)).nonzero()[0]:
            answer[position] = self.filter_row(state, int(rows[position]), change)
        return answer

    def filter_row(self, state: _State, row: int, change: PodChange) -> int:
        """The same for one row, under a change."""
        if state.failure is not None:
            return state.failure[0]
        unseen = laden_on(state.unseen, row)
        gone = {pod.uid for pod in (*change.removed.get(row, ()), *unseen)}
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
        """Where a pod mounts anything, its leaving may make room, or detach what is shared."""
        mounting = np.zeros(state.nodes.capacity, np.bool_)
        if state.failure is None:
            mounting[list(state.nodes.mounts.rows)] = True
        return mounting

    def reasons(self, state: _State, row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """There is only one, unless the volumes cannot be named."""
        if state.failure is not None:
            return (state.failure[1],)
        return (state.attachments.counting_errors().get(row, REASON) if state.wanted else REASON,)

    def count_reasons(self, state: _State, rows: Rows) -> Mapping[str, int]:
        """There is only one where any can be given."""
        words = REASON if state.failure is None else state.failure[1]
        return {words: len(rows)}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
        """A node can attach more, a volume went, or a claim of ours came."""
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
                held = mounts_of(event.old)
                return bool(placed) and bool(held.claims or held.handles)
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
            words = f"PVC {where} was not created for pod {pod.key} (pod is not owner)"
            return Code.ERROR, words
    return None


def _judged_alone(state: _State, change: PodChange) -> list[int]:
    """Rows where not everybody counts, or more than are there."""
    unseen = () if state.unseen is None else state.unseen.laden
    return [*change.removed, *change.added, *unseen]


def _new_volumes(state: _State, wanted: frozenset[CSIVolumeHandle]) -> NDArray[np.int32]:
    """How many of the volumes each row would have to attach for this pod alone."""
    new = np.full(state.nodes.capacity, len(wanted), np.int32)
    for handle in wanted:
        there = list(state.attachments.rows_with(handle))
        if there:
            new[there] -= 1
    return new


def _grew(old: CSINode, new: CSINode) -> bool:
    before, after = old.limits, new.limits
    return any(limit > before.get(driver, 0) for driver, limit in after.items())
