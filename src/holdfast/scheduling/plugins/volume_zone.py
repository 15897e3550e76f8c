"""VolumeZone: a volume with zone or region labels can be used in those zones only."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import PersistentVolume, PersistentVolumeClaim
from holdfast.api.volume_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    NodeFilter,
    Plugin,
    PodChange,
    Reject,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.volumes import Volumes

KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_STABLE = {BETA_ZONE: ZONE, BETA_REGION: REGION}
Zones = tuple[str, frozenset[str]]
"""A label key, and the values of nodes that can use the volume."""


@dataclass(slots=True)
class NodesInZones(NodeFilter):
    """Reject nodes outside the zones and regions of volumes."""

    nodes: NodeTable
    zones: tuple[Zones, ...]
    _seq: int = -1
    _fits: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    reason = "node(s) had no available volume zone"

    def filter(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes outside the zones as unresolvable."""
        return np.where(self.fits()[rows], Code.PASS, Code.UNRESOLVABLE).astype(np.int8)

    def filter_row(self, row: int, change: PodChange = NO_CHANGE) -> int:
        """Return the same for one row."""
        return Code.PASS if self.fits()[row] else Code.UNRESOLVABLE

    def fits(self) -> NDArray[np.bool_]:
        """Return which rows can use all volumes; cached until a node changes."""
        if self._seq != self.nodes.node_journal.seq:
            self._seq = self.nodes.node_journal.seq
            self._fits = self._compute()
        return self._fits

    def _compute(self) -> NDArray[np.bool_]:
        nodes = self.nodes
        fits = np.ones(nodes.capacity, np.bool_)
        for key, values in self.zones:
            ids = nodes.label(key)
            fitting = _one_of(nodes, key, values)
            if key in _STABLE:
                fitting = np.where(ids >= 0, fitting, _one_of(nodes, _STABLE[key], values))
            fits &= fitting
        # Nodes without any zone or region label can use every volume.
        unlabelled = np.ones(nodes.capacity, np.bool_)
        for key in KEYS:
            unlabelled &= nodes.label(key) < 0
        return fits | unlabelled


class VolumeZone(Plugin):
    """Filter nodes outside the zones and regions of the pod's volumes."""

    name = "VolumeZone"
    traits = Traits(
        scope=Scope.NODE,
        epochs=(Epoch.VOLUMES,),
        events_to_register={
            EventResource.NODE: (ActionType.ADD, ActionType.UPDATE_NODE_LABEL),
            EventResource.STORAGE_CLASS: (ActionType.ADD,),
            EventResource.PERSISTENT_VOLUME_CLAIM: (ActionType.ADD, ActionType.UPDATE),
            EventResource.PERSISTENT_VOLUME: (ActionType.ADD, ActionType.UPDATE),
        },
        ignores_requests=True,
        accepts_slices=True,
    )
    plan_classes = (NodesInZones,)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the claims."""
        return (pod.namespace, pod.mounts.persistent) if pod.mounts.claims else None

    def pre_filter(self, pod: PodInfo, view: View) -> NodesInZones | Skip | Reject:
        """Find the volumes of the claims; VolumeBinding chooses those of unbound claims."""
        volumes = view.world.volumes
        zones: list[Zones] = []
        for name in pod.mounts.persistent:
            if not name:
                return _reject("PersistentVolumeClaim had no name")
            claim = volumes.claim(pod.namespace, name)
            if claim is None:
                return _reject(f'persistentvolumeclaim "{name}" not found')
            if not claim.spec.volume_name:
                error = _claim_error(claim, volumes)
                if error:
                    return _reject(error)
                continue
            volume = volumes.volume(claim.spec.volume_name)
            if volume is None:
                return _reject(f'persistentvolume "{claim.spec.volume_name}" not found')
            zones += zones_of(volume)
        return NodesInZones(view.nodes, tuple(zones)) if zones else Skip()

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue for node labels, volume zones, the pod's claims, classes that bind late."""
        match event.resource, event.action:
            case EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL:
                return True
            case EventResource.STORAGE_CLASS, ActionType.ADD:
                return bool(event.new.waits_for_first_consumer)
            case EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD | ActionType.UPDATE:
                of_namespace = event.new.namespace == pod.namespace
                return of_namespace and event.new.name in pod.mounts.persistent
            case EventResource.PERSISTENT_VOLUME, ActionType.ADD:
                return True
            case EventResource.PERSISTENT_VOLUME, ActionType.UPDATE:
                return list(zones_of(event.old)) != list(zones_of(event.new))
        return False


def zones_of(volume: PersistentVolume) -> Iterable[Zones]:
    """Yield a volume's zone and region labels; a label with an empty zone is skipped."""
    for key in KEYS:
        text = volume.metadata.labels.get(key)
        if text is None:
            continue
        values = frozenset(part.strip() for part in text.split("__"))
        if "" not in values:
            yield key, values


def _claim_error(claim: PersistentVolumeClaim, volumes: Volumes) -> str:
    """Return why an unbound claim cannot be left to VolumeBinding, or ""."""
    name = claim.storage_class
    if not name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = volumes.classes.get(name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{name}" not found'
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{name}"'
    return "" if storage_class.waits_for_first_consumer else "PersistentVolume had no name"


def _reject(reason: str) -> Reject:
    return Reject(Code.UNRESOLVABLE, (reason,))


def _one_of(nodes: NodeTable, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    column = nodes.label_column(key)
    wanted = [id_ for value in values if (id_ := column.values.find(value)) >= 0]
    return np.isin(column.ids, wanted)
