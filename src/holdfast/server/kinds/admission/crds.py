"""Admission of CustomResourceDefinitions: the status, the finalizer, warnings."""

from __future__ import annotations

from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject
from holdfast.api.timestamps import rfc3339
from holdfast.runtime.errors import Cause, FieldErrors
from holdfast.server.kinds.validation.crds import SCHEMA, check_definition, is_established
from holdfast.server.operation import Operation

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a CRD until its objects are deleted."""


def admit_definition(op: Operation, definition: JsonObject, old: JsonObject | None) -> None:
    """Set the conditions and stored versions of a CRD."""
    if old is None:
        check_not_built_in(op, definition)
    else:
        _keep_finalizer(definition, old)
        if op.descriptor.storage_schema.is_unchanged(definition, old):
            return
    if not check_definition(definition, old):  # otherwise validation rejects it
        establish(definition, op.context.clock.now())


def _keep_finalizer(definition: JsonObject, old: JsonObject) -> None:
    """Restore the clean-up finalizer, which only the server may remove."""
    meta = definition["metadata"]
    if meta.get("deletionTimestamp") and CLEANUP_FINALIZER in (
        old["metadata"].get("finalizers") or ()
    ):
        kept = meta.get("finalizers") or []
        meta["finalizers"] = kept if CLEANUP_FINALIZER in kept else [*kept, CLEANUP_FINALIZER]


def establish(definition: JsonObject, now: float) -> None:
    """Set the conditions NamesAccepted and Established of a valid CRD."""
    spec = definition["spec"]
    status = definition["status"] = dict(definition.get("status") or {})
    if not is_established(definition):
        set_conditions(status, [
            condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
            condition("Established", "True", "InitialNamesAccepted",
                      "the initial names have been accepted", now),
        ])  # fmt: skip
    status["acceptedNames"] = spec["names"]
    stored = status.get("storedVersions") or []
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    status["storedVersions"] = stored if storage in stored else [*stored, storage]


def mark_unserved(definition: JsonObject, problems: list[Cause], now: float) -> bool:
    """Set the conditions of a CRD that cannot be served; return whether they changed."""
    message = "; ".join(map(str, problems))
    conditions = [condition("Established", "False", "InvalidDefinition", message, now)]
    schema_problems = [c for c in problems if SCHEMA in c.field]
    if schema_problems:
        message = "; ".join(map(str, schema_problems))
        conditions.append(condition("NonStructuralSchema", "True", "Violations", message, now))
    status = definition.get("status")
    status = definition["status"] = dict(status) if isinstance(status, dict) else {}
    before = _condition_tuples(status)
    set_conditions(status, conditions)
    return _condition_tuples(status) != before


def _condition_tuples(status: JsonObject) -> list[tuple[Any, ...]]:
    listed = status.get("conditions")
    return [
        tuple(one.get(part) for part in ("type", "status", "message"))
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    ]


def set_conditions(status: JsonObject, conditions: list[JsonObject]) -> None:
    """Replace the conditions of the same types.

    The condition NonStructuralSchema is removed unless it is among the new ones.
    """
    listed = status.get("conditions")
    replaced = {one["type"] for one in conditions} | {"NonStructuralSchema"}
    kept = [one for one in (listed if isinstance(listed, list) else ())
            if isinstance(one, dict) and one.get("type") not in replaced]  # fmt: skip
    status["conditions"] = [*kept, *conditions]


def condition(kind: str, status: str, reason: str, message: str, now: float) -> JsonObject:
    """Return a condition of a CRD."""
    return {
        "type": kind, "status": status, "lastTransitionTime": rfc3339(now), "reason": reason,
        "message": message[:32768],
    }  # fmt: skip


def check_not_built_in(op: Operation, definition: JsonObject) -> None:
    """Raise Invalid for a CRD with the name of a built-in resource."""
    spec = definition.get("spec") or {}
    group, plural = spec.get("group") or "", (spec.get("names") or {}).get("plural")
    errors = FieldErrors()
    if any(
        not descriptor.crd_name
        and (descriptor.resource.group, descriptor.resource.plural) == (group, plural)
        for descriptor in op.context.registry
    ):
        message = "is a built-in resource of this server"
        errors = FieldErrors([field_errors.invalid("spec.names.plural", plural, message)])
    name = definition["metadata"].get("name", "")
    errors.raise_if_any(op.descriptor.resource.kind, name, op.descriptor.resource.group)
