"""Which events may make a pod schedulable that was rejected because of CPUs or NUMA nodes."""

from __future__ import annotations

from holdfast.api.koordinator_names import (
    DEVICE_ALLOCATED,
    NUMA_TOPOLOGY_SPEC,
    QOS_CLASS,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from holdfast.api.pod import Pod
from holdfast.api.requests import request_nanos
from holdfast.api.resource_names import is_extended
from holdfast.errors import HoldfastError

_ALLOCATED = (RESOURCE_STATUS, DEVICE_ALLOCATED)
"""Annotations that say what a pod is allocated of NUMA nodes: CPUs and amounts, or devices."""
_ASKED = (RESOURCE_SPEC, NUMA_TOPOLOGY_SPEC)


def may_have_held(pod: Pod) -> bool:
    """Return whether a deleted pod may have had CPUs, amounts of NUMA nodes, or devices.

    One that was being bound has no annotations yet that say so: then it is what it asked for.
    """
    meta = pod.metadata
    if any(meta.annotations.get(key) for key in (*_ALLOCATED, *_ASKED)):
        return True
    if meta.labels.get(QOS_CLASS):
        return True
    try:
        return any(map(is_extended, request_nanos(pod)))
    except HoldfastError:
        return True
