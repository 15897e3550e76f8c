"""Validation of the CEL rules of a new CRD: their fields, their types, their estimated cost.

Whether a CRD is accepted depends on the estimated cost, so it has to be upstream's number. The
estimate of a rule is multiplied by how often its schema can occur in one object. Without maxItems
and the like only the size of a request limits that, so rules in unlimited lists are often refused,
with the advice to add limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.api import field_errors
from holdfast.api.cel.errors import CompileError
from holdfast.api.cel.ranges import MOST
from holdfast.runtime.errors import Cause
from holdfast.server.schema.structural import messages
from holdfast.server.schema.structural.node import SchemaNode
from holdfast.server.schema.structural.rules import KEY, Rule

_RULE_LIMIT = 10_000_000
_TOTAL_LIMIT = 100_000_000
_REQUEST_BYTES = 3 * 1024 * 1024
_MOST_RULES, _MOST_CHARACTERS = 1000, 128 * 1024
"""The limits of one version; so many rules take two seconds to compile."""
_REASONS = [
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
]  # fmt: skip
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]")
_UNCORRELATABLE = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a schema within the root schema."""

    path: str = ""
    most_values: int | None = 1
    """How many values it has in one object at most; None if no schema above it limits them."""
    uncorrelatable: str | None = None
    """The path of the list or map whose items have no previous value, if it is in one."""

    def child(self, name: str, factor: int | None = 1, *, correlatable: bool = True) -> _Place:
        known = None in (self.most_values, factor)
        most = None if known else min((self.most_values or 0) * (factor or 0), MOST)
        path = f"{self.path}.{name}" if self.path else name
        if self.uncorrelatable is None and not correlatable:
            return _Place(path, most, self.path)
        return replace(self, path=path, most_values=most)


@dataclass(slots=True)
class _Total:
    """The cost of all rules of a schema, and the rules that contribute most."""

    cost: int = 0
    largest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, cost: int, path: str) -> None:
        self.cost = min(self.cost + cost, MOST)
        if cost >= _TOTAL_LIMIT // 100:
            self.largest = sorted([*self.largest, (cost, path)], reverse=True)[:4]

    def problems(self) -> Iterator[Cause]:
        if self.cost <= _TOTAL_LIMIT:
            return
        for _, path in self.largest:
            message = (
                "contributed to estimated rule cost total exceeding cost limit for entire "
                "OpenAPIv3 schema"
            )
            yield field_errors.forbidden(path, message)
        name = f"{KEY} estimated rule cost total for entire OpenAPIv3 schema"
        yield field_errors.forbidden("", _cost_message(name, self.cost, _TOTAL_LIMIT))


def rule_problems(root: SchemaNode) -> Iterator[Cause]:
    """Yield what is wrong with the rules of a schema and its nested schemas."""
    rules = list(_rules_in(root))
    size = sum(len(rule.text) + len(rule.message_expression) for rule in rules)
    if len(rules) > _MOST_RULES or size > _MOST_CHARACTERS:
        message = f"must have at most {_MOST_RULES} rules with {_MOST_CHARACTERS} characters"
        yield field_errors.forbidden("", f"{KEY} {message}")
        return
    total = _Total()
    yield from _node_problems(root, _Place(), total)
    yield from total.problems()


def _rules_in(node: SchemaNode) -> Iterator[Rule]:
    if not node.has_rules:
        return
    yield from node.rules
    for child in (*node.properties.values(), node.items, node.additional_properties):
        if isinstance(child, SchemaNode):
            yield from _rules_in(child)


def _node_problems(node: SchemaNode, place: _Place, total: _Total) -> Iterator[Cause]:
    if not node.has_rules:
        return
    for i, rule in enumerate(node.rules):
        at = f"{place.path}.{KEY}[{i}]" if place.path else f"{KEY}[{i}]"
        wrong = list(_field_problems(node, rule, at))
        yield from wrong or _expression_problems(rule, at, place, total)
    for name, child in node.properties.items():
        inner = place.child(f"properties[{name}]", _most(node))
        yield from _node_problems(child, inner, total)
    if node.items is not None:
        correlatable = node.list_type == "map"
        inner = place.child("items", _most(node), correlatable=correlatable)
        yield from _node_problems(node.items, inner, total)
    if isinstance(node.additional_properties, SchemaNode):
        inner = place.child("additionalProperties", _most(node))
        yield from _node_problems(node.additional_properties, inner, total)


