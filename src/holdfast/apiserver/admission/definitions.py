"""Check a CustomResourceDefinition and say at once that it is established."""

from __future__ import annotations

from typing import Any

from holdfast.api import causes
from holdfast.api.timestamps import rfc3339
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.structural import Schema
from holdfast.errors import Cause, FieldErrors, Invalid

Object = dict[str, Any]
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def admit_definition(definition: Object, now: float) -> None:
    """Complete a new definition: names, clean-up finalizer, conditions, stored versions."""
    spec = definition.get("spec") or {}
    _complete_names(spec)
    if check_definition(definition):
        return  # validation will refuse it, with every field named
    meta = definition["metadata"]
    meta["finalizers"] = [*(meta.get("finalizers") or []), CLEANUP]
    storage = [v["name"] for v in spec["versions"] if v.get("storage")]
    definition["status"] = {
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted",
                       "the initial names have been accepted", now),
        ],
        "acceptedNames": spec["names"],
        "storedVersions": storage,
    }  # fmt: skip


def unbuilt_rules(definition: Object) -> list[str]:
    """Say which CEL rules of a definition's schemas are not evaluated here, and why."""
    return [
        f"spec.versions[{i}].schema.openAPIV3Schema.{words}"
        for i, version in enumerate((definition.get("spec") or {}).get("versions") or ())
        for words in Schema.compile(version["schema"]["openAPIV3Schema"]).unbuilt_rules
    ]


def check_place(op: Operation, definition: Object) -> None:
    """Refuse a definition that would stand in the place of what the server itself serves."""
    spec = definition.get("spec") or {}
    group, plural = spec.get("group") or "", (spec.get("names") or {}).get("plural")
    found = []
    if group and "." not in group:
        found.append(
            causes.invalid("spec.group", group, "should be a domain with at least one dot")
        )
    if any(
        served.custom is None and (served.resource.group, served.resource.plural) == (group, plural)
        for served in op.context.registry
    ):
        words = "is a built-in resource of this server"
        found.append(causes.invalid("spec.names.plural", plural, words))
    name = definition["metadata"].get("name", "")
    FieldErrors(found).raise_if_any(op.served.resource.kind, name, op.served.resource.group)


def _complete_names(spec: Object) -> None:
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _condition(kind: str, reason: str, message: str, now: float) -> Object:
    return {
        "type": kind, "status": "True", "lastTransitionTime": rfc3339(now), "reason": reason,
        "message": message,
    }  # fmt: skip


def check_definition(definition: Object) -> list[Cause]:
    """List what is wrong with a definition."""
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return [causes.required("spec")]
    found = [causes.required(f"spec.{part}") for part in ("group", "names", "scope", "versions")
             if not spec.get(part)]  # fmt: skip
    if found:
        return found
    names = spec["names"]
    found = [causes.required(f"spec.names.{part}") for part in ("kind", "plural")
             if not names.get(part)]  # fmt: skip
    if found:
        return found
    if definition["metadata"].get("name") != f"{names['plural']}.{spec['group']}":
        words = 'must be spec.names.plural+"."+spec.group'
        found.append(causes.invalid("metadata.name", definition["metadata"].get("name"), words))
    if spec["scope"] not in ("Namespaced", "Cluster"):
        allowed = ("Cluster", "Namespaced")
        found.append(causes.not_supported("spec.scope", spec["scope"], allowed))
    return found + _check_versions(spec["versions"])


def _check_versions(versions: list[Object]) -> list[Cause]:
    found = []
    if sum(1 for v in versions if v.get("storage")) != 1:
        words = "must have exactly one version marked as storage version"
        found.append(causes.invalid("spec.versions", [v.get("name") for v in versions], words))
    for i, version in enumerate(versions):
        at = f"spec.versions[{i}]"
        if not version.get("name"):
            found.append(causes.required(f"{at}.name"))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            words = "schemas are required"
            found.append(causes.required(f"{at}.schema.openAPIV3Schema", words))
            continue
        try:
            Schema.compile(schema)
        except Invalid as wrong:
            prefix = f"{at}.schema.openAPIV3Schema"
            listed = wrong.details.causes or (Cause("", wrong.message),)
            found += [Cause(f"{prefix}{_under(c.field)}", c.message, c.reason) for c in listed]
    return found


def _under(field: str) -> str:
    return f".{field}" if field and not field.startswith("[") else field
