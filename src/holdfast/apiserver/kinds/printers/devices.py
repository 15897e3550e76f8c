"""Devices: claims, slices, classes and taints of ``resource.k8s.io``."""

from __future__ import annotations

from holdfast.apiserver.tables.printer import (
    Cells,
    Obj,
    Printer,
    age,
    columns,
    items,
    meta,
    name,
    part,
)


def _claim(obj: Obj, now: float) -> Cells:
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


def _slice(obj: Obj, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        name(obj),
        spec.get("nodeName") or "",
        spec.get("driver", ""),
        part(spec, "pool").get("name", ""),
        age(obj, now),
    ]


RESOURCE_CLAIM = Printer(columns("Name", "State", "Age"), _claim)
RESOURCE_SLICE = Printer(columns("Name", "Node", "Driver", "Pool", "Age"), _slice)
