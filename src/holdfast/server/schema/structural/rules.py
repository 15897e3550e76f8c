"""The CEL rules of a schema (``x-kubernetes-validations``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api import field_errors
from holdfast.api.cel.errors import BudgetExceeded, CompileError, CostExceeded, EvaluationError
from holdfast.api.cel.rules import Expression, RuleInput, RuleScope
from holdfast.api.cel.schema_types import schema_type
from holdfast.runtime.errors import Cause
from holdfast.server.schema.structural import messages

KEY = "x-kubernetes-validations"
_STEP = re.compile(r"\.([^.\[\]]+)|\['([^']+)'\]")
_OUT_OF_BUDGET = "running out of cost budget, no further validation rules will be run"
_CALL_COST = "no further validation rules will be run due to call cost exceeds limit for"
_NO_OVERLOAD = "call arguments did not match a supported operator, function or macro signature"
_LONGEST_MESSAGE = 5 * 1024
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}


class RuleEvaluationStopped(Exception):
    """The evaluation of rules stops because of ``cause``."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.message)
        self.cause = cause


def _stopped(path: str, value: Any, message: str) -> RuleEvaluationStopped:
    return RuleEvaluationStopped(_failed(path, value, message))


def _failed(path: str, value: Any, message: str) -> Cause:
    """Build the error of a rule that could not be evaluated; it shows the type of the value."""
    return field_errors.invalid(path, _TYPES.get(type(value), "number"), message)


def _can_be_message(text: str) -> bool:
    return bool(text) and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a schema."""

    text: str
    scope: RuleScope
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False
    sets_optional_old_self: bool = False
    has_blank_message: bool = False

    @classmethod
    def read(cls, raw: Mapping[str, Any], scope: RuleScope) -> Rule:
        """Parse one rule."""
        return cls(
            raw.get("rule") or "",
            scope,
            (raw.get("message") or "").strip(),
            raw.get("messageExpression") or "",
            raw.get("reason") or "",
            raw.get("fieldPath") or "",
            bool(raw.get("optionalOldSelf")),
            raw.get("optionalOldSelf") is not None,
            bool(raw.get("message")) and not raw["message"].strip(),
        )

    def compiled(self) -> Expression:
        """Compile the rule, or raise CompileError; the result is kept."""
        return self.scope.compile(self.text, optional_old_self=self.optional_old_self)

    def compiled_message(self) -> Expression:
        """Compile the messageExpression, or raise CompileError; the result is kept."""
        return self.scope.compile(self.message_expression, optional_old_self=self.optional_old_self)

    @property
    def uses_old_self(self) -> bool:
        """Whether it compares with the previous value."""
        try:
            return self.compiled().uses_old_self
        except CompileError:
            return False

    def evaluate(self, rule_input: RuleInput, value: Any, path: str) -> Cause | None:
        """Return what is wrong with a value, or None; raise RuleEvaluationStopped over budget."""
        rule_text = self.message or self.text.strip()
        path = path or messages.NO_FIELD
        try:
            result = self.compiled().value(rule_input)
        except BudgetExceeded:
            raise _stopped(path, value, f"validation failed due to {_OUT_OF_BUDGET}") from None
        except CostExceeded as failure:
            message = f"'{failure.message}': {_CALL_COST} rule: {rule_text}"
            raise _stopped(path, value, message) from None
        except CompileError as failure:
            return _failed(path, value, f"rule compile error: {failure.message}")
        except EvaluationError as failure:
            if failure.message.startswith("no such overload"):
                message = f"'no such overload': {_NO_OVERLOAD} for rule: {rule_text}"
                return _failed(path, value, message)
            return _failed(path, value, f"{failure.message} evaluating rule: {rule_text}")
        if result is True:
            return None
        below = _relative_path(self.field_path)
        at = below.lstrip(".") if below and path == messages.NO_FIELD else path + below
        return self._cause(self._message(rule_input, value, at), value, at)

    def _message(self, rule_input: RuleInput, value: Any, path: str) -> str:
        if self.message_expression:
            try:
                custom_message = self.compiled_message().value(rule_input)
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


def read_rules(schema: Mapping[str, Any], *, is_resource: bool) -> tuple[Rule, ...]:
    """Parse the rules of a schema, without nested schemas."""
    raw = schema.get(KEY) or ()
    if not raw:
        return ()
    scope = RuleScope(schema_type(schema, is_resource=is_resource))
    return tuple(Rule.read(one, scope) for one in raw)


def _relative_path(field_path: str) -> str:
    """Convert the fieldPath of a rule to a path below the value.

    >>> _relative_path(".name"), _relative_path(".a['b-c']"), _relative_path("")
    ('.name', '.a[b-c]', '')
    """
    steps = _STEP.findall(field_path)
    return "".join(f".{plain}" if plain else f"[{quoted}]" for plain, quoted in steps)
