"""The kind of ``autoscaling``: how many pods a workload has."""

from __future__ import annotations

from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.kinds.printers import workloads
from holdfast.apiserver.kinds.rows import row
from holdfast.apiserver.unbuilt import Unbuilt

_AUTOSCALERS = row(
    "autoscaling",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    version="v2",
    short=("hpa",),
    categories=("all",),
    parts=("status",),
)
KINDS = (
    Served(
        _AUTOSCALERS,
        printer=workloads.AUTOSCALER,
        unbuilt=Unbuilt(
            "HorizontalPodAutoscalers are stored but scale nothing: Holdfast has no autoscaler and "
            "no metrics of pods"
        ),
    ),
)
