"""The state of a pod that requests devices."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api import koordinator_names as names
from holdfast.api.pod import Pod
from holdfast.columns.interner import PODS, ResourceNames
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.device_share.ledger import DeviceShareLedger
from holdfast.device_share.requests import device_resources
from holdfast.framework.plugin import PodChange
from holdfast.plugins.device_share.searches import Found, Searches

_GUIDING = (names.DEVICE_ALLOCATE_HINT, names.DEVICE_JOINT_ALLOCATE, names.GPU_PARTITION_SPEC)
"""Annotations that guide the choice of devices."""


def asks_for_devices(pod: PodInfo, resources: ResourceNames) -> bool:
    """Return whether a pod requests any resource of devices; cheap for pods that do not."""
    request = pod.request
    if not request or request[-1][0] <= PODS:
        return False
    return bool(device_resources([resources[id_] for id_, _ in request]))


def guiding_metadata(pod: Pod) -> tuple[str | None, ...]:
    """Return the annotations and the label that decide which devices a pod gets."""
    annotations = pod.metadata.annotations
    provider = pod.metadata.labels.get(names.GPU_ISOLATION_PROVIDER)
    if not annotations:
        return (provider,)
    return (provider, *[annotations.get(key) for key in _GUIDING])


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """What a pod asks, and the searches for it."""

    nodes: NodeTable
    ledger: DeviceShareLedger
    searches: Searches

    def at(self, row: int) -> Found:
        """Return the result for a row."""
        return self.searches.of(self.ledger.signature(row))

    def changed(self, row: int, change: PodChange) -> Found:
        """Return the result for a row after a change of its pods."""
        if not change or (row not in change.added and row not in change.removed):
            return self.at(row)
        node = self.nodes.names[row]
        gone = {pod.uid for pod in change.removed.get(row, ())}
        signature = self.ledger.signature_of(node, gone=gone)
        return self.searches.of(signature)
