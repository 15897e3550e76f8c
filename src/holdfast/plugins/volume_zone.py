"""VolumeZone: a volume with zone or region labels can be used in those zones only."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api.storage import PersistentVolume, PersistentVolumeClaim
from holdfast.api.volume_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.volumes import Volumes
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ClusterEvent,
    Code,
    PodChange,
    Reject,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View

REASON = "node(s) had no available volume zone"
KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_STABLE = {BETA_ZONE: ZONE, BETA_REGION: REGION}
Zones = tuple[str, frozenset[str]]
"""A label key, and the values of nodes that can use the volume."""


@dataclass(slots=True)
class _State:
    nodes: NodeTable
    zones: tuple[Zones, ...]
    _seq: int = -1
    _fits: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

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


class VolumeZone:
    """Filter nodes outside the zones and regions of the pod's volumes."""

    name: ClassVar[str] = "VolumeZone"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.NODE,
        epochs=("volumes",),
        events_to_register={
            "Node": ("Add", "UpdateNodeLabel"),
            "StorageClass": ("Add",),
            "PersistentVolumeClaim": ("Add", "Update"),
            "PersistentVolume": ("Add", "Update"),
        },
        ignores_requests=True,
        accepts_slices=True,
    )

    def __init__(self, _args: Mapping[str, Any]) -> None:
        pass

    def reads(self, pod: PodInfo, _view: View) -> Hashable:
        """Return the claims."""
        return (pod.namespace, pod.mounts.persistent) if pod.mounts.claims else None

    def pre_filter(self, pod: PodInfo, view: View) -> _State | Skip | Reject:
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
        return _State(view.nodes, tuple(zones)) if zones else Skip()

    def filter(self, state: _State, rows: AnyRows, _change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes outside the zones as unresolvable."""
        return np.where(state.fits()[rows], Code.PASS, Code.UNRESOLVABLE).astype(np.int8)

    def filter_row(self, state: _State, row: int, _change: PodChange) -> int:
        """Return the same for one row."""
        return Code.PASS if state.fits()[row] else Code.UNRESOLVABLE

    def depends_on_pods(self, _state: _State) -> None:
        """Return None: the filter reads nodes and volumes only."""

    def reasons(self, _state: _State, _row: int, _change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return the only reason."""
        return (REASON,)

    def count_reasons(self, _state: _State, rows: Rows) -> Mapping[str, int]:
        """Count all rows under the only reason."""
        return {REASON: len(rows)}

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, _view: View) -> bool:
        """Requeue for node labels, volume zones, the pod's claims, classes that bind late."""
        match event.resource, event.action:
            case "Node", "Add" | "UpdateNodeLabel":
                return True
            case "StorageClass", "Add":
                return bool(event.new.waits_for_first_consumer)
            case "PersistentVolumeClaim", "Add" | "Update":
                of_namespace = event.new.namespace == pod.namespace
                return of_namespace and event.new.name in pod.mounts.persistent
            case "PersistentVolume", "Add":
                return True
            case "PersistentVolume", "Update":
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
    found = volumes.classes.get(name)
    if found is None:
        return f'storageclass.storage.k8s.io "{name}" not found'
    if found.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{name}"'
    return "" if found.waits_for_first_consumer else "PersistentVolume had no name"


def _reject(reason: str) -> Reject:
    return Reject(Code.UNRESOLVABLE, (reason,))


def _one_of(nodes: NodeTable, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    column = nodes.label_column(key)
    wanted = [id_ for value in values if (id_ := column.values.find(value)) >= 0]
    return np.isin(column.ids, wanted)
