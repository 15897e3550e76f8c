"""Checks of constants that upstream makes when an expression is compiled."""

from __future__ import annotations

import re
from datetime import datetime

from holdfast.api import durations
from holdfast.api.patterns import PatternError, matcher
from holdfast.cel.errors import CompileError
from holdfast.cel.format_clauses import format_problem
from holdfast.cel.static_types import OPTIONAL, StaticType
from holdfast.cel.syntax import Constant, FunctionCall, Literal, Node, children
from holdfast.errors import BadRequest

_PATTERNS = ("matches", "find", "findAll")
_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII
)


def check_literals(expression: str, tree: Node) -> None:
    """Raise CompileError for a pattern, time, duration or mixed list that upstream refuses."""
    pending = [(tree, False)]
    while pending:
        node, formatted = pending.pop()
        if message := _problem(node, formatted):
            raise CompileError(expression, f"compilation failed: ERROR: {message}")
        inside = formatted or (isinstance(node, FunctionCall) and node.function == "format")
        pending.extend((child, inside) for child in reversed(children(node)))


def _problem(node: Node, formatted: bool) -> str:
    if isinstance(node, Literal) and not formatted:
        return _mixed(node)
    if not isinstance(node, FunctionCall) or not node.arguments:
        return ""
    if node.function == "format":
        return _format_problem(node)
    last = node.arguments[1 if node.function in _PATTERNS else 0]
    if not isinstance(last, Constant) or last.text is None:
        return ""
    text = last.text.decode(errors="replace")
    match node.function:
        case "matches" | "find" | "findAll":
            return _pattern_problem(node.function, text)
        case "duration":
            return "" if _is_duration(text) else "invalid duration argument"
        case "timestamp":
            return "" if is_timestamp(text) else "invalid timestamp argument"
    return ""


def _format_problem(call: FunctionCall) -> str:
    template, values = call.arguments
    if not isinstance(template, Constant) or not isinstance(values, Literal):
        return ""
    return format_problem((template.text or b"").decode(errors="replace"), values)


def _pattern_problem(function: str, pattern: str) -> str:
    try:
        matcher(pattern)
    except PatternError as wrong:
        if function == "matches":
            return "invalid matches argument"
        return f"program instantiation failed: {wrong}"
    return ""


def _is_duration(text: str) -> bool:
    try:
        durations.parse(text)
    except BadRequest:
        return False
    return True


def is_timestamp(text: str) -> bool:
    """Return whether a text is a time as in RFC 3339.

    >>> is_timestamp("2020-02-29T23:59:59.5+01:00"), is_timestamp("2020-02-30T00:00:00Z")
    (True, False)
    """
    shape = _TIME.fullmatch(text)
    if shape is None:
        return False
    try:
        datetime(*map(int, shape.groups()))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


def _mixed(literal: Literal) -> str:
    """Return what is wrong with a list or map whose items have different types."""
    if literal.is_map:
        entries = range(0, len(literal.elements), 2)
        keys = [literal.elements[i].type for i in entries]
        values = [_item_type(literal, i // 2, literal.elements[i + 1]) for i in entries]
        return _mismatch(keys) or _mismatch(values)
    return _mismatch([_item_type(literal, i, node) for i, node in enumerate(literal.elements)])


def _item_type(literal: Literal, index: int, node: Node) -> StaticType:
    if index in literal.optional and node.type.name == OPTIONAL and node.type.parameters:
        return node.type.parameters[0]
    return node.type


def _mismatch(types: list[StaticType]) -> str:
    for one in types[1:]:
        if one != types[0]:
            return f"expected type '{types[0]}' but found '{one}'"
    return ""
