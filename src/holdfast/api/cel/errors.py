"""Errors of expressions; the engine's messages are reworded as cel-go's."""

from __future__ import annotations

import re

from holdfast.runtime.errors import Refused

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"
_STATUS = re.compile(r"^[A-Z_]+: |\[[A-Z_]+\]$")
_CONVERSION = "type conversion error from '{}' to '{}'"
_REWORDED = tuple((re.compile(pattern), new) for pattern, new in (
    (r"undeclared reference to 'device\.(\w+)' \(in container ''\)", r"undefined field '\1'"),
    (r"(undefined field '\w+') not found in struct '\w+'", r"\1"),
    (r"expression of type '([^']*)' cannot be the operand of a select operation",
     r"type '\1' does not support field selection"),
    (r"cannot be the range of a comprehension", "cannot be range of a comprehension"),
    (r"has\(\) argument must be a field selection", "invalid argument to has() macro"),
    (r'Key not found in map : "?([^"]*)"?', r"no such key: \1"),
    (r"Index error: index=(-?\d+) size=\d+", r"index out of bounds: \1"),
    (r"No matching overloads found : .*|no such overload: .*", "no such overload"),
    (r"^divide by zero$", "division by zero"),
    (r"^modulo by zero$", "modulus by zero"),
    (r"^cannot convert string to (\w+)$", _CONVERSION.format("string", r"\1")),
    (r"^String to Duration conversion failed$",
     _CONVERSION.format("string", "google.protobuf.Duration")),
    (r"^String to Timestamp conversion failed$",
     _CONVERSION.format("string", "google.protobuf.Timestamp")),
    (r"Iteration budget exceeded", COST_EXCEEDED),
))  # fmt: skip
_NO_OVERLOAD = re.compile(
    r"(<input>:\d+:(\d+): found no matching overload for '([\w.]+)' applied to) '\((.*)\)'"
    r"\n \| (.*)"
)
_AFTER_ERROR = re.compile(r"\nERROR: <input>:\d+:\d+: [^\n]*'\*error\*'[^\n]*(?:\n \| [^\n]*){2}")


def as_cel_go_message(text: str) -> str:
    """Rewrite a message of the engine as cel-go's, where the two correspond.

    >>> as_cel_go_message('NOT_FOUND: Key not found in map : "memory"')
    'no such key: memory'
    """
    message = _STATUS.sub("", text).rstrip()
    message = _AFTER_ERROR.sub("", message)
    for engine, upstream in _REWORDED:
        message = engine.sub(upstream, message)
    return _NO_OVERLOAD.sub(_with_receiver, message)


def _with_receiver(match: re.Match[str]) -> str:
    """Write the types of a method's call as ``receiver.(arguments)``."""
    start, column, name, types, source = match.groups()
    before = source[: int(column) - 1]
    if not before.endswith(f".{name}"):
        return match[0]
    receiver, rest = _split_first(types)
    return f"{start} '{receiver}.({rest})'\n | {source}"


def _split_first(types: str) -> tuple[str, str]:
    """Split at the first comma outside of brackets.

    >>> _split_first("map(string, int), bool")
    ('map(string, int)', 'bool')
    """
    depth = 0
    for i, sign in enumerate(types):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            return types[:i], types[i + 2 :]
    return types, ""


def located(expression: str, offset: int, message: str) -> str:
    """Return a message with the place that it is about, as cel-go shows it.

    >>> print(located("[1, 'a']", 4, "is wrong"))
    ERROR: <input>:1:5: is wrong
     | [1, 'a']
     | ....^
    """
    before = expression[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
    source = expression.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {message}\n | {source}\n | {'.' * column}^"


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
