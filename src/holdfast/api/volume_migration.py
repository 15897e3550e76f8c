"""Node affinity of former in-tree volumes that a CSI driver serves.

Such a volume names its zone by Kubernetes' zone labels; the driver has its own topology label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from holdfast.api.meta import Requirement
from holdfast.api.pod import NodeSelector, NodeSelectorTerm
from holdfast.api.storage import PersistentVolume
from holdfast.api.volume_sources import CINDER, EBS, GCE_PD, ZONE_SEPARATOR, DiskSources

ZONE_KEY_OF = {
    EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
"""The zone label of the CSI driver that replaces each in-tree plugin."""
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"


def zoned_plugin(sources: DiskSources) -> str | None:
    """Return the in-tree plugin of a volume whose driver has its own zone label, or None."""
    if sources.gce_persistent_disk is not None:
        return GCE_PD
    if sources.aws_elastic_block_store is not None:
        return EBS
    return CINDER if sources.cinder is not None else None


def reachable_as_csi(volume: PersistentVolume, plugin: str) -> NodeSelector | None:
    """Return the nodes that can access a volume through its CSI driver; None: all.

    Zones in the volume's node affinity take precedence over those in its labels.
    """
    affinity, own = volume.reachable_from, ZONE_KEY_OF[plugin]
    zone = _zone_label(volume)
    if affinity is not None and _values(affinity, zone):
        affinity = _renamed(affinity, zone, own)
    else:
        texts = volume.metadata.labels.get(zone, "").split(ZONE_SEPARATOR)
        zones = tuple(sorted({text.strip() for text in texts if text.strip()}))
        if zones:
            affinity = _narrowed(affinity, Requirement(key=own, operator="In", values=zones))
    if affinity is not None and zone == BETA_ZONE and _values(affinity, BETA_REGION):
        affinity = _renamed(affinity, BETA_REGION, REGION)
    return affinity


def _zone_label(volume: PersistentVolume) -> str:
    affinity, labels = volume.reachable_from, volume.metadata.labels
    for key in (ZONE, BETA_ZONE):
        if affinity is not None and any(r.key == key for r in _expressions(affinity)):
            return key
    return BETA_ZONE if ZONE not in labels and BETA_ZONE in labels else ZONE


def _expressions(affinity: NodeSelector) -> Iterable[Requirement]:
    return (r for term in affinity.node_selector_terms for r in term.match_expressions)


def _values(affinity: NodeSelector, key: str) -> bool:
    return any(r.key == key and r.values for r in _expressions(affinity))


def _renamed(affinity: NodeSelector, old: str, new: str) -> NodeSelector:
    def rename(requirement: Requirement) -> Requirement:
        return replace(requirement, key=new) if requirement.key == old else requirement

    return _each(affinity, lambda requirements: tuple(map(rename, requirements)))


def _narrowed(affinity: NodeSelector | None, more: Requirement) -> NodeSelector:
    if affinity is None or not affinity.node_selector_terms:
        affinity = NodeSelector(node_selector_terms=(NodeSelectorTerm(),))
    return _each(affinity, lambda requirements: (*requirements, more))


def _each(
    affinity: NodeSelector,
    change: Callable[[tuple[Requirement, ...]], tuple[Requirement, ...]],
) -> NodeSelector:
    terms = tuple(
        replace(term, match_expressions=change(term.match_expressions))
        for term in affinity.node_selector_terms
    )
    return NodeSelector(node_selector_terms=terms)
