"""The kinds of ``resource.k8s.io``: devices, and claims to them."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Deletion, Served, selectable
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
from holdfast.apiserver.unbuilt import Field, Unbuilt
from holdfast.validation import list_limits
from holdfast.validation.counting import tree_of


def _claim(obj: Obj, now: float) -> TableCells:
    return [name(obj), _state(obj), age(obj, now)]


def _state(obj: Obj) -> str:
    deleted = bool(meta(obj).get("deletionTimestamp"))
    words = ["deleted"] if deleted else []
    if part(obj, "status").get("allocation") is not None:
        words.append("allocated")
        if items(obj, "status", "reservedFor"):
            words.append("reserved")
    elif not deleted:
        words.append("pending")
    return ",".join(words)


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
_ANSWERED = Deletion(answers_object=True)
_BINDING_CONDITIONS = Field(
    ("spec", "devices", "[]", "bindingConditions"),
    "Devices with binding conditions are not allocated",
)

KINDS = (
    Served(
        scheme.DEVICE_CLASSES,
        lists=tree_of(list_limits.DEVICE_CLASS),
        deletion=_ANSWERED,
        counts_generations=True,
    ),
    Served(
        scheme.RESOURCE_CLAIMS,
        lists=tree_of(list_limits.RESOURCE_CLAIM),
        immutable=("spec",),
        printer=_CLAIM,
        deletion=_ANSWERED,
    ),
    Served(
        scheme.RESOURCE_CLAIM_TEMPLATES,
        lists=tree_of(list_limits.RESOURCE_CLAIM_TEMPLATE),
        immutable=("spec",),
        deletion=_ANSWERED,
    ),
    Served(
        scheme.RESOURCE_SLICES,
        lists=tree_of(list_limits.RESOURCE_SLICE),
        printer=_SLICE,
        selectable=selectable("spec.driver", "spec.nodeName"),
        deletion=_ANSWERED,
        counts_generations=True,
        unbuilt=Unbuilt(fields=(_BINDING_CONDITIONS,)),
    ),
)
