"""Printers of volumes, claims, storage classes, attachments and CSI kinds."""

from __future__ import annotations

from holdfast.api.storage import BETA_CLASS
from holdfast.server.tables.printer import (
    NONE,
    UNSET,
    Obj,
    Printer,
    TableCells,
    age,
    columns,
    items,
    meta,
    name,
    or_else,
    part,
)

_MODES = (
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
)
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _modes(modes: list[str]) -> str:
    return ",".join(short for long, short in _MODES if long in modes)


def _class(obj: Obj) -> str:
    annotations = meta(obj).get("annotations") or {}
    return str(annotations.get(BETA_CLASS, part(obj, "spec").get("storageClassName") or ""))


def _phase(obj: Obj) -> str:
    if meta(obj).get("deletionTimestamp"):
        return "Terminating"
    return str(part(obj, "status").get("phase", ""))


def _volume(obj: Obj, now: float) -> TableCells:
    spec, claim = part(obj, "spec"), part(obj, "spec", "claimRef")
    return [
        name(obj),
        str(part(spec, "capacity").get("storage", "0")),
        _modes(items(spec, "accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(obj),
        or_else(spec.get("volumeAttributesClassName"), UNSET),
        part(obj, "status").get("reason", ""),
        age(obj, now),
        or_else(spec.get("volumeMode"), UNSET),
    ]


def _claim(obj: Obj, now: float) -> TableCells:
    spec, status = part(obj, "spec"), part(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        str(part(status, "capacity").get("storage", "0")) if bound else "",
        _modes(items(status, "accessModes")) if bound else "",
        _class(obj),
        or_else(spec.get("volumeAttributesClassName"), UNSET),
        age(obj, now),
        or_else(spec.get("volumeMode"), UNSET),
    ]


def _storage_class(obj: Obj, now: float) -> TableCells:
    annotations = meta(obj).get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        f"{name(obj)} (default)" if default else name(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _attributes_class(obj: Obj, now: float) -> TableCells:
    return [name(obj), obj.get("driverName", ""), age(obj, now)]


def _attachment(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    return [
        name(obj),
        spec.get("attacher", ""),
        part(spec, "source").get("persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool(part(obj, "status").get("attached")),
        age(obj, now),
    ]


def _csi_node(obj: Obj, now: float) -> TableCells:
    return [name(obj), len(items(obj, "spec", "drivers")), age(obj, now)]


def _csi_driver(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    requests = spec.get("tokenRequests")
    attach = spec.get("attachRequired")
    return [
        name(obj),
        True if attach is None else attach,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if requests is None else ",".join(r.get("audience", "") for r in requests),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


PERSISTENT_VOLUME = Printer(
    columns(
        "Name",
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
        "+VolumeMode",
    ),
    _volume,
)
PERSISTENT_VOLUME_CLAIM = Printer(
    columns(
        "Name",
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        "+VolumeMode",
    ),
    _claim,
)
STORAGE_CLASS = Printer(
    columns(
        "Name",
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion",
        "Age",
    ),
    _storage_class,
)
VOLUME_ATTRIBUTES_CLASS = Printer(columns("Name", "DriverName", "Age"), _attributes_class)
VOLUME_ATTACHMENT = Printer(
    columns("Name", "Attacher", "PV", "Node", "Attached:boolean", "Age"), _attachment
)
CSI_NODE = Printer(columns("Name", "Drivers:integer", "Age"), _csi_node)
CSI_DRIVER = Printer(
    columns(
        "Name",
        "AttachRequired:boolean",
        "PodInfoOnMount:boolean",
        "StorageCapacity:boolean",
        "TokenRequests",
        "RequiresRepublish:boolean",
        "Modes",
        "Age",
    ),
    _csi_driver,
)
