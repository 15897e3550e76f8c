"""Validate the defaults of a schema against the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.apiserver.schema.structural import messages
from holdfast.apiserver.schema.structural.node import ABSENT, SchemaNode
from holdfast.apiserver.schema.structural.pruning_and_defaulting import apply_defaults, prune
from holdfast.apiserver.schema.structural.value_validation import violations
from holdfast.errors import Cause, Details, Invalid, TooLarge


def default_problems(node: SchemaNode, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with the defaults of a compiled schema and its nested schemas.

    Nested defaults that exceed the size of an object raise Invalid.
    """
    if node.default is not ABSENT:
        yield from _one(node, f"{path}.default")
    children: Mapping[str, Any] = {
        **{f"properties[{name}]": child for name, child in node.properties.items()},
        "items": node.items,
        "additionalProperties": node.additional_properties,
    }
    for name, child in children.items():
        if isinstance(child, SchemaNode):
            yield from default_problems(child, f"{path}.{name}" if path else name)


def _one(node: SchemaNode, path: str) -> Iterator[Cause]:
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
