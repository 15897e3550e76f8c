"""One node of a structural schema, compiled: what a value may be and what it may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.apiserver.schema.structural.rules import Rule, read_rules
from holdfast.apiserver.schema.structural.value_checks import Check, format_check, value_checks

__all__ = ["ABSENT", "SchemaNode", "compile_node"]

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """A compiled schema.

    ``additional_properties`` is the schema of the fields that ``properties`` does not name: a
    SchemaNode, True for any value, None if no other field is allowed. ``default_text`` is the
    default as JSON. ``format`` is the format of a string: its name and its check.
    """

    type: str = ""
    properties: Mapping[str, SchemaNode]
    items: SchemaNode | None = None
    additional_properties: SchemaNode | bool | None = None
    required: tuple[str, ...] = ()
    preserve_unknown_fields: bool = False
    embedded_resource: bool = False
    int_or_string: bool = False
    nullable: bool = False
    default: Any = ABSENT
    default_text: bytes = b""
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    format: tuple[str, Callable[[str], bool]] | None = None
    checks: tuple[Check, ...] = ()
    all_of: tuple[SchemaNode, ...] = ()
    any_of: tuple[SchemaNode, ...] = ()
    one_of: tuple[SchemaNode, ...] = ()
    not_schema: SchemaNode | None = None
    rules: tuple[Rule, ...] = ()
    has_rules: bool = False
    """Whether it, or anything below it, has rules."""

    def child(self, name: str) -> SchemaNode | bool | None:
        """Find the schema of a field; True means anything goes, None that it is unknown."""
        found = self.properties.get(name)
        return self.additional_properties if found is None else found


def compile_node(schema: Mapping[str, Any]) -> SchemaNode:
    """Compile a schema and everything below it."""
    properties = {k: compile_node(v) for k, v in (schema.get("properties") or {}).items()}
    raw_items, raw_more = schema.get("items"), schema.get("additionalProperties")
    items = compile_node(raw_items) if isinstance(raw_items, Mapping) else None
    more = compile_node(raw_more) if isinstance(raw_more, Mapping) else (raw_more or None)
    logic = {
        key: tuple(compile_node(one) for one in schema.get(key) or ())
        for key in ("allOf", "anyOf", "oneOf")
    }
    refused = schema.get("not")
    below = [*properties.values(), items, more if isinstance(more, SchemaNode) else None]
    return SchemaNode(
        type=schema.get("type", ""),
        properties=properties,
        items=items,
        additional_properties=more,
        required=tuple(schema.get("required") or ()),
        preserve_unknown_fields=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded_resource=bool(schema.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(schema.get("x-kubernetes-int-or-string")),
        nullable=bool(schema.get("nullable")),
        default=schema.get("default", ABSENT),
        default_text=msgspec.json.encode(schema.get("default")),
        list_type=schema.get("x-kubernetes-list-type", ""),
        map_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        format=format_check(schema),
        checks=value_checks(schema),
        all_of=logic["allOf"],
        any_of=logic["anyOf"],
        one_of=logic["oneOf"],
        not_schema=compile_node(refused) if isinstance(refused, Mapping) else None,
        rules=(rules := read_rules(schema)),
        has_rules=bool(rules) or any(one is not None and one.has_rules for one in below),
    )
