"""The kinds of ``resource.k8s.io``: ResourceClaims, ResourceSlices, DeviceClasses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from holdfast.api import scheme
from holdfast.apiserver.descriptor import (
    Conversion,
    DeletionStrategy,
    KindDescriptor,
    selectable_fields,
)
from holdfast.apiserver.kinds.admission import gated_fields
from holdfast.apiserver.kinds.resource_versions import (
    CLAIM_V1BETA1,
    SLICE_V1BETA1,
    TEMPLATE_V1BETA1,
)
from holdfast.apiserver.tables.printer import (
    Obj,
    Printer,
    TableCells,
    age,
    columns,
    items,
    meta,
    name,
    part,
)
from holdfast.apiserver.unimplemented_features import UnimplementedFeatures, UnimplementedField
from holdfast.feature_gates import Feature
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of


def _claim(obj: Obj, now: float) -> TableCells:
    return [name(obj), _state(obj), age(obj, now)]


def _state(obj: Obj) -> str:
    deleted = bool(meta(obj).get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if part(obj, "status").get("allocation") is not None:
        states.append("allocated")
        if items(obj, "status", "reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _slice(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    return [
        name(obj),
        spec.get("nodeName") or "",
        spec.get("driver", ""),
        part(spec, "pool").get("name", ""),
        age(obj, now),
    ]


_CLAIM = Printer(columns("Name", "State", "Age"), _claim)
_SLICE = Printer(columns("Name", "Node", "Driver", "Pool", "Age"), _slice)
_RETURNS_OBJECT = DeletionStrategy(returns_object=True)
_BINDING_CONDITIONS = UnimplementedField(
    ("spec", "devices", "[]", "bindingConditions"),
    "Devices with binding conditions are not allocated",
)

_V1 = (
    KindDescriptor(
        scheme.DEVICE_CLASSES,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        admission_plugins=(gated_fields.DEVICE_CLASS,),
        list_limits=tree_of(list_limits.DEVICE_CLASS),
        deletion=_RETURNS_OBJECT,
        has_generation=True,
    ),
    KindDescriptor(
        scheme.RESOURCE_CLAIMS,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        admission_plugins=(gated_fields.RESOURCE_CLAIM,),
        list_limits=tree_of(list_limits.RESOURCE_CLAIM),
        immutable_fields=("spec",),
        printer=_CLAIM,
        deletion=_RETURNS_OBJECT,
    ),
    KindDescriptor(
        scheme.RESOURCE_CLAIM_TEMPLATES,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        admission_plugins=(gated_fields.RESOURCE_CLAIM_TEMPLATE,),
        list_limits=tree_of(list_limits.RESOURCE_CLAIM_TEMPLATE),
        immutable_fields=("spec",),
        deletion=_RETURNS_OBJECT,
    ),
    KindDescriptor(
        scheme.RESOURCE_SLICES,
        feature=Feature.DYNAMIC_RESOURCE_ALLOCATION,
        admission_plugins=(gated_fields.RESOURCE_SLICE,),
        list_limits=tree_of(list_limits.RESOURCE_SLICE),
        printer=_SLICE,
        selectable_fields=selectable_fields("spec.driver", "spec.nodeName"),
        deletion=_RETURNS_OBJECT,
        has_generation=True,
        unimplemented=UnimplementedFeatures(fields=(_BINDING_CONDITIONS,)),
    ),
)


_V1BETA1: dict[str, Conversion] = {
    "resourceclaims": CLAIM_V1BETA1,
    "resourceclaimtemplates": TEMPLATE_V1BETA1,
    "resourceslices": SLICE_V1BETA1,
}
_DEPRECATED = {"v1beta1": ("v1.35+", "v1.38+"), "v1beta2": ("v1.36+", "v1.39+")}
"""Since which release a version is deprecated, and since which it is not served."""


def _in_beta(kind: KindDescriptor) -> Iterator[KindDescriptor]:
    """Return a kind in its beta versions, which are stored as v1."""
    r = kind.resource
    conversions = {"v1beta1": _V1BETA1.get(r.plural), "v1beta2": None}
    for version, conversion in conversions.items():
        since, gone = _DEPRECATED[version]
        beta = kind.in_version(replace(r, version=version), conversion)
        yield replace(
            beta,
            deprecation=f"{r.group}/{version} {r.kind} is deprecated in {since}, unavailable in "
            f"{gone}; use {r.api_version} {r.kind}",
        )


KINDS = (*_V1, *(beta for kind in _V1 for beta in _in_beta(kind)))
