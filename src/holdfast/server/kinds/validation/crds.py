"""Validation of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.api import field_errors, names
from holdfast.api.decode import JsonMapping
from holdfast.runtime.errors import Cause, Invalid
from holdfast.server.schema.structural import StructuralSchema
from holdfast.server.schema.structural.node import SchemaNode

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
SCHEMA = ".schema.openAPIV3Schema"
_MIXED_CASE = "may have mixed case, but should otherwise match: "
_MAX_SELECTABLE_FIELDS = 8
_STILL_STORED = (
    "missing from spec.versions; %s was previously a storage version, and must remain in "
    "spec.versions until a storage migration ensures no data remains persisted in %s and removes "
    "%s from status.storedVersions"
)
_SELECTABLE_TYPES = ("string", "boolean", "integer")


def check_definition(definition: JsonMapping, old: JsonMapping | None = None) -> list[Cause]:
    """Return what is wrong with a CRD whose fields have the right types.

    CEL rules of schemas that are the same in ``old`` are not checked again: limits may have
    changed since.
    """
    spec = definition.get("spec") or {}
    crd_names = spec.get("names") or {}
    return [
        *_check_name(definition["metadata"], spec, crd_names),
        *_check_group(spec.get("group")),
        *_check_choice("spec.scope", spec.get("scope"), ("Cluster", "Namespaced")),
        *_check_versions(spec.get("versions") or (), _schemas(old or {})),
        *_check_names(crd_names),
        *_check_choice("spec.conversion.strategy",
                       (spec.get("conversion") or {}).get("strategy"), ("None", "Webhook")),
    ]  # fmt: skip


def check_definition_write(new: JsonMapping, old: JsonMapping | None) -> Iterator[Cause]:
    """Yield what is wrong with a new or changed CRD."""
    yield from check_definition(new, old)
    if old is not None:
        yield from check_definition_change(new, old)


def check_definition_change(new: JsonMapping, old: JsonMapping) -> Iterator[Cause]:
    """Yield changes of immutable fields, such as the names that stored objects depend on."""
    now, before = new.get("spec") or {}, old.get("spec") or {}
    fixed = ("scope", "names.kind") if is_established(old) else ()
    for path in (*fixed, "group", "names.plural"):
        value = _at(now, path)
        if value != _at(before, path):
            yield field_errors.invalid(f"spec.{path}", value, "field is immutable")
    named = [version.get("name") for version in now.get("versions") or ()]
    for i, version in enumerate((new.get("status") or {}).get("storedVersions") or ()):
        if version not in named:
            yield field_errors.invalid(f"status.storedVersions[{i}]", version, _STILL_STORED % (
                version, version, version))  # fmt: skip


def prevents_serving(cause: Cause) -> bool:
    """Return whether a resource cannot be served because of a problem in its CRD.

    A CRD that an older server accepted is served even if it would be rejected now.
    """
    required_fields = ("metadata.name", "spec.scope", "spec.versions")
    missing = cause.reason == "FieldValueRequired"
    return missing or cause.field in required_fields or SCHEMA in cause.field


def is_established(definition: JsonMapping) -> bool:
    """Return whether the condition Established is True."""
    listed = _at(definition, "status.conditions")
    return isinstance(listed, list) and any(
        isinstance(one, Mapping) and (one.get("type"), one.get("status")) == ("Established", "True")
        for one in listed
    )


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _check_name(meta: JsonMapping, spec: JsonMapping, crd_names: JsonMapping) -> Iterator[Cause]:
    name = meta.get("name")
    if name != f"{crd_names.get('plural') or ''}.{spec.get('group') or ''}":
        yield field_errors.invalid(
            "metadata.name", name, 'must be spec.names.plural+"."+spec.group'
        )


def _check_group(group: Any) -> Iterator[Cause]:
    if not group:
        yield field_errors.required("spec.group")
    elif wrong := names.dns_subdomain(group):
        yield field_errors.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _check_choice(path: str, value: Any, allowed: tuple[str, ...]) -> Iterator[Cause]:
    if not value:
        yield field_errors.required(path)
    elif value not in allowed:
        yield field_errors.not_supported(path, value, allowed)


def _check_names(crd_names: JsonMapping) -> Iterator[Cause]:
    for part in ("plural", "singular", "kind", "listKind"):
        value = crd_names.get(part) or ""
        if not value:
            yield field_errors.required(f"spec.names.{part}")
        elif wrong := names.dns_1035_label(value.lower() if "ind" in part else value):
            prefix = _MIXED_CASE if "ind" in part else ""
            yield field_errors.invalid(f"spec.names.{part}", value, prefix + ",".join(wrong))
    for part in ("shortNames", "categories"):
        for i, value in enumerate(crd_names.get(part) or ()):
            if wrong := names.dns_1035_label(value):
                yield field_errors.invalid(f"spec.names.{part}[{i}]", value, ",".join(wrong))
    if crd_names.get("kind") and crd_names["kind"] == crd_names.get("listKind"):
        message = "kind and listKind may not be the same"
        yield field_errors.invalid("spec.names.listKind", crd_names["listKind"], message)


def _schemas(definition: JsonMapping) -> list[Any]:
    versions = (definition.get("spec") or {}).get("versions") or ()
    return [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]


def _check_versions(versions: Iterable[JsonMapping], known: list[Any]) -> Iterator[Cause]:
    named = [version.get("name") or "" for version in versions]
    for i, version in enumerate(versions):
        at = f"spec.versions[{i}]"
        if wrong := names.dns_1035_label(named[i]):
            yield field_errors.invalid(f"{at}.name", named[i], ",".join(wrong))
        yield from _check_version(version, at, known)
    if len(set(named)) != len(named):
        yield field_errors.invalid("spec.versions", named, "must contain unique version names")
    if sum(1 for version in versions if version.get("storage")) != 1:
        message = "must have exactly one version marked as storage version"
        yield field_errors.invalid("spec.versions", named, message)


def _check_version(version: JsonMapping, at: str, known: list[Any]) -> Iterator[Cause]:
    root = None
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    where = f"{at}{SCHEMA}"
    if schema is None:
        yield field_errors.required(where)
    else:
        try:
            compiled = StructuralSchema.compile(schema)
            causes = [] if schema in known else compiled.rule_problems()
            root = compiled.root
        except Invalid as wrong:
            causes = list(wrong.details.causes) or [Cause("", wrong.message)]
        for cause in causes:
            yield Cause(f"{where}{_under(cause.field)}", cause.message, cause.reason)
    yield from _check_scale((version.get("subresources") or {}).get("scale"), f"{at}.subresources")
    for i, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _check_column(column, f"{at}.additionalPrinterColumns[{i}]")
    yield from _check_selectable(version.get("selectableFields") or (), root, at)


def _under(field: str) -> str:
    return f".{field}" if field and not field.startswith("[") else field


def _check_scale(scale: JsonMapping | None, at: str) -> Iterator[Cause]:
    if scale is None:
        return
    for part, prefixes, message in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        ("labelSelectorPath", (".spec.", ".status."),
         "should be a json path under either .spec or .status"),
    ):  # fmt: skip
        path, value = f"{at}.scale.{part}", scale.get(part) or ""
        if not value:
            if part != "labelSelectorPath":
                yield field_errors.required(path)
        elif not value.startswith("."):
            yield field_errors.invalid(path, value, "must be a simple json path starting with .")
        elif not value.startswith(prefixes):
            yield field_errors.invalid(path, value, message)


def _check_column(column: JsonMapping, at: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield field_errors.required(f"{at}.name")
    kind, format_, path = (column.get(part) or "" for part in ("type", "format", "jsonPath"))
    message = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield field_errors.required(f"{at}.type", message)
    elif kind not in _COLUMN_TYPES:
        yield field_errors.invalid(f"{at}.type", kind, message)
    if format_ and format_ not in _COLUMN_FORMATS:
        message = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield field_errors.invalid(f"{at}.format", format_, message)
    if not path:
        yield field_errors.required(f"{at}.JSONPath")
    elif not path.startswith("."):
        message = "must be a simple json path starting with ."
        yield field_errors.invalid(f"{at}.JSONPath", path, message)


def _check_selectable(
    fields: Iterable[JsonMapping], root: SchemaNode | None, at: str
) -> Iterator[Cause]:
    at = f"{at}.selectableFields"
    seen: set[str] = set()
    for i, one in enumerate(fields):
        where, path = f"{at}[{i}].jsonPath", one.get("jsonPath") or ""
        if not path:
            yield field_errors.required(where)
            continue
        if root is not None and (message := _unselectable(path, root)):
            yield field_errors.invalid(where, path, message)
        elif path in seen:
            yield field_errors.duplicate(where, path)
        seen.add(path)
    if len(seen) > _MAX_SELECTABLE_FIELDS:
        yield field_errors.too_many(at, len(seen), _MAX_SELECTABLE_FIELDS)


def _unselectable(path: str, root: SchemaNode) -> str:
    """Return why a field selector may not use a path, "" if it may."""
    if "[" in path:
        return "is an invalid path: array notation is not allowed"
    head, *parts = path.split(".")
    node: SchemaNode | None = root
    for part in parts:
        node = node.properties.get(part) if node is not None else None
    if head or not parts or (node is None and parts[0] != "metadata"):
        return "is an invalid path: does not refer to a valid field"
    if parts[0] == "metadata":
        return "must not point to fields in metadata"
    if node is None or node.type not in _SELECTABLE_TYPES:
        return ("must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed.")  # fmt: skip
    return ""
