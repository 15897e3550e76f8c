"""A node of a compiled structural schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.server.schema.structural.rules import Rule, read_rules
from holdfast.server.schema.structural.value_checks import (
    ValueCheck,
    format_check,
    text_check,
    value_checks,
)

__all__ = ["ABSENT", "SchemaNode", "compile_node"]

_TEXT_KEYS = frozenset(
    {"type", "description", "title", "maxLength", "minLength", "pattern", "enum"}
)
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
    most_items: int | None = None
    """maxItems or maxProperties."""
    map_keys: tuple[str, ...] = ()
    format_name: str = ""
    format: tuple[str, Callable[[str], bool]] | None = None
    checks: tuple[ValueCheck, ...] = ()
    all_of: tuple[SchemaNode, ...] = ()
    any_of: tuple[SchemaNode, ...] = ()
    one_of: tuple[SchemaNode, ...] = ()
    not_schema: SchemaNode | None = None
    rules: tuple[Rule, ...] = ()
    has_rules: bool = False
    """Whether this node or a nested one has rules."""

    is_valid_text: Callable[[Any], bool] | None = None
    """Whether a value is a valid string, cached; None if the schema has other keys or rules."""

    def holds_only_valid_texts(self, items: list[Any]) -> bool:
        """Return whether all items of a list are strings that are known to be valid."""
        inner = self.items
        return (
            inner is not None
            and (valid := inner.is_valid_text) is not None
            and all(map(valid, items))
        )

    def child(self, name: str) -> SchemaNode | bool | None:
        """Return the schema of a field; True if any value is allowed, None if it is unknown."""
        schema = self.properties.get(name)
        return self.additional_properties if schema is None else schema


def compile_node(schema: Mapping[str, Any], *, root: bool = False) -> SchemaNode:
    """Compile a schema and its nested schemas; ``root``: it is the schema of a whole object."""
    is_resource = root or bool(schema.get("x-kubernetes-embedded-resource"))
    properties = {k: compile_node(v) for k, v in (schema.get("properties") or {}).items()}
    raw_items, raw_additional = schema.get("items"), schema.get("additionalProperties")
    items = compile_node(raw_items) if isinstance(raw_items, Mapping) else None
    additional = (
        compile_node(raw_additional)
        if isinstance(raw_additional, Mapping)
        else (raw_additional or None)
    )
    logic = {
        key: tuple(compile_node(one) for one in schema.get(key) or ())
        for key in ("allOf", "anyOf", "oneOf")
    }
    not_ = schema.get("not")
    nested = [
        *properties.values(),
        items,
        additional if isinstance(additional, SchemaNode) else None,
    ]
    rules, checks = read_rules(schema, is_resource=is_resource), value_checks(schema)
    return SchemaNode(
        type=schema.get("type", ""),
        properties=properties,
        items=items,
        additional_properties=additional,
        required=tuple(schema.get("required") or ()),
        preserve_unknown_fields=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded_resource=bool(schema.get("x-kubernetes-embedded-resource")),
        format_name=schema.get("format") or "",
        int_or_string=bool(schema.get("x-kubernetes-int-or-string")),
        nullable=bool(schema.get("nullable")),
        default=schema.get("default", ABSENT),
        default_text=msgspec.json.encode(schema.get("default")),
        list_type=schema.get("x-kubernetes-list-type", ""),
        most_items=schema.get("maxItems" if schema.get("type") == "array" else "maxProperties"),
        map_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        format=format_check(schema),
        checks=checks,
        is_valid_text=None if rules or set(schema) - _TEXT_KEYS else text_check(schema, checks),
        all_of=logic["allOf"],
        any_of=logic["anyOf"],
        one_of=logic["oneOf"],
        not_schema=compile_node(not_) if isinstance(not_, Mapping) else None,
        rules=rules,
        has_rules=bool(rules) or any(one is not None and one.has_rules for one in nested),
    )
