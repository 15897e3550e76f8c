"""How expressions fail, in the words a Kubernetes user knows from cel-go."""

from __future__ import annotations

import re

from holdfast.errors import Refused

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"
MAX_EXPRESSION_BYTES = 10 * 1024
_MOST_EMPTY_LITERALS = 256
"""The engine takes quadratic time to find out what they are lists and maps of."""
_EMPTY_LITERAL = re.compile(r"\[\s*\]|\{\s*\}")
_STATUS = re.compile(r"^[A-Z_]+: |\[[A-Z_]+\]$")
_REWORDED = (
    (re.compile(r"undeclared reference to 'device\.(\w+)'"), r"undefined field '\1'"),
    (re.compile(r'Key not found in map : "?([^"]*)"?'), r"no such key: \1"),
    (re.compile(r"No matching overloads found : (.*)"), r"no such overload: \1"),
    (re.compile(r"Iteration budget exceeded"), COST_EXCEEDED),
)
_BARE_DEVICE = re.compile(r"undeclared reference to 'device'")
_HINT = "; write device.attributes[...] in full, a bare `device` is not supported"


class CompileError(Refused):
    """An expression that cannot be evaluated on anything; ``expression`` is what was written."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(message)
        self.expression = expression


def check_size(expression: str) -> None:
    """Raise CompileError for an expression that takes the engine too long to compile."""
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        raise CompileError(expression, f"must be at most {MAX_EXPRESSION_BYTES} bytes long")
    if len(_EMPTY_LITERAL.findall(expression)) > _MOST_EMPTY_LITERALS:
        words = f"must have at most {_MOST_EMPTY_LITERALS} empty lists and maps"
        raise CompileError(expression, words)


class EvaluationError(Refused):
    """An expression that failed on one value; ``expression`` is what was written."""

    def __init__(self, expression: str, message: str) -> None:
        super().__init__(message)
        self.expression = expression


class CostExceeded(EvaluationError):
    """An evaluation that takes, or may take, more steps than it is allowed to."""

    def __init__(self, expression: str) -> None:
        super().__init__(expression, COST_EXCEEDED)


class BudgetExceeded(Refused):
    """All evaluations over one object together take more steps than they are allowed to."""


def failed(expression: str, engine_words: str) -> EvaluationError:
    """Make the error for an evaluation that the engine gave up."""
    words = in_upstreams_words(engine_words)
    if words == COST_EXCEEDED:
        return CostExceeded(expression)
    return EvaluationError(expression, words)


def in_upstreams_words(text: str) -> str:
    """Rewrite an engine message the way cel-go puts it, as far as the two can be matched.

    >>> in_upstreams_words('NOT_FOUND: Key not found in map : "memory"')
    'no such key: memory'
    """
    words = _STATUS.sub("", text).rstrip()
    if _BARE_DEVICE.search(words):
        words += _HINT
    for engine, upstream in _REWORDED:
        words = engine.sub(upstream, words)
    return words
