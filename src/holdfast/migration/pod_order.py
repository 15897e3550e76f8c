"""The order in which pods migrate."""

from __future__ import annotations

import msgspec

from holdfast.api.defaults.pods import qos_class as kubernetes_qos_class
from holdfast.api.deletion_cost import parse_deletion_cost
from holdfast.api.koordinator_qos import (
    BATCH,
    BE,
    FREE,
    LS,
    LSE,
    LSR,
    MID,
    PROD,
    SYSTEM,
    priority_class,
    qos_class,
)
from holdfast.api.pod import Pod
from holdfast.api.timestamps import seconds_of
from holdfast.migration.pod_filters import eviction_cost

_PRIORITY_CLASSES = {FREE: 1, BATCH: 2, MID: 3, PROD: 4, "": 5}
_KUBERNETES_QOS = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
_QOS = {BE: 1, LS: 2, LSR: 3, LSE: 4, SYSTEM: 4, "": 5}
_DEFAULT_QOS = {"BestEffort": BE, "Burstable": LS, "Guaranteed": LSR}


def pod_rank(pod: Pod) -> tuple[float, ...]:
    """Return what is compared of pods; the lower one migrates first."""
    spec, labels = pod.spec, pod.metadata.labels
    kubernetes = kubernetes_qos_class(msgspec.json.decode(msgspec.json.encode(spec)))
    priority = priority_class(labels, spec.priority, kubernetes)
    return (
        _PRIORITY_CLASSES[priority],
        spec.priority or 0,
        _KUBERNETES_QOS[kubernetes],
        _QOS[qos_class(labels) or _DEFAULT_QOS[kubernetes]],
        parse_deletion_cost(pod.metadata.annotations) or 0,
        eviction_cost(pod),
        -(seconds_of(pod.metadata.creation_timestamp) or 0.0),
    )
