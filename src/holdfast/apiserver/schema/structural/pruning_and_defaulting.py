"""Bring a value into a schema's shape: drop what it does not know, fill in what is missing."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.apiserver.schema.field_validation import OBJECT_META, prune_type
from holdfast.apiserver.schema.structural.node import ABSENT, SchemaNode
from holdfast.errors import TooLarge
from holdfast.store import MAX_VALUE

_FIELD_BYTES = 5  # what even the shortest name of a field adds to its value
_META = ("apiVersion", "kind", "metadata")


def prune(node: SchemaNode, value: Any, path: str, dropped: list[str]) -> Any:
    """Copy a value without unknown fields, adding their paths to ``dropped``."""
    if isinstance(value, list):
        return [
            value_ if node.items is None else prune(node.items, value_, f"{path}[{i}]", dropped)
            for i, value_ in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    whole = node.embedded_resource or not path  # an object with a metadata of its own
    for name, one in value.items():
        where = f"{path}.{name}" if path else name
        child = node.child(name)
        if whole and name in _META:
            out[name] = _prune_meta(name, one, where, dropped)
        elif isinstance(child, SchemaNode):
            out[name] = prune(child, one, where, dropped)
        elif child or node.preserve_unknown_fields:
            out[name] = one
        else:
            dropped.append(where)
    return out


def _prune_meta(name: str, value: Any, path: str, dropped: list[str]) -> Any:
    return prune_type(OBJECT_META, value, path, dropped) if name == "metadata" else value


def apply_defaults(node: SchemaNode, value: Any, *, root: bool = False) -> Any:
    """Copy a value with defaults filled in and nulls gone where null is no value.

    A few bytes of a list can mean megabytes of defaults, and defaults can nest: more of them
    than an object may hold raises TooLarge.
    """
    return _fill(node, value, _Budget(), root=root)


class _Budget:
    """Counts the bytes of defaults, written as JSON, while an object is filled."""

    def __init__(self) -> None:
        self._left = MAX_VALUE

    def copy(self, node: SchemaNode) -> Any:
        """Copy the default of a node."""
        self._left -= len(node.default_text) + _FIELD_BYTES
        if self._left < 0:
            raise TooLarge(f"the defaults of the object are more than {MAX_VALUE} bytes long")
        return msgspec.json.decode(node.default_text)


def _fill(node: SchemaNode, value: Any, budget: _Budget, *, root: bool = False) -> Any:
    if isinstance(value, list):
        return value if node.items is None else [_item(node.items, one, budget) for one in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for name, one in value.items():
        child = node.child(name)
        if not isinstance(child, SchemaNode) or (root and name in _META):
            out[name] = one
        elif one is not None or child.nullable:
            out[name] = _fill(child, one, budget)
        elif child.default is not ABSENT:
            out[name] = _fill(child, budget.copy(child), budget)
    for name, child in node.properties.items():
        if name not in out and child.default is not ABSENT and not (root and name in _META):
            out[name] = _fill(child, budget.copy(child), budget)
    return out


def _item(node: SchemaNode, value: Any, budget: _Budget) -> Any:
    if value is None and not node.nullable and node.default is not ABSENT:
        value = budget.copy(node)
    return _fill(node, value, budget)
