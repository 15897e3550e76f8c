"""Check that a schema is structural, as Kubernetes requires for CRDs, and that its defaults fit it.

In a structural schema every field, item and value has a type, and allOf, anyOf, oneOf and not only
restrict fields that are specified outside of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.api.field_errors import child
from holdfast.api.patterns import PatternError, matcher
from holdfast.runtime.errors import Cause, Details, Invalid, TooLarge
from holdfast.server.schema.structural import messages
from holdfast.server.schema.structural.node import ABSENT, SchemaNode
from holdfast.server.schema.structural.pruning_and_defaulting import apply_defaults, prune
from holdfast.server.schema.structural.value_validation import violations

_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_LOGIC = ("allOf", "anyOf", "oneOf")
_X = "x-kubernetes-"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY, _UNDEFINED = "must be empty to be structural", "must be undefined to be structural"
_NOT_IN_RESTRICTIONS = {
    "type": _EMPTY, "title": _EMPTY, "description": _EMPTY,
    "default": _UNDEFINED, "additionalProperties": _UNDEFINED,
    "nullable": "must be false to be structural",
    f"{_X}preserve-unknown-fields": "must be false to be structural",
    f"{_X}embedded-resource": "must be false to be structural",
    f"{_X}int-or-string": "must be false to be structural",
    f"{_X}list-map-keys": _EMPTY, f"{_X}list-type": _UNDEFINED, f"{_X}map-type": _UNDEFINED,
    f"{_X}validations": _EMPTY,
}  # fmt: skip
_NO_TYPE = {
    "root": "must not be empty at the root",
    "field": "must not be empty for specified object fields",
    "item": "must not be empty for specified array items",
}
_FORBIDDEN = {
    "$ref": "$ref is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "patternProperties": "patternProperties is not supported",
    "additionalItems": "additionalItems is not supported",
    "uniqueItems": "uniqueItems cannot be set to true since the runtime complexity becomes "
    "quadratic",
}

RawSchema = Mapping[str, Any]


def structural_problems(schema: RawSchema) -> list[Cause]:
    """Return what is wrong with a schema, sorted by path."""
    return sorted(_node(schema, "", "root"), key=lambda c: (c.field, c.message))


def _node(schema: Any, path: str, level: str) -> Iterator[Cause]:
    if not isinstance(schema, Mapping):
        yield _invalid(path, schema, "must be a schema")
        return
    if "$ref" not in schema:
        yield from _type(schema, path, level)
    yield from _extensions(schema, path)
    yield from _pattern(schema, path)
    yield from _lists(schema, path)
    yield from _whole_object(schema, path, level)
    yield from _children(schema, path, level)
    for where, nested in _nested(schema, path):
        yield from _restriction(nested, where)


def _type(schema: RawSchema, path: str, level: str) -> Iterator[Cause]:
    kind = schema.get("type", "")
    at = child(path, "type")
    if schema.get(f"{_X}embedded-resource") and kind != "object":
        rule = f"must be object if {_X}embedded-resource is true"
        yield _invalid(at, kind, rule) if kind else _required(at, rule)
    elif not kind:
        if not (schema.get(f"{_X}int-or-string") or schema.get(f"{_X}preserve-unknown-fields")):
            yield _required(at, _NO_TYPE[level])
    elif kind not in _TYPES:
        yield messages.unsupported(at, kind, _TYPES)
    elif level == "root" and kind != "object":
        yield _invalid(at, kind, "must be object at the root")


def _extensions(schema: RawSchema, path: str) -> Iterator[Cause]:
    preserve = f"{_X}preserve-unknown-fields"
    if schema.get(preserve) is False:
        yield _invalid(child(path, preserve), False, "must be true or undefined")
    if schema.get(f"{_X}int-or-string"):
        for name in (preserve, f"{_X}embedded-resource"):
            if schema.get(name):
                rule = f"must be false if {_X}int-or-string is true"
                yield _invalid(child(path, name), True, rule)
    map_type = schema.get(f"{_X}map-type")
    if map_type not in (None, "atomic", "granular"):
        at = child(path, f"{_X}map-type")
        yield messages.unsupported(at, map_type, ["atomic", "granular"])
    for name, rule in _FORBIDDEN.items():
        if schema.get(name):
            yield _forbidden(child(path, name), rule)


def _pattern(schema: RawSchema, path: str) -> Iterator[Cause]:
    pattern = schema.get("pattern")
    if not pattern:
        return
    try:
        matcher(pattern)
    except PatternError as broken:
        rule = f"must be a valid regular expression, but isn't: {broken}"
        yield _invalid(child(path, "pattern"), pattern, rule)


def _lists(schema: RawSchema, path: str) -> Iterator[Cause]:
    kind = schema.get(f"{_X}list-type")
    if kind is None:
        return
    if kind not in ("atomic", "set", "map"):
        yield messages.unsupported(child(path, f"{_X}list-type"), kind, ["atomic", "set", "map"])
    elif schema.get("type") != "array":
        rule = f"must be array if {_X}list-type is specified"
        yield _invalid(child(path, "type"), schema.get("type", ""), rule)
    if kind == "map":
        yield from _map_keys(schema, path)


def _map_keys(schema: RawSchema, path: str) -> Iterator[Cause]:
    at = child(path, f"{_X}list-map-keys")
    keys, items = schema.get(f"{_X}list-map-keys") or [], schema.get("items") or {}
    if not isinstance(items, Mapping):
        return  # reported elsewhere
    properties = items.get("properties") or {}
    if not keys:
        yield _required(at, f"must not be empty if {_X}list-type is map")
    if any(key not in properties for key in keys):
        yield _invalid(at, keys, "entries must all be names of item properties")
        return
    for key in keys:
        if key not in (items.get("required") or ()) and "default" not in properties[key]:
            where = child(path, f"items.properties[{key}].default")
            yield _required(where, f"this property is in {_X}list-map-keys, so it must have a "
                            "default or be a required property")  # fmt: skip


def _whole_object(schema: RawSchema, path: str, level: str) -> Iterator[Cause]:
    """Check the parts of a schema for whole objects: kind, apiVersion, metadata."""
    embedded = schema.get(f"{_X}embedded-resource")
    if level != "root" and not embedded:
        return
    properties = schema.get("properties") or {}
    for name in ("apiVersion", "kind"):
        kind = (properties.get(name) or {}).get("type", "string")
        if kind != "string":
            yield _invalid(child(path, f"properties[{name}].type"), kind, "must be string")
    if "metadata" in properties:
        yield from _metadata(properties["metadata"], child(path, "properties[metadata]"), level)
    if embedded and not properties and not schema.get(f"{_X}preserve-unknown-fields"):
        rule = (
            f"must not be empty if {_X}embedded-resource is true without "
            f"{_X}preserve-unknown-fields"
        )
        yield _required(child(path, "properties"), rule)


def _metadata(schema: RawSchema, path: str, level: str) -> Iterator[Cause]:
    if schema.get("type") != "object":
        yield _invalid(child(path, "type"), schema.get("type", ""), "must be object")
    extra = set(schema) - {"type", "properties", "description"}
    extra |= set(schema.get("properties") or ()) - {"name", "generateName"}
    if level == "root" and extra:
        yield _forbidden(path, "must not specify anything other than name and generateName, but "
                         "metadata is implicitly specified")  # fmt: skip


def _children(schema: RawSchema, path: str, level: str) -> Iterator[Cause]:
    items, at = schema.get("items"), child(path, "items")
    if isinstance(items, list):
        yield _forbidden(at, "items must be a schema object and not an array")
    elif items is not None:
        yield from _node(items, at, "item")
    elif schema.get("type") == "array":
        yield _required(at, "must be specified")
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, one in properties.items():
        if level != "root" or name != "metadata":
            yield from _node(one, child(path, f"properties[{name}]"), "field")
    at = child(path, "additionalProperties")
    if more is not None and level == "root":
        yield _forbidden(at, "must not be used at the root")
    if more is not None and properties:
        yield _forbidden(at, "additionalProperties and properties are mutual exclusive")
    if isinstance(more, Mapping):
        yield from _node(more, at, "field")


def _nested(schema: RawSchema, path: str) -> Iterator[tuple[str, RawSchema]]:
    """Yield the schemas in allOf, anyOf, oneOf and not, except the int-or-string pattern."""
    for key in _LOGIC:
        if key == "anyOf" and schema.get(key) == _INT_OR_STRING:
            continue
        for index, one in enumerate(schema.get(key) or ()):
            if not (key == "allOf" and index == 0 and one.get("anyOf") == _INT_OR_STRING):
                yield child(path, f"{key}[{index}]"), one
    if isinstance(schema.get("not"), Mapping):
        yield child(path, "not"), schema["not"]


def _restriction(nested: RawSchema, path: str) -> Iterator[Cause]:
    """Check a schema that may only restrict fields that are specified outside."""
    for name, rule in _NOT_IN_RESTRICTIONS.items():
        if nested.get(name) not in (None, "", False, []):
            yield _forbidden(child(path, name), rule)
    yield from _pattern(nested, path)
    for name, one in (nested.get("properties") or {}).items():
        yield from _restriction(one, child(path, f"properties[{name}]"))
    if isinstance(nested.get("items"), Mapping):
        yield from _restriction(nested["items"], child(path, "items"))
    for where, one in _nested(nested, path):
        yield from _restriction(one, where)


def _required(path: str, rule: str) -> Cause:
    return Cause(path, f"Required value: {rule}", "FieldValueRequired")


def _invalid(path: str, value: Any, rule: str) -> Cause:
    return Cause(path, f"Invalid value: {messages.quoted(value)}: {rule}")


def _forbidden(path: str, rule: str) -> Cause:
    return Cause(path, f"Forbidden: {rule}", "FieldValueForbidden")


def default_problems(node: SchemaNode, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with the defaults of a compiled schema and its nested schemas.

    Nested defaults that exceed the size of an object raise Invalid.
    """
    if node.default is not ABSENT:
        yield from _check_default(node, f"{path}.default")
    children: Mapping[str, Any] = {
        **{f"properties[{name}]": inner for name, inner in node.properties.items()},
        "items": node.items,
        "additionalProperties": node.additional_properties,
    }
    for name, inner in children.items():
        if isinstance(inner, SchemaNode):
            yield from default_problems(inner, f"{path}.{name}" if path else name)


def _check_default(node: SchemaNode, path: str) -> Iterator[Cause]:
    dropped: list[str] = []
    # The path is not empty, so that the default is not treated as the root of an object.
    prune(node, node.default, "default", dropped)
    if dropped:
        shown = messages.quoted(node.default)
        yield Cause(path, f"Invalid value: {shown}: must not have unknown fields")
    try:
        filled = apply_defaults(node, node.default)
    except TooLarge as large:  # raised, so that nested schemas are not expanded again
        cause = Cause(path, f"Too long: {large.message}", "FieldValueTooLong")
        raise Invalid(large.message, Details(causes=(cause,))) from large
    for cause in violations(node, filled, ""):
        where = path if cause.field in ("", messages.NO_FIELD) else f"{path}.{cause.field}"
        yield Cause(where, cause.message, cause.reason)
