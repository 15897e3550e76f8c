"""Which volume a claim may take, and from which nodes a volume can be reached."""

from __future__ import annotations

from collections.abc import Iterable

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
from holdfast.columns.picture import Picture
from holdfast.columns.selection import selected
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


def reaching(nodes: Picture, affinity: NodeSelector | None) -> Mask:
    """Tell which rows reach a volume of this affinity; fields are not looked at, only labels."""
    everywhere = slice(0, nodes.capacity)
    if affinity is None:
        return np.ones(nodes.capacity, np.bool_)
    mask = np.zeros(nodes.capacity, np.bool_)
    for term in compile_selector(affinity).terms:
        if not term.mistakes:
            mask |= selected(nodes, term.labels, everywhere)
    return mask


def allowed(nodes: Picture, storage_class: StorageClass) -> Mask:
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


def roomy(nodes: Picture, capacities: Iterable[CSIStorageCapacity], size: int) -> Mask:
    """Tell which rows can get a new volume of ``size`` bytes from one of the capacities."""
    mask = np.zeros(nodes.capacity, np.bool_)
    for capacity in capacities:
        if capacity.largest is not None and capacity.largest >= size:
            wanted = _topology(capacity.node_topology)
            mask |= selected(nodes, wanted, slice(0, nodes.capacity))
    return mask


def _topology(selector: LabelSelector | None) -> Selector:
    try:
        return from_selector(selector)
    except (BadRequest, Invalid):
        return NOTHING
