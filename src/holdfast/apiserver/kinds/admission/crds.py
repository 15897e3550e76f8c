"""Complete a CustomResourceDefinition, and keep in its status whether it is served."""

from __future__ import annotations

from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject
from holdfast.api.timestamps import rfc3339
from holdfast.apiserver.kinds.validation.crds import SCHEMA, check_definition, is_established
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.structural import StructuralSchema
from holdfast.errors import Cause, FieldErrors

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer under which the objects of a definition that is being deleted are deleted."""


def admit_definition(op: Operation, definition: JsonObject, old: JsonObject | None) -> None:
    """Complete a definition: conditions and stored versions."""
    if old is None:
        check_not_built_in(op, definition)
    else:
        _keep_finalizer(definition, old)
        if op.descriptor.storage_schema.is_unchanged(definition, old):
            return
    if not check_definition(definition):  # else validation refuses it and names every field
        establish(definition, op.context.clock.now())


def _keep_finalizer(definition: JsonObject, old: JsonObject) -> None:
    """Put the clean-up finalizer back: only the server takes it away."""
    meta = definition["metadata"]
    if meta.get("deletionTimestamp") and CLEANUP_FINALIZER in (
        old["metadata"].get("finalizers") or ()
    ):
        kept = meta.get("finalizers") or []
        meta["finalizers"] = kept if CLEANUP_FINALIZER in kept else [*kept, CLEANUP_FINALIZER]


def establish(definition: JsonObject, now: float) -> None:
    """Say in the status of a definition without mistakes that its resource is served."""
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
    """Say in the status of a stored definition why it is not served; tells if that is new."""
    words = "; ".join(map(str, problems))
    wanted = [condition("Established", "False", "InvalidDefinition", words, now)]
    broken = [c for c in problems if SCHEMA in c.field]
    if broken:
        words = "; ".join(map(str, broken))
        wanted.append(condition("NonStructuralSchema", "True", "Violations", words, now))
    status = definition.get("status")
    status = definition["status"] = dict(status) if isinstance(status, dict) else {}
    before = _said(status)
    set_conditions(status, wanted)
    return _said(status) != before


def _said(status: JsonObject) -> list[tuple[Any, ...]]:
    listed = status.get("conditions")
    return [
        tuple(one.get(part) for part in ("type", "status", "message"))
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    ]


def set_conditions(status: JsonObject, wanted: list[JsonObject]) -> None:
    """Put conditions in the place of those of the same type.

    A schema that is structural again loses the condition that says otherwise.
    """
    listed = status.get("conditions")
    replaced = {one["type"] for one in wanted} | {"NonStructuralSchema"}
    kept = [one for one in (listed if isinstance(listed, list) else ())
            if isinstance(one, dict) and one.get("type") not in replaced]  # fmt: skip
    status["conditions"] = [*kept, *wanted]


def condition(kind: str, status: str, reason: str, message: str, now: float) -> JsonObject:
    """Write one condition of a definition."""
    return {
        "type": kind, "status": status, "lastTransitionTime": rfc3339(now), "reason": reason,
        "message": message[:32768],
    }  # fmt: skip


def warn_of_unevaluated_rules(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Warn the client of rules in a new or changed definition that are not evaluated."""
    if old is None or not op.descriptor.storage_schema.is_unchanged(new, old):
        op.warnings.extend(unevaluated_rules(new))


def unevaluated_rules(definition: JsonObject) -> list[str]:
    """Say which CEL rules of a definition's schemas are not evaluated here, and why."""
    return [
        f"spec.versions[{i}].schema.openAPIV3Schema.{words}"
        for i, version in enumerate((definition.get("spec") or {}).get("versions") or ())
        for words in StructuralSchema.compile(
            version["schema"]["openAPIV3Schema"]
        ).unevaluated_rules
    ]


def check_not_built_in(op: Operation, definition: JsonObject) -> None:
    """Refuse a definition that would stand in the place of what the server itself serves."""
    spec = definition.get("spec") or {}
    group, plural = spec.get("group") or "", (spec.get("names") or {}).get("plural")
    found = FieldErrors()
    if any(
        not descriptor.crd_name
        and (descriptor.resource.group, descriptor.resource.plural) == (group, plural)
        for descriptor in op.context.registry
    ):
        words = "is a built-in resource of this server"
        found = FieldErrors([field_errors.invalid("spec.names.plural", plural, words)])
    name = definition["metadata"].get("name", "")
    found.raise_if_any(op.descriptor.resource.kind, name, op.descriptor.resource.group)
