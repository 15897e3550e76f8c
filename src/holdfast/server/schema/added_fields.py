"""The fields that this server adds to the published schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.server.added_group import REF
from holdfast.server.added_groups import ADDED_GROUPS

PROPERTIES = {
    name: properties
    for added in ADDED_GROUPS
    for name, properties in added.fields.properties.items()
}
"""The added properties by type."""
_DESCRIPTIONS = {
    name: text for added in ADDED_GROUPS for name, text in added.fields.descriptions.items()
}


def add_schemas(known: dict[str, dict[str, Any]]) -> None:
    """Add the fields and their types to the published schemas."""
    for name, properties in PROPERTIES.items():
        schema = known.setdefault(name, {"type": "object", "description": _DESCRIPTIONS.get(name)})
        schema["properties"] = {**schema.get("properties", {}), **properties}


def added_fields(type_name: str) -> Mapping[str, str]:
    """Return the added fields of a type, encoded as in the generated data."""
    return {
        name: "=string" if "type" in schema else schema["allOf"][0]["$ref"].removeprefix(REF)
        for name, schema in PROPERTIES.get(type_name, {}).items()
    }
