"""The CEL rules of a schema (``x-kubernetes-validations``): which of them a value breaks.

A rule the engine cannot evaluate as Kubernetes would is left alone, and whoever writes the CRD is
told so: other people's CRDs stay usable. What is no CEL at all is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.api import field_errors
from holdfast.cel.errors import BudgetExceeded, CompileError, CostExceeded, EvaluationError
from holdfast.cel.rules import RuleInput, compile_expression, escape_field_name
from holdfast.errors import Cause

if TYPE_CHECKING:
    from holdfast.apiserver.schema.structural.node import SchemaNode

KEY = "x-kubernetes-validations"
_TYPED = frozenset({"date-time", "datetime", "date", "duration", "byte"})
"""Formats whose values are no strings in rules; the engine cannot be given such values."""
_UNKNOWN = ("undeclared reference", "no matching overload", "unsupported")
_STEP = re.compile(r"\.([^.\[\]]+)|\['([^']+)'\]")


_OUT_OF_BUDGET = "running out of cost budget, no further validation rules will be run"
_CALL_COST = "no further validation rules will be run due to call cost exceeds limit for"
_LONGEST_MESSAGE = 5 * 1024
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}


class RuleEvaluationStopped(Exception):
    """No further rule is evaluated, for the reason that ``cause`` gives."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.message)
        self.cause = cause


def _stopped(path: str, value: Any, words: str) -> RuleEvaluationStopped:
    return RuleEvaluationStopped(
        field_errors.invalid(path, _TYPES.get(type(value), "number"), words)
    )


def _can_be_message(text: str) -> bool:
    return bool(text) and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it stands in the schema."""

    text: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    not_evaluated_because: str = ""
    """Why it is not evaluated, or ""."""

    @classmethod
    def read(cls, raw: Mapping[str, Any], typed: Set[str]) -> Rule:
        """Read one entry of ``x-kubernetes-validations``; ``typed`` are fields it cannot see."""
        text = raw.get("rule") or ""
        return cls(
            text, (raw.get("message") or "").strip(), raw.get("messageExpression") or "",
            raw.get("reason") or "", raw.get("fieldPath") or "", _unbuilt(raw, text, typed),
        )  # fmt: skip

    def evaluate(self, given: RuleInput, value: Any, path: str) -> Cause | None:
        """Judge one value; None when the rule holds. Raises Stopped when it costs too much."""
        about = self.message or self.text.strip()
        try:
            verdict = compile_expression(self.text).value(given)
        except BudgetExceeded:
            raise _stopped(path, value, f"validation failed due to {_OUT_OF_BUDGET}") from None
        except CostExceeded as failure:
            words = f"'{failure.message}': {_CALL_COST} rule: {about}"
            raise _stopped(path, value, words) from None
        except (CompileError, EvaluationError) as failure:
            return _invalid(path, value, f"{failure.message} evaluating rule: {about}")
        if verdict is True:
            return None
        at = path + _plain(self.field_path)
        return self._cause(self._words(given, value, at), value, at)

    def _words(self, given: RuleInput, value: Any, path: str) -> str:
        if self.message_expression:
            try:
                made = compile_expression(self.message_expression).value(given)
            except BudgetExceeded:
                words = f"messageExpression evaluation failed due to {_OUT_OF_BUDGET}"
                raise _stopped(path, value, words) from None
            except CostExceeded:
                words = f"{_CALL_COST} messageExpression: {json.dumps(self.message_expression)}"
                raise _stopped(path, value, words) from None
            except (CompileError, EvaluationError):
                made = ""
            if isinstance(made, str) and _can_be_message(made.strip()):
                return made.strip()
        return self.message or f"failed rule: {self.text.strip()}"

    def _cause(self, words: str, value: Any, path: str) -> Cause:
        match self.reason:
            case "FieldValueForbidden":
                return field_errors.forbidden(path, words)
            case "FieldValueRequired":
                return field_errors.required(path, words)
            case "FieldValueDuplicate":
                return field_errors.duplicate(path, value)
        return _invalid(path, value, words)


def _invalid(path: str, value: Any, words: str) -> Cause:
    """Say that a value will not do; what is no scalar is not shown, as upstream."""
    if isinstance(value, dict | list):
        return Cause(path, f"Invalid value: {words}", "FieldValueInvalid")
    return field_errors.invalid(path, value, words)


def read_rules(schema: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Read the rules of one schema, not of those below it."""
    raw = schema.get(KEY) or ()
    return tuple(Rule.read(one, _typed_fields(schema, "self")) for one in raw)


def _typed_fields(schema: Mapping[str, Any], name: str) -> frozenset[str]:
    """Name the fields, of the value or of what is in it, that are no strings in rules."""
    found = {escape_field_name(name)} if schema.get("format") in _TYPED else set()
    below = list((schema.get("properties") or {}).items())
    below += [(name, schema[k]) for k in ("items", "additionalProperties")
              if isinstance(schema.get(k), dict)]  # fmt: skip
    return frozenset(found.union(*(_typed_fields(sub, key) for key, sub in below)))


def _unbuilt(raw: Mapping[str, Any], text: str, typed: Set[str]) -> str:
    if raw.get("optionalOldSelf"):
        return "optionalOldSelf is not built"
    words = set(re.findall(r"\w+", text))
    unseen = words & typed
    if unseen:
        return f"times, durations and bytes are not built in rules: {', '.join(sorted(unseen))}"
    try:
        compile_expression(text)
    except CompileError as wrong:
        if any(words in wrong.message for words in _UNKNOWN):
            return wrong.message
    return ""


def rule_problems(node: SchemaNode) -> Iterator[Cause]:
    """Yield what is no CEL in the rules of a schema, and of all below it."""
    for at, rule in rules_in(node):
        if not rule.text.strip():
            yield field_errors.required(f"{at}.rule", "must not be empty")
        for part, text in (("rule", rule.text), ("messageExpression", rule.message_expression)):
            if text.strip() and not rule.not_evaluated_because:
                yield from _problem(f"{at}.{part}", text)


def rules_in(node: SchemaNode, path: str = "") -> Iterator[tuple[str, Rule]]:
    """Walk over every rule of a schema, with the path at which it stands."""
    for i, rule in enumerate(node.rules):
        yield f"{path}.{KEY}[{i}]" if path else f"{KEY}[{i}]", rule
    for name, child in _children(node):
        yield from rules_in(child, f"{path}.{name}" if path else name)


def _problem(path: str, text: str) -> Iterator[Cause]:
    try:
        compile_expression(text)
    except CompileError as wrong:
        yield field_errors.invalid(path, text, wrong.message)


def _children(node: SchemaNode) -> Iterator[tuple[str, SchemaNode]]:
    yield from ((f"properties[{name}]", child) for name, child in node.properties.items())
    if node.items is not None:
        yield "items", node.items
    if node.additional_properties is not None and not isinstance(node.additional_properties, bool):
        yield "additionalProperties", node.additional_properties


def _plain(field_path: str) -> str:
    """Write a rule's fieldPath as a path below the value.

    >>> _plain(".name"), _plain(".a['b-c']"), _plain("")
    ('.name', '.a[b-c]', '')
    """
    steps = _STEP.findall(field_path)
    return "".join(f".{plain}" if plain else f"[{quoted}]" for plain, quoted in steps)
