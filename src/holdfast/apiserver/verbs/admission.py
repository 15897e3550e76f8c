"""The order in which a write is completed and checked."""

from __future__ import annotations

from typing import Any

from holdfast.api.defaults import default_object
from holdfast.apiserver.kinds.admission import escalation
from holdfast.apiserver.kinds.admission.definitions import (
    admit_definition,
    check_place,
    readmit_definition,
    unbuilt_rules,
)
from holdfast.apiserver.kinds.admission.pods import admit_pod, readmit_pod
from holdfast.apiserver.kinds.admission.priority_classes import ID as PRIORITY_CLASSES
from holdfast.apiserver.kinds.admission.priority_classes import check_only_default
from holdfast.apiserver.kinds.admission.reservations import ID as RESERVATIONS
from holdfast.apiserver.kinds.admission.reservations import advice
from holdfast.apiserver.kinds.unbuilt_warnings import unbuilt_warnings
from holdfast.apiserver.kinds.validation.definitions import ID as DEFINITIONS
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs import validation
from holdfast.apiserver.verbs.metadata import same_after_defaulting, stamp

Object = dict[str, Any]
GRANTING = escalation.ROLES | escalation.BINDINGS


def complete(op: Operation, obj: Object) -> Object:
    """Fill in what the kind's defaults or the custom resource's schema say."""
    custom = op.served.custom
    if custom is not None:
        return custom.schema.default(obj)
    default_object(obj, stamp(op.context.clock.now()))
    return obj


def admit_new(op: Operation, obj: Object) -> Object:
    """Complete a new object, let admission change it, refuse it if it is wrong."""
    obj = complete(op, obj)
    if op.served.id == ("", "pods"):
        admit_pod(op, obj)
    elif op.served.id == ("", "namespaces"):
        admit_namespace(obj)
    elif op.served.id == DEFINITIONS:
        check_place(op, obj)
        admit_definition(obj, op.context.clock.now())
    elif op.served.id == PRIORITY_CLASSES:
        check_only_default(op, obj)
    validation.check_new(op, obj)
    if op.served.id in GRANTING:
        escalation.check_grants(op, obj)
    if op.served.id == DEFINITIONS:
        op.warnings.extend(unbuilt_rules(obj))
    if op.served.id == RESERVATIONS:
        op.warnings.extend(advice(obj))
    op.warnings.extend(unbuilt_warnings(op, obj))
    return obj


def admit_namespace(obj: Object) -> None:
    """Give a new namespace its finalizer, phase and name label."""
    meta = obj["metadata"]
    name = meta.get("name", "")
    meta["labels"] = (meta.get("labels") or {}) | {"kubernetes.io/metadata.name": name}
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def admit_changed(op: Operation, new: Object, old: Object) -> Object:
    """Complete a changed object and refuse it if it is wrong."""
    new = complete(op, new)
    if op.served.id == ("", "pods") and not op.call.subresource:
        readmit_pod(new, old)
    if op.served.id == DEFINITIONS:
        readmit_definition(new, old, op.context.clock.now())
    if op.served.id == PRIORITY_CLASSES:
        check_only_default(op, new)
    validation.check_changed(op, new, old)
    if op.served.id in GRANTING:
        escalation.check_grants(op, new, old)
    if op.served.id == DEFINITIONS and not same_after_defaulting(new, old):
        op.warnings.extend(unbuilt_rules(new))
    if op.served.id == RESERVATIONS and not op.call.subresource:
        op.warnings.extend(advice(new, old))
    op.warnings.extend(unbuilt_warnings(op, new, old))
    return new
