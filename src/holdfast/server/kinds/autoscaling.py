"""The kind of ``autoscaling``: HorizontalPodAutoscaler."""

from __future__ import annotations

from holdfast.server.descriptor import KindDescriptor, untyped_resource
from holdfast.server.kinds.printers import workloads
from holdfast.server.unimplemented_features import UnimplementedFeatures

_AUTOSCALERS = untyped_resource(
    "autoscaling",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    version="v2",
    short=("hpa",),
    categories=("all",),
    parts=("status",),
)
KINDS = (
    KindDescriptor(
        _AUTOSCALERS,
        printer=workloads.AUTOSCALER,
        unimplemented=UnimplementedFeatures(
            "HorizontalPodAutoscalers are stored but scale nothing: Holdfast has no autoscaler and "
            "no metrics of pods"
        ),
    ),
)
