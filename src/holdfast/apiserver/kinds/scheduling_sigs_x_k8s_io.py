"""The custom kind of ``scheduling.sigs.x-k8s.io``: what its definition does not say."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.unbuilt import Field, Unbuilt
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of

_UNBUILT = (
    Field(
        ("spec", "matchPolicy", "ignorePreviousPod"),
        "ignorePreviousPod is not read: pods bound before the policy are counted",
    ),
    Field(
        ("spec", "preemptPolicy"),
        "preemptPolicy is not read: preemption is tried after all units",
        ("BeforeNextUnit",),
    ),
    Field(
        ("spec", "whenTryNextUnits", "policy"),
        "whenTryNextUnits is not read: the next unit is tried when a unit has no room",
        ("ExceedMax", "TimeoutOrExceedMax", "LackResourceAndNoTerminating"),
    ),
    Field(
        ("spec", "units", "[]", "maxResources"),
        "maxResources is not read: only maxCount limits a unit",
    ),
    Field(("spec", "units", "[]", "podAnnotations"), "podAnnotations are not written on pods"),
    Field(("spec", "units", "[]", "podLabels"), "podLabels are not written on pods"),
)

KINDS = (
    Served(
        scheme.RESOURCE_POLICIES,
        lists=tree_of(list_limits.RESOURCE_POLICY),
        unbuilt=Unbuilt(fields=_UNBUILT),
    ),
)
