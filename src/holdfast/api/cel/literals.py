"""Checks of constants that upstream makes when an expression is compiled.

Patterns, times, durations, and the clauses of ``"…".format([…])``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from holdfast.api import durations
from holdfast.api.cel.errors import CompileError, located
from holdfast.api.cel.static_types import OPTIONAL, StaticType
from holdfast.api.cel.syntax import Constant, FunctionCall, Literal, Node, children
from holdfast.api.patterns import PatternError, matcher
from holdfast.runtime.errors import BadRequest

_PATTERNS = ("matches", "find", "findAll")
_Problem = tuple[Node, str]
"""The node that is wrong, and the message."""
_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII
)


def check_literals(expression: str, tree: Node, offsets: Mapping[int, int]) -> None:
    """Raise CompileError for a pattern, time, duration or mixed list that upstream refuses.

    ``offsets`` are the places of the nodes in the text, by ``id(node)``.
    """
    pending = [(tree, False)]
    while pending:
        node, formatted = pending.pop()
        for place, message in _problems(node, formatted):
            shown = located(expression, offsets.get(id(place), 0), message)
            raise CompileError(expression, f"compilation failed: {shown}")
        inside = formatted or (isinstance(node, FunctionCall) and node.function == "format")
        pending.extend((child, inside) for child in reversed(children(node)))


def _problems(node: Node, formatted: bool) -> Iterator[_Problem]:
    if isinstance(node, Literal) and not formatted:
        yield from _mixed(node)
    if not isinstance(node, FunctionCall) or not node.arguments:
        return
    if node.function == "format":
        yield from _format_problems(node)
        return
    last = node.arguments[1 if node.function in _PATTERNS else 0]
    if isinstance(last, Constant) and last.text is not None:
        accepts = _ACCEPTED.get(node.function)
        if accepts is not None and not accepts(last.text.decode(errors="replace")):
            yield last, f"invalid {node.function} argument"


def _format_problems(call: FunctionCall) -> Iterator[_Problem]:
    template, values = call.arguments
    if isinstance(template, Constant) and isinstance(values, Literal):
        text = (template.text or b"").decode(errors="replace")
        if message := format_problem(text, values):
            yield call, message


def _is_pattern(pattern: str) -> bool:
    try:
        matcher(pattern)
    except PatternError:
        return False
    return True


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


_ACCEPTED: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys(_PATTERNS, _is_pattern), "duration": _is_duration, "timestamp": is_timestamp,
}  # fmt: skip


def _mixed(literal: Literal) -> Iterator[_Problem]:
    """Yield the first item of a list or map whose type is not that of the others."""
    if not literal.is_map:
        yield from _mismatch(list(enumerate(literal.elements)), literal)
        return
    keys, values = literal.elements[::2], literal.elements[1::2]
    yield from _mismatch([(-1, key) for key in keys], literal)
    yield from _mismatch(list(enumerate(values)), literal)


def _mismatch(nodes: list[tuple[int, Node]], literal: Literal) -> Iterator[_Problem]:
    types = [_item_type(literal, index, node) for index, node in nodes]
    for (_, node), type_ in zip(nodes, types, strict=True):
        if type_ != types[0]:
            yield node, f"expected type '{types[0]}' but found '{type_}'"
            return


def _item_type(literal: Literal, index: int, node: Node) -> StaticType:
    if index in literal.optional and node.type.name == OPTIONAL and node.type.parameters:
        return node.type.parameters[0]
    return node.type


_CLAUSE = re.compile(r"%(?:(%)|(?:\.\d+)?(.)?)", re.DOTALL)
_TEXTS = ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes",
          "duration", "type", "null")  # fmt: skip
_NAMES = {"any": "google.protobuf.Any", "timestamp": "google.protobuf.Timestamp",
          "duration": "google.protobuf.Duration", "null": "null_type"}  # fmt: skip
_CLAUSE_TYPES = {
    "s": (_TEXTS, "string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
                  "lists, types, durations, and timestamps"),
    "d": (("int", "uint"), "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary"),
    "x": (("int", "uint", "string", "bytes"),
          "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (("int", "uint"), "octal clause can only be used on integers"),
}  # fmt: skip


def format_problem(template: str, arguments: Literal) -> str:
    """Return what is wrong with a template and its arguments, "" if nothing is.

    >>> format_problem("%q", Literal(()))
    'index 0 out of range'
    """
    used = 0
    for percent, letter in _CLAUSE.findall(template):
        if percent:
            continue
        if not letter:
            return "unexpected end of string"
        if used >= len(arguments.elements):
            return f"index {used} out of range"
        if problem := _clause_problem(letter, arguments.elements[used]):
            return problem
        used += 1
    if used < len(arguments.elements):
        return (
            f"too many arguments supplied to string.format (expected {used}, got "
            f"{len(arguments.elements)})"
        )
    return ""


def _clause_problem(letter: str, argument: Node) -> str:
    known = _CLAUSE_TYPES.get("x" if letter == "X" else letter)
    if known is None:
        return f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
    accepted, message = known
    wrong = _wrong_type(argument, accepted, nested=letter == "s")
    if wrong is None:
        return ""
    return f"error during formatting: {message}, was given {_NAMES.get(wrong.name, wrong.name)}"


def _wrong_type(node: Node, accepted: tuple[str, ...], *, nested: bool) -> StaticType | None:
    if node.type.name not in (*accepted, "dyn"):
        return node.type
    if nested and isinstance(node, Literal):
        for child in node.elements:
            if (wrong := _wrong_type(child, accepted, nested=True)) is not None:
                return wrong
    return None
