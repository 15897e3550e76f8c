"""The clauses of ``"…".format([…])`` with constant text: checked when an expression is compiled."""

from __future__ import annotations

import re

from holdfast.cel.static_types import StaticType
from holdfast.cel.syntax import Literal, Node

_CLAUSE = re.compile(r"%(?:(%)|(?:\.\d+)?(.)?)", re.DOTALL)
_TEXTS = ("list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes",
          "duration", "type", "null")  # fmt: skip
_NAMES = {"any": "google.protobuf.Any", "timestamp": "google.protobuf.Timestamp",
          "duration": "google.protobuf.Duration", "null": "null_type"}  # fmt: skip
_ACCEPTED = {
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
    known = _ACCEPTED.get("x" if letter == "X" else letter)
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
