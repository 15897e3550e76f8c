"""The CEL rules of a schema (``x-kubernetes-validations``).

A rule that our CEL engine cannot evaluate as Kubernetes does is skipped, and a write of the CRD
gets a warning, so that third-party CRDs can be used. A rule that is not valid CEL is rejected.
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
"""Formats whose values are not strings in CEL, which our engine does not support."""
_UNKNOWN = ("undeclared reference", "no matching overload", "unsupported")
_STEP = re.compile(r"\.([^.\[\]]+)|\['([^']+)'\]")


_OUT_OF_BUDGET = "running out of cost budget, no further validation rules will be run"
_CALL_COST = "no further validation rules will be run due to call cost exceeds limit for"
_LONGEST_MESSAGE = 5 * 1024
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}


class RuleEvaluationStopped(Exception):
    """The evaluation of rules stops because of ``cause``."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.message)
        self.cause = cause


def _stopped(path: str, value: Any, message: str) -> RuleEvaluationStopped:
    return RuleEvaluationStopped(
        field_errors.invalid(path, _TYPES.get(type(value), "number"), message)
    )


def _can_be_message(text: str) -> bool:
    return bool(text) and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a schema."""

    text: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    not_evaluated_because: str = ""
    """Why it is not evaluated, "" if it is."""

    @classmethod
    def read(cls, raw: Mapping[str, Any], typed: Set[str]) -> Rule:
        """Parse one rule; ``typed`` are the fields that rules cannot use here."""
        text = raw.get("rule") or ""
        return cls(
            text,
            (raw.get("message") or "").strip(),
            raw.get("messageExpression") or "",
            raw.get("reason") or "",
            raw.get("fieldPath") or "",
            _reason_not_evaluated(raw, text, typed),
        )

    def evaluate(self, rule_input: RuleInput, value: Any, path: str) -> Cause | None:
        """Return what is wrong with a value, or None; raise RuleEvaluationStopped over budget."""
        rule_text = self.message or self.text.strip()
        try:
            result = compile_expression(self.text).value(rule_input)
        except BudgetExceeded:
            raise _stopped(path, value, f"validation failed due to {_OUT_OF_BUDGET}") from None
        except CostExceeded as failure:
            message = f"'{failure.message}': {_CALL_COST} rule: {rule_text}"
            raise _stopped(path, value, message) from None
        except (CompileError, EvaluationError) as failure:
            return _invalid(path, value, f"{failure.message} evaluating rule: {rule_text}")
        if result is True:
            return None
        at = path + _relative_path(self.field_path)
        return self._cause(self._message(rule_input, value, at), value, at)

    def _message(self, rule_input: RuleInput, value: Any, path: str) -> str:
        if self.message_expression:
            try:
                custom_message = compile_expression(self.message_expression).value(rule_input)
            except BudgetExceeded:
                message = f"messageExpression evaluation failed due to {_OUT_OF_BUDGET}"
                raise _stopped(path, value, message) from None
            except CostExceeded:
                message = f"{_CALL_COST} messageExpression: {json.dumps(self.message_expression)}"
                raise _stopped(path, value, message) from None
            except (CompileError, EvaluationError):
                custom_message = ""
            if isinstance(custom_message, str) and _can_be_message(custom_message.strip()):
                return custom_message.strip()
        return self.message or f"failed rule: {self.text.strip()}"

    def _cause(self, message: str, value: Any, path: str) -> Cause:
        match self.reason:
            case "FieldValueForbidden":
                return field_errors.forbidden(path, message)
            case "FieldValueRequired":
                return field_errors.required(path, message)
            case "FieldValueDuplicate":
                return field_errors.duplicate(path, value)
        return _invalid(path, value, message)


def _invalid(path: str, value: Any, message: str) -> Cause:
    """Build the error for an invalid value; as upstream, only scalars are shown."""
    if isinstance(value, dict | list):
        return Cause(path, f"Invalid value: {message}", "FieldValueInvalid")
    return field_errors.invalid(path, value, message)


def read_rules(schema: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Parse the rules of a schema, without nested schemas."""
    raw = schema.get(KEY) or ()
    return tuple(Rule.read(one, _typed_fields(schema, "self")) for one in raw)


def _typed_fields(schema: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the names of nested fields whose values are not strings in CEL."""
    found = {escape_field_name(name)} if schema.get("format") in _TYPED else set()
    nested = list((schema.get("properties") or {}).items())
    nested += [(name, schema[k]) for k in ("items", "additionalProperties")
              if isinstance(schema.get(k), dict)]  # fmt: skip
    return frozenset(found.union(*(_typed_fields(sub, key) for key, sub in nested)))


def _reason_not_evaluated(raw: Mapping[str, Any], text: str, typed: Set[str]) -> str:
    if raw.get("optionalOldSelf"):
        return "optionalOldSelf is not built"
    names = set(re.findall(r"\w+", text))
    unsupported = names & typed
    if unsupported:
        return (
            f"times, durations and bytes are not built in rules: {', '.join(sorted(unsupported))}"
        )
    try:
        compile_expression(text)
    except CompileError as wrong:
        if any(part in wrong.message for part in _UNKNOWN):
            return wrong.message
    return ""


def rule_problems(node: SchemaNode) -> Iterator[Cause]:
    """Yield the rules of a schema and its nested schemas that are not valid CEL."""
    for at, rule in rules_in(node):
        if not rule.text.strip():
            yield field_errors.required(f"{at}.rule", "must not be empty")
        for part, text in (("rule", rule.text), ("messageExpression", rule.message_expression)):
            if text.strip() and not rule.not_evaluated_because:
                yield from _problem(f"{at}.{part}", text)


def rules_in(node: SchemaNode, path: str = "") -> Iterator[tuple[str, Rule]]:
    """Yield all rules of a schema and its nested schemas, with their paths."""
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


def _relative_path(field_path: str) -> str:
    """Convert the fieldPath of a rule to a path below the value.

    >>> _relative_path(".name"), _relative_path(".a['b-c']"), _relative_path("")
    ('.name', '.a[b-c]', '')
    """
    steps = _STEP.findall(field_path)
    return "".join(f".{plain}" if plain else f"[{quoted}]" for plain, quoted in steps)
