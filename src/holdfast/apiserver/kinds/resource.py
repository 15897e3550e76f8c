"""The kinds of ``resource.k8s.io``: ResourceClaims, ResourceSlices, DeviceClasses."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import DeletionStrategy, KindDescriptor, selectable_fields
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

KINDS = (
    KindDescriptor(
        scheme.DEVICE_CLASSES,
        list_limits=tree_of(list_limits.DEVICE_CLASS),
        deletion=_RETURNS_OBJECT,
        has_generation=True,
    ),
    KindDescriptor(
        scheme.RESOURCE_CLAIMS,
        list_limits=tree_of(list_limits.RESOURCE_CLAIM),
        immutable_fields=("spec",),
        printer=_CLAIM,
        deletion=_RETURNS_OBJECT,
    ),
    KindDescriptor(
        scheme.RESOURCE_CLAIM_TEMPLATES,
        list_limits=tree_of(list_limits.RESOURCE_CLAIM_TEMPLATE),
        immutable_fields=("spec",),
        deletion=_RETURNS_OBJECT,
    ),
    KindDescriptor(
        scheme.RESOURCE_SLICES,
        list_limits=tree_of(list_limits.RESOURCE_SLICE),
        printer=_SLICE,
        selectable_fields=selectable_fields("spec.driver", "spec.nodeName"),
        deletion=_RETURNS_OBJECT,
        has_generation=True,
        unimplemented=UnimplementedFeatures(fields=(_BINDING_CONDITIONS,)),
    ),
)
