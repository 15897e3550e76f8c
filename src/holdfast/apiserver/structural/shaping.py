"""Bring a value into a schema's shape: drop what it does not know, fill in what is missing."""

from __future__ import annotations

import copy
from typing import Any

from holdfast.apiserver.strict import OBJECT_META, prune_type
from holdfast.apiserver.structural.node import ABSENT, Node

_META = ("apiVersion", "kind", "metadata")


def prune(node: Node, value: Any, path: str, dropped: list[str]) -> Any:
    """Copy a value without unknown fields, adding their paths to ``dropped``."""
    if isinstance(value, list):
        return [
            value_ if node.items is None else prune(node.items, value_, f"{path}[{i}]", dropped)
            for i, value_ in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    whole = node.embedded or not path  # an object with a metadata of its own
    for name, one in value.items():
        where = f"{path}.{name}" if path else name
        child = node.child(name)
        if whole and name in _META:
            out[name] = _prune_meta(name, one, where, dropped)
        elif isinstance(child, Node):
            out[name] = prune(child, one, where, dropped)
        elif child or node.preserve:
            out[name] = one
        else:
            dropped.append(where)
    return out


def _prune_meta(name: str, value: Any, path: str, dropped: list[str]) -> Any:
    return prune_type(OBJECT_META, value, path, dropped) if name == "metadata" else value


def fill(node: Node, value: Any, *, root: bool = False) -> Any:
    """Copy a value with defaults filled in and nulls gone where null is no value."""
    if isinstance(value, list):
        return value if node.items is None else [_item(node.items, one) for one in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for name, one in value.items():
        child = node.child(name)
        if not isinstance(child, Node) or (root and name in _META):
            out[name] = one
        elif one is not None or child.nullable:
            out[name] = fill(child, one)
        elif child.default is not ABSENT:
            out[name] = fill(child, copy.deepcopy(child.default))
    for name, child in node.properties.items():
        if name not in out and child.default is not ABSENT and not (root and name in _META):
            out[name] = fill(child, copy.deepcopy(child.default))
    return out


def _item(node: Node, value: Any) -> Any:
    if value is None and not node.nullable and node.default is not ABSENT:
        value = copy.deepcopy(node.default)
    return fill(node, value)
