"""Validate a value against a compiled schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.runtime.errors import Cause
from holdfast.server.schema.structural import messages
from holdfast.server.schema.structural.node import ABSENT, SchemaNode

_META = ("apiVersion", "kind", "metadata")


def violations(node: SchemaNode, value: Any, path: str, old: Any = ABSENT) -> Iterator[Cause]:
    """Yield all violations; unchanged values are ignored (ratcheting)."""
    if old is not ABSENT and value == old and type(value) is type(old):
        return
    if value is None and node.nullable:
        return
    if (mismatch := _type_mismatch(node, value, path)) is not None:
        yield mismatch
    elif isinstance(value, dict):
        yield from _object(node, value, path, old)
    elif isinstance(value, list):
        yield from _items(node, value, path, old)
    for check in node.checks:
        if (cause := check(value, path)) is not None:
            yield cause
    yield from _combinations(node, value, path)


def _type_mismatch(node: SchemaNode, value: Any, path: str) -> Cause | None:
    json_type = messages.type_name(value)
    if node.int_or_string:
        valid_type = json_type == "string" or (
            json_type == "integer" and not isinstance(value, float)
        )
        return None if valid_type else messages.wrong_type(path, value, "integer,string")
    if node.format is not None:
        name, holds = node.format
        valid_type = isinstance(value, str) and holds(value)
        return None if valid_type else messages.wrong_format(path, value, name)
    if (
        not node.type
        or node.type == json_type
        or (node.type == "number" and json_type == "integer")
    ):
        return None
    return messages.wrong_type(path, value, node.type)


def _object(node: SchemaNode, value: dict[str, Any], path: str, old: Any) -> Iterator[Cause]:
    before = old if isinstance(old, dict) else {}
    for name, one in value.items():
        child = node.child(name)
        if isinstance(child, SchemaNode) and not (
            (node.embedded_resource or not path) and name == "metadata"
        ):
            where = f"{path}.{name}" if path else name
            yield from violations(child, one, where, before.get(name, ABSENT))
    for name in node.required:
        if name not in value:
            yield messages.required(f"{path}.{name}" if path else name)
    if node.embedded_resource:
        for name in ("apiVersion", "kind"):
            if not value.get(name) and name not in node.required:
                yield messages.required(f"{path}.{name}")


def _items(node: SchemaNode, value: list[Any], path: str, old: Any) -> Iterator[Cause]:
    if node.items is None or node.holds_only_valid_texts(value):
        return
    before = old if isinstance(old, list) else []
    known = {_key(node, one): one for one in before} if node.list_type == "map" else {}
    for index, one in enumerate(value):
        old_item = known.get(_key(node, one), ABSENT) if known else ABSENT
        yield from violations(node.items, one, f"{path}[{index}]", old_item)


def _combinations(node: SchemaNode, value: Any, path: str) -> Iterator[Cause]:
    if node.any_of:
        yield from _any_of(node, value, path)
    if node.one_of:
        yield from _one_of(node, value, path)
    if node.all_of:
        results = [list(violations(one, value, path)) for one in node.all_of]
        yield from (cause for result in results for cause in result)
        if any(results):
            none = "" if not all(results) else ". None validated"
            yield messages.combined(f'"{path}" must validate all the schemas (allOf){none}')
    if node.not_schema is not None and not any(violations(node.not_schema, value, path)):
        yield messages.combined(f'"{path}" must not validate the schema (not)')


def _any_of(node: SchemaNode, value: Any, path: str) -> Iterator[Cause]:
    results = [list(violations(one, value, path)) for one in node.any_of]
    if all(results):
        yield messages.combined(f'"{path}" must validate at least one schema (anyOf)')
        yield from min(results, key=len)


def _one_of(node: SchemaNode, value: Any, path: str) -> Iterator[Cause]:
    results = [list(violations(one, value, path)) for one in node.one_of]
    valid = sum(not result for result in results)
    if valid == 1:
        return
    alternatives = f"Found {valid} valid alternatives" if valid else "Found none valid"
    yield messages.combined(
        f'"{path}" must validate one and only one schema (oneOf). {alternatives}'
    )
    if not valid:
        yield from min(results, key=len)


def duplicates(node: SchemaNode, value: Any, path: str, old: Any = ABSENT) -> Iterator[Cause]:
    """Yield the duplicates in lists of type set or map."""
    if old is not ABSENT and value == old:
        return
    if isinstance(value, list):
        if node.holds_only_valid_texts(value) and len(set(value)) == len(value):
            return
        if node.list_type in ("set", "map"):
            yield from _duplicate_items(node, value, path)
        for index, one in enumerate(value):
            if node.items is not None:
                yield from duplicates(node.items, one, f"{path}[{index}]")
    elif isinstance(value, dict):
        before = old if isinstance(old, Mapping) else {}
        for name, one in value.items():
            child = node.child(name)
            if isinstance(child, SchemaNode):
                where = f"{path}.{name}" if path else name
                yield from duplicates(child, one, where, before.get(name, ABSENT))


def _duplicate_items(node: SchemaNode, value: list[Any], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    reported: set[str] = set()
    for index, one in enumerate(value):
        key = _key(node, one)
        if key in seen and key not in reported:
            reported.add(key)
            shown = {k: one[k] for k in node.map_keys if k in one} if node.map_keys else one
            yield messages.duplicate(f"{path}[{index}]", shown)
        seen.add(key)


def _key(node: SchemaNode, item: Any) -> str:
    if node.list_type == "map" and isinstance(item, dict):
        return messages.quoted([item.get(k) for k in node.map_keys])
    return messages.quoted(item)
