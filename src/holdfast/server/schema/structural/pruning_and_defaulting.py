"""Pruning of unknown fields and defaulting by a structural schema."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.runtime.errors import BadRequest, TooLarge
from holdfast.server.schema.field_validation import OBJECT_META, prune_type
from holdfast.server.schema.structural.node import ABSENT, SchemaNode
from holdfast.server.store import MAX_VALUE

_FIELD_BYTES = 5  # bytes that the shortest field name adds to a value
_LARGEST_INT = 2**63
_META = ("apiVersion", "kind", "metadata")


def prune(node: SchemaNode, value: Any, path: str, dropped: list[str]) -> Any:
    """Return a copy of a value without unknown fields; append their paths to ``dropped``."""
    if isinstance(value, list):
        if node.holds_only_valid_texts(value):
            return list(value)
        return [
            item if node.items is None else prune(node.items, item, f"{path}[{i}]", dropped)
            for i, item in enumerate(value)
        ]
    if isinstance(value, int | float):
        return _as_go_reads(node, value, path)
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    is_object = node.embedded_resource or not path  # with its own metadata
    for name, one in value.items():
        where = f"{path}.{name}" if path else name
        child = node.child(name)
        if is_object and name in _META:
            out[name] = _prune_meta(name, one, where, dropped)
        elif isinstance(child, SchemaNode):
            out[name] = prune(child, one, where, dropped)
        elif child or node.preserve_unknown_fields:
            out[name] = one
        else:
            dropped.append(where)
    return out


def _as_go_reads(node: SchemaNode, value: float, path: str) -> float:
    """Return a number as Go reads it and writes it again.

    ``2.0`` in an integer field becomes 2; an integer outside the range of int64 becomes a float.
    """
    if isinstance(value, float):
        whole = node.type == "integer" and abs(value) < _LARGEST_INT and value.is_integer()
        return int(value) if whole else value
    if -_LARGEST_INT <= value < _LARGEST_INT:
        return value
    try:
        return float(value)
    except OverflowError:
        raise BadRequest(f"{path}: the number has too many digits") from None


def _prune_meta(name: str, value: Any, path: str, dropped: list[str]) -> Any:
    return prune_type(OBJECT_META, value, path, dropped) if name == "metadata" else value


def apply_defaults(node: SchemaNode, value: Any, *, root: bool = False) -> Any:
    """Return a copy of a value with defaults, without nulls in fields that are not nullable.

    Raises TooLarge if the defaults exceed the size of an object: a short list may need megabytes of
    defaults, and defaults may be nested.
    """
    return _apply_defaults(node, value, _SizeBudget(), root=root)


class _SizeBudget:
    """Limits the bytes of defaults, as JSON, that are added to one object."""

    def __init__(self) -> None:
        self._left = MAX_VALUE

    def copy(self, node: SchemaNode) -> Any:
        """Return a copy of the default of a node; raise TooLarge over the limit."""
        self._left -= len(node.default_text) + _FIELD_BYTES
        if self._left < 0:
            raise TooLarge(f"the defaults of the object are more than {MAX_VALUE} bytes long")
        return msgspec.json.decode(node.default_text)


def _apply_defaults(
    node: SchemaNode, value: Any, budget: _SizeBudget, *, root: bool = False
) -> Any:
    if isinstance(value, list):
        if node.items is None or node.holds_only_valid_texts(value):
            return value
        return [_item(node.items, one, budget) for one in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for name, one in value.items():
        child = node.child(name)
        if not isinstance(child, SchemaNode) or (root and name in _META):
            out[name] = one
        elif one is not None or child.nullable:
            out[name] = _apply_defaults(child, one, budget)
        elif child.default is not ABSENT:
            out[name] = _apply_defaults(child, budget.copy(child), budget)
    for name, child in node.properties.items():
        if name not in out and child.default is not ABSENT and not (root and name in _META):
            out[name] = _apply_defaults(child, budget.copy(child), budget)
    return out


def _item(node: SchemaNode, value: Any, budget: _SizeBudget) -> Any:
    if value is None and not node.nullable and node.default is not ABSENT:
        value = budget.copy(node)
    return _apply_defaults(node, value, budget)
