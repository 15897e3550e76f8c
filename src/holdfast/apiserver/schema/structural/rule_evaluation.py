"""Evaluate the CEL rules of a schema over a whole object, within one budget."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from holdfast.apiserver.schema.structural.node import ABSENT, SchemaNode
from holdfast.apiserver.schema.structural.rules import RuleEvaluationStopped
from holdfast.cel.rules import CostBudget, RuleInput, compile_expression, escape_field_name
from holdfast.errors import Cause

_NAMES = ("name", "generateName")
_BLOCKING = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
})  # fmt: skip
_UNASKED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


def broken_rules(
    node: SchemaNode, value: Any, old: Any, found: Collection[Cause]
) -> Iterator[Cause]:
    """Yield the rules a whole object breaks; a shape too wrong for them keeps them unasked."""
    if not node.has_rules:
        return
    if any(cause.reason in _BLOCKING for cause in found):
        yield Cause("<nil>", f"Invalid value: null: {_UNASKED}", "FieldValueInvalid")
    else:
        try:
            yield from _broken_rules(node, value, "", old, CostBudget())
        except RuleEvaluationStopped as stopped:
            yield stopped.cause


def _broken_rules(
    node: SchemaNode, value: Any, path: str, old: Any, budget: CostBudget
) -> Iterator[Cause]:
    """Yield every rule a value breaks; what has not changed is not judged again.

    A rule that speaks of ``oldSelf`` is asked only where there was a value before. Items of a
    list have one only if the list is a map.
    """
    if not node.has_rules or value is None:
        return
    if node.rules:
        yield from _here(node, value, path, old, budget)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, one in value.items():
            child = node.child(name)
            if child is not None and not isinstance(child, bool):
                where = f"{path}.{name}" if path else name
                yield from _broken_rules(child, one, where, before.get(name, ABSENT), budget)
    elif isinstance(value, list) and node.items is not None:
        known = _by_key(node, old)
        for i, one in enumerate(value):
            was = known.get(_key(node, one), ABSENT) if known else ABSENT
            yield from _broken_rules(node.items, one, f"{path}[{i}]", was, budget)


def _here(node: SchemaNode, value: Any, path: str, old: Any, budget: CostBudget) -> Iterator[Cause]:
    seen = _seen(node, value, root=not path)
    before = None if old is ABSENT else _seen(node, old, root=not path)
    unchanged = old is not ABSENT and value == old
    given = RuleInput(seen, before, budget)
    for rule in node.rules:
        if rule.not_evaluated_because:
            continue
        looks_back = compile_expression(rule.text).uses_old_self
        if old is ABSENT if looks_back else unchanged:
            continue
        if (cause := rule.evaluate(given, value, path)) is not None:
            yield cause


def _seen(node: SchemaNode, value: Any, *, root: bool = False) -> Any:
    """Copy a value as rules see it: only fields the schema knows, under names CEL has."""
    if isinstance(value, list):
        return value if node.items is None else [_seen(node.items, one) for one in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for name, one in value.items():
        child = node.properties.get(name)
        if root and name == "metadata":
            out[name] = {k: one[k] for k in _NAMES if k in one}
        elif child is not None:
            out[escape_field_name(name)] = _seen(child, one)
        elif node.additional_properties is not None:
            more = node.additional_properties
            out[name] = one if isinstance(more, bool) else _seen(more, one)
    return out


def _by_key(node: SchemaNode, old: Any) -> dict[str, Any]:
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {_key(node, one): one for one in old}


def _key(node: SchemaNode, item: Any) -> str:
    return repr([item.get(k) for k in node.map_keys]) if isinstance(item, dict) else repr(item)
