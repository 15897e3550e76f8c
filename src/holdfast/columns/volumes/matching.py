"""Which volume a claim may take, and from which nodes a volume can be reached."""

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
from holdfast.columns.node_rows import Rows
from holdfast.columns.node_table import NodeTable
from holdfast.columns.selection import selected, terms_selected
from holdfast.errors import BadRequest, Invalid

Mask = NDArray[np.bool_]
_FILESYSTEM = "Filesystem"


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume is kept for a claim, by a user or by a binding under way."""
    kept = volume.spec.claim_ref
    if kept is None or (kept.namespace, kept.name) != (claim.namespace, claim.name):
        return False
    return not kept.uid or kept.uid == claim.uid


def could_serve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume is large enough, of the right mode and not somebody else's."""
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
    """Find the volume kept for a claim, if any, and the free ones it may take, smallest first.

    Where they can be reached is not looked at. Raises BadRequest or Invalid if the claim's
    selector is none.
    """
    serving = [volume for volume in volumes if could_serve(volume, claim)]
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


class Reach:
    """Which rows reach a volume, by its node affinity; remembered until a node changes."""

    __slots__ = ("_known", "_nodes", "_seq")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._seq = -1
        self._known: dict[NodeSelector | None, Rows] = {}

    def rows(self, affinity: NodeSelector | None) -> Rows:
        """Rows that reach it, ascending. Not to be written to."""
        seq = self._nodes.node_journal.seq
        if self._seq != seq:
            self._seq = seq
            self._known = {}
        found = self._known.get(affinity)
        if found is None:
            found = self._known[affinity] = self._work_out(affinity)
        return found

    def mask(self, affinity: NodeSelector | None) -> Mask:
        """The same as a mask over all rows."""
        mask = np.zeros(self._nodes.capacity, np.bool_)
        mask[self.rows(affinity)] = True
        return mask

    def _work_out(self, affinity: NodeSelector | None) -> Rows:
        nodes = self._nodes
        if affinity is None:
            return nodes.rows
        some = slice(0, nodes.size)
        mask = terms_selected(nodes, compile_selector(affinity), some, by_labels_alone=True)
        rows: Rows = (mask & nodes.alive[some]).nonzero()[0]
        return rows


def reaches(labels: Mapping[str, str], affinity: NodeSelector | None) -> bool:
    """Tell whether a node with these labels reaches a volume; its fields are not looked at."""
    return affinity is None or compile_selector(affinity).matches(labels, "")


def allowed(nodes: NodeTable, storage_class: StorageClass) -> Mask:
    """Tell for which rows the class allows volumes to be provisioned."""
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


def roomy(nodes: NodeTable, capacities: Iterable[CSIStorageCapacity], size: int) -> Mask:
    """Tell which rows can get a new volume of ``size`` bytes from one of the capacities."""
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
