"""Evaluate the CEL rules of a schema for an object, within one cost budget."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from holdfast.api.cel.rules import CostBudget, RuleInput
from holdfast.api.cel.schema_types import field_spellings
from holdfast.api.cel.time_values import format_value
from holdfast.runtime.errors import Cause
from holdfast.server.schema.structural.node import ABSENT, SchemaNode
from holdfast.server.schema.structural.rules import RuleEvaluationStopped

_NAMES = ("name", "generateName")
_IDENTITY = ("apiVersion", "kind")
_BLOCKING = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
})  # fmt: skip
_NOT_EVALUATED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


def broken_rules(
    node: SchemaNode, value: Any, old: Any, causes: Collection[Cause]
) -> Iterator[Cause]:
    """Yield the rules that an object breaks; none are evaluated if ``causes`` has type errors."""
    if not node.has_rules:
        return
    if any(cause.reason in _BLOCKING for cause in causes):
        yield Cause("<nil>", f"Invalid value: null: {_NOT_EVALUATED}", "FieldValueInvalid")
    else:
        try:
            yield from _broken_rules(node, value, "", old, CostBudget())
        except RuleEvaluationStopped as stopped:
            yield stopped.cause


def _broken_rules(
    node: SchemaNode,
    value: Any,
    path: str,
    old: Any,
    budget: CostBudget,
    *,
    unchanged: bool = False,
) -> Iterator[Cause]:
    """Yield the rules that a value breaks; rules of unchanged values are not evaluated.

    A rule with ``oldSelf`` is evaluated only if there is an old value. List items have an old value
    only if the list type is map. ``unchanged`` is True if, for example, the whole list has not
    changed.
    """
    if not node.has_rules or value is None:
        return
    unchanged = unchanged or (old is not ABSENT and value == old)
    if node.rules:
        yield from _evaluate_node(node, value, path, old, budget, unchanged=unchanged)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, one in value.items():
            child = node.child(name)
            if child is not None and not isinstance(child, bool):
                where, old_field = _child_path(node, path, name), before.get(name, ABSENT)
                yield from _broken_rules(child, one, where, old_field, budget, unchanged=unchanged)
    elif isinstance(value, list) and node.items is not None:
        known = _by_key(node, old)
        for i, one in enumerate(value):
            old_item = known.get(_key(node, one), ABSENT) if known else ABSENT
            yield from _broken_rules(
                node.items, one, f"{path}[{i}]", old_item, budget, unchanged=unchanged
            )


def _child_path(node: SchemaNode, path: str, name: str) -> str:
    """Return the path of a field; in a map ``[key]``, as upstream writes it for rules only."""
    if name not in node.properties:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _evaluate_node(
    node: SchemaNode, value: Any, path: str, old: Any, budget: CostBudget, *, unchanged: bool
) -> Iterator[Cause]:
    cel_value = _cel_value(node, value, root=not path)
    before = None if old is ABSENT else _cel_value(node, old, root=not path)
    known = old is not ABSENT and old is not None
    rule_input = RuleInput(cel_value, before, budget, has_previous=known)
    for rule in node.rules:
        if rule.uses_old_self:
            if not known and not rule.optional_old_self:
                continue
        elif unchanged:
            continue
        if (cause := rule.evaluate(rule_input, value, path)) is not None:
            yield cause


def _cel_value(node: SchemaNode, value: Any, *, root: bool = False) -> Any:
    """Return a copy of a value for CEL: only known fields, with escaped names."""
    if isinstance(value, list):
        return value if node.items is None else [_cel_value(node.items, one) for one in value]
    if isinstance(value, dict):
        return _cel_object(node, value, is_resource=root or node.embedded_resource)
    if isinstance(value, str) and node.type == "string" and not node.int_or_string:
        return format_value(value, node.format_name)
    if node.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _cel_object(node: SchemaNode, value: dict[str, Any], *, is_resource: bool) -> Any:
    out: dict[str, Any] = {}
    for name, one in value.items():
        child = node.properties.get(name)
        if is_resource and name == "metadata" and isinstance(one, dict):
            out[name] = {k: one[k] for k in _NAMES if k in one}
        elif is_resource and name in _IDENTITY:
            out[name] = one
        elif child is not None:
            out.update(dict.fromkeys(field_spellings(name), _cel_value(child, one)))
        elif node.additional_properties is not None:
            more = node.additional_properties
            out[name] = one if isinstance(more, bool) else _cel_value(more, one)
    return out


def _by_key(node: SchemaNode, old: Any) -> dict[str, Any]:
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {_key(node, one): one for one in old}


def _key(node: SchemaNode, item: Any) -> str:
    return repr([item.get(k) for k in node.map_keys]) if isinstance(item, dict) else repr(item)
