"""The kind ResourcePolicy of ``scheduling.sigs.x-k8s.io``: limits and features without effect."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.unimplemented_features import UnimplementedFeatures, UnimplementedField
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

_UNIMPLEMENTED = (
    UnimplementedField(
        ("spec", "matchPolicy", "ignorePreviousPod"),
        "ignorePreviousPod is not read: pods bound before the policy are counted",
    ),
    UnimplementedField(
        ("spec", "preemptPolicy"),
        "preemptPolicy is not read: preemption is tried after all units",
        ("BeforeNextUnit",),
    ),
    UnimplementedField(
        ("spec", "whenTryNextUnits", "policy"),
        "whenTryNextUnits is not read: the next unit is tried when the pod fits on no node of a "
        "unit",
        ("ExceedMax", "TimeoutOrExceedMax", "LackResourceAndNoTerminating"),
    ),
    UnimplementedField(
        ("spec", "units", "[]", "maxResources"),
        "maxResources is not read: only maxCount limits a unit",
    ),
    UnimplementedField(
        ("spec", "units", "[]", "podAnnotations"), "podAnnotations are not written on pods"
    ),
    UnimplementedField(("spec", "units", "[]", "podLabels"), "podLabels are not written on pods"),
)

KINDS = (
    KindDescriptor(
        scheme.RESOURCE_POLICIES,
        list_limits=tree_of(list_limits.RESOURCE_POLICY),
        unimplemented=UnimplementedFeatures(fields=_UNIMPLEMENTED),
    ),
)
