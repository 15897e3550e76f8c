"""Find the volumes that a claim may bind, and the nodes that can use a volume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from holdfast.api import labels as label_selection
from holdfast.api.labels import NOTHING, LabelRequirement, Selector, conjunction, from_selector
from holdfast.api.meta import LabelSelector
from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import NodeSelector
from holdfast.api.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from holdfast.runtime.errors import BadRequest, Invalid
from holdfast.state.columns.node_rows import Rows
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.selection import selected, terms_selected

Mask = NDArray[np.bool_]
_FILESYSTEM = "Filesystem"


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume's claimRef names the claim; its uid counts only if it is set."""
    kept = volume.spec.claim_ref
    if kept is None or (kept.namespace, kept.name) != (claim.namespace, claim.name):
        return False
    return not kept.uid or kept.uid == claim.uid


def is_suitable(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume has a claim's size, mode and class, and no other claim."""
    if volume.spec.claim_ref is not None and not is_bound_to(volume, claim):
        return False
    return (
        not volume.size < claim.size
        and (volume.spec.volume_mode or _FILESYSTEM) == (claim.spec.volume_mode or _FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "")
        == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def candidates(
    volumes: Iterable[PersistentVolume], claim: PersistentVolumeClaim
) -> tuple[PersistentVolume | None, list[PersistentVolume]]:
    """Return the volume that is bound to the claim, if any, and the free ones, smallest first.

    Node affinity is not checked. Raises BadRequest or Invalid for a bad selector of the claim.
    """
    serving = [volume for volume in volumes if is_suitable(volume, claim)]
    kept = min((v for v in serving if is_bound_to(v, claim)), key=_name, default=None)
    if kept is not None:
        return kept, []
    chosen = _of_labels(claim.spec.selector)
    free = [
        volume
        for volume in serving
        if volume.status.phase == "Available"
        and (chosen is None or chosen.matches(volume.metadata.labels))
        and volume.storage_class == claim.storage_class
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    ]
    return None, sorted(free, key=lambda volume: (volume.size, volume.name))


def _name(volume: PersistentVolume) -> str:
    return volume.name


def _of_labels(selector: LabelSelector | None) -> Selector | None:
    return None if selector is None else from_selector(selector)


class VolumeTopology:
    """The rows that match a volume's node affinity, cached until a node changes."""

    __slots__ = ("_known", "_nodes", "_seq")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._seq = -1
        self._known: dict[NodeSelector | None, Rows] = {}

    def rows(self, affinity: NodeSelector | None) -> Rows:
        """Return the matching rows, ascending. Do not modify the result."""
        seq = self._nodes.node_journal.seq
        if self._seq != seq:
            self._seq = seq
            self._known = {}
        rows = self._known.get(affinity)
        if rows is None:
            rows = self._known[affinity] = self._compute(affinity)
        return rows

    def mask(self, affinity: NodeSelector | None) -> Mask:
        """Return the same as a mask over all rows."""
        mask = np.zeros(self._nodes.capacity, np.bool_)
        mask[self.rows(affinity)] = True
        return mask

    def _compute(self, affinity: NodeSelector | None) -> Rows:
        nodes = self._nodes
        if affinity is None:
            return nodes.rows
        some = slice(0, nodes.size)
        mask = terms_selected(nodes, compile_selector(affinity), some, by_labels_alone=True)
        rows: Rows = (mask & nodes.alive[some]).nonzero()[0]
        return rows


def matches_node_affinity(labels: Mapping[str, str], affinity: NodeSelector | None) -> bool:
    """Return whether a node with these labels can use a volume; fields are ignored."""
    return affinity is None or compile_selector(affinity).matches(labels, "")


def rows_allowed_by(nodes: NodeTable, storage_class: StorageClass) -> Mask:
    """Return for which rows the class's allowed topologies permit provisioning."""
    if not storage_class.allowed_topologies:
        return np.ones(nodes.capacity, np.bool_)
    mask = np.zeros(nodes.capacity, np.bool_)
    for term in storage_class.allowed_topologies:
        if term.match_label_expressions:
            wanted = conjunction(
                LabelRequirement(r.key, label_selection.IN, tuple(sorted(set(r.values))))
                for r in term.match_label_expressions
            )
            mask |= selected(nodes, wanted, slice(0, nodes.capacity))
    return mask


def rows_with_capacity(
    nodes: NodeTable, capacities: Iterable[CSIStorageCapacity], size: int
) -> Mask:
    """Return which rows can get a new volume of ``size`` bytes from one of the capacities."""
    mask = np.zeros(nodes.capacity, np.bool_)
    for capacity in capacities:
        if capacity.max_volume_size is not None and capacity.max_volume_size >= size:
            wanted = _topology(capacity.node_topology)
            mask |= selected(nodes, wanted, slice(0, nodes.capacity))
    return mask


def _topology(selector: LabelSelector | None) -> Selector:
    try:
        return from_selector(selector)
    except (BadRequest, Invalid):
        return NOTHING