def _most(node: SchemaNode) -> int | None:
    """Return how many values of a nested schema one value has; None if it is unlimited."""
    is_list = node.type == "array"
    if is_list or isinstance(node.additional_properties, SchemaNode | bool):
        return node.most_items
    return 1


def _field_problems(node: SchemaNode, rule: Rule, at: str) -> Iterator[Cause]:
    text, message = rule.text.strip(), rule.message
    if not text:
        yield field_errors.required(f"{at}.rule", "rule is not specified")
    elif rule.has_blank_message:
        yield field_errors.invalid(f"{at}.message", " ", "must be non-empty if specified")
    elif _has_newlines(message):
        yield field_errors.invalid(f"{at}.message", message, "must not contain line breaks")
    elif _has_newlines(text) and not message:
        words = "message must be specified if rule contains line breaks"
        yield field_errors.required(f"{at}.message", words)
    if rule.message_expression and not rule.message_expression.strip():
        words = "messageExpression must be non-empty if specified"
        yield field_errors.required(f"{at}.messageExpression", words)
    if rule.reason and rule.reason not in _REASONS:
        yield messages.unsupported(f"{at}.reason", rule.reason, _REASONS)
    yield from _path_problems(node, rule.field_path, f"{at}.fieldPath")


def _has_newlines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _path_problems(node: SchemaNode, path: str, at: str) -> Iterator[Cause]:
    if not path:
        return
    if not path.strip():
        yield field_errors.invalid(at, path, "must be non-empty if specified")
    if _has_newlines(path):
        yield field_errors.invalid(at, path, "must not contain line breaks")
    if not _leads_to_a_field(node, path):
        yield field_errors.invalid(at, path, "must be a valid path")


def _leads_to_a_field(node: SchemaNode, path: str) -> bool:
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return False
        schema = node.child(step[1] or step[2])
        if not isinstance(schema, SchemaNode):
            return False
        node, position = schema, step.end()
    return True


def _expression_problems(rule: Rule, at: str, place: _Place, total: _Total) -> Iterator[Cause]:
    uses_old_self = False
    try:
        compiled = rule.compiled()
        if compiled.checked.type.name != "bool":
            raise CompileError(rule.text, "cel expression must evaluate to a bool")
    except CompileError as wrong:
        yield field_errors.invalid(f"{at}.rule", rule.text, wrong.message)
    else:
        uses_old_self = compiled.uses_old_self
        cost = min(rule.scope.estimated_cost(compiled) * _times(rule, place), MOST)
        yield from _cost_problems(f"{at}.rule", "estimated rule cost", cost, total)
        yield from _message_problems(rule, at, total)
    if uses_old_self and place.uncorrelatable is not None:
        message = f"{_UNCORRELATABLE} {place.uncorrelatable}"
        yield field_errors.invalid(f"{at}.rule", rule.text, message)
    if not uses_old_self and rule.sets_optional_old_self:
        message = "may not be set if oldSelf is not used in rule"
        yield field_errors.invalid(f"{at}.optionalOldSelf", rule.optional_old_self, message)


def _times(rule: Rule, place: _Place) -> int:
    """Return how often a rule is evaluated for one object at most."""
    if place.most_values is not None:
        return place.most_values
    fewest = rule.scope.type.fewest_bytes if rule.scope.type else 0
    return _REQUEST_BYTES // (fewest + 1)


def _message_problems(rule: Rule, at: str, total: _Total) -> Iterator[Cause]:
    if not rule.message_expression:
        return
    path = f"{at}.messageExpression"
    try:
        compiled = rule.compiled_message()
    except CompileError as wrong:
        yield field_errors.invalid(
            path, rule.message_expression, f"messageExpression {wrong.message}"
        )
        return
    if compiled.checked.type.name != "string":
        message = "messageExpression must evaluate to a string"
        yield field_errors.invalid(path, rule.message_expression, message)
        return
    cost = rule.scope.estimated_cost(compiled)
    yield from _cost_problems(path, "estimated messageExpression cost", cost, total)


def _cost_problems(path: str, name: str, cost: int, total: _Total) -> Iterator[Cause]:
    if cost > _RULE_LIMIT:
        yield field_errors.forbidden(path, _cost_message(name, cost, _RULE_LIMIT))
    total.add(cost, path)


def _cost_message(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"
