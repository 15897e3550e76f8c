"""Errors of expressions."""

from __future__ import annotations

import re

from holdfast.cel.messages import COST_EXCEEDED, as_cel_go_message
from holdfast.errors import Refused

MAX_EXPRESSION_BYTES = 10 * 1024
_MAX_EMPTY_LITERALS = 256
"""The engine needs quadratic time to infer the element types of empty lists and maps."""
_EMPTY_LITERAL = re.compile(r"\[\s*\]|\{\s*\}")
_BARE_DEVICE = "undeclared reference to 'device' "


TOO_DEEP = "compilation failed: too many nested operators, loops or calls"


class CompileError(Refused):
    """An expression does not compile; ``expression`` is its source text."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(message)
        self.expression = expression


def check_size(expression: str) -> None:
    """Raise CompileError for an expression that would take too long to compile."""
    try:
        size = len(expression.encode())
    except UnicodeEncodeError:
        raise CompileError(expression, "must be valid Unicode") from None
    if size > MAX_EXPRESSION_BYTES:
        raise CompileError(expression, f"must be at most {MAX_EXPRESSION_BYTES} bytes long")
    if len(_EMPTY_LITERAL.findall(expression)) > _MAX_EMPTY_LITERALS:
        message = f"must have at most {_MAX_EMPTY_LITERALS} empty lists and maps"
        raise CompileError(expression, message)


class EvaluationError(Refused):
    """An expression failed for one value; ``expression`` is its source text."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(message)
        self.expression = expression


class CostExceeded(EvaluationError):
    """An evaluation exceeds, or may exceed, the cost limit."""

    def __init__(self, expression: str) -> None:
        super().__init__(expression, COST_EXCEEDED)


class BudgetExceeded(Refused):
    """All evaluations for one object together exceed the cost limit."""


def engine_error(expression: str, engine_message: str) -> EvaluationError:
    """Return the error for an evaluation that the engine aborted."""
    message = as_cel_go_message(engine_message)
    if message == COST_EXCEEDED:
        return CostExceeded(expression)
    return EvaluationError(expression, message)


def is_bare_device(message: str) -> bool:
    """Return whether an expression uses ``device`` itself, not one of its fields."""
    return _BARE_DEVICE in message
