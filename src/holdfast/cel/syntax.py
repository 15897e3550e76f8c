"""The syntax tree of a compiled expression, parsed from the engine's serialized form.

That form is the protobuf message ``cel.expr.CheckedExpr`` inside ``google.protobuf.Any``; the
numbers below are its field numbers. It is parsed here because protobuf's own parser rejects trees
as deep as those that the engine's macros generate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.api.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, read_varint

_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant; ``text`` is its value if it is a string or bytes, else None."""

    text: bytes | None


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``, or ``has(operand.field)``."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function or operator; the receiver of a method is the first argument."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A list, or a map with keys and values alternating."""

    elements: tuple[Node, ...]
    is_map: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """An expanded macro: ``all``, ``exists``, ``map``, ``filter``, ``cel.bind`` and others."""

    variable: str
    over: Node
    result_name: str
    start: Node
    condition: Node
    step: Node
    result: Node


Node = Constant | Name | Select | FunctionCall | Literal | Loop


def read_tree(serialized: bytes) -> Node:
    """Parse the output of the engine's ``Expression.serialize``."""
    return _node(_last(_last(serialized, 2), 4))


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each field; the content of numeric fields is empty."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        wire = key & 7
        if wire == BYTES:
            size, at = read_varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        else:
            yield key >> 3, b""
            at = read_varint(data, at)[1] if wire == VARINT else at + _FIXED_SIZES[wire]


def _last(data: bytes, number: int) -> bytes:
    return next((content for n, content in _fields(data) if n == number), b"")


def _all(data: bytes, *numbers: int) -> tuple[Node, ...]:
    return tuple(_node(content) for n, content in _fields(data) if n in numbers)


def _node(data: bytes) -> Node:
    for number, content in _fields(data):
        if reader := _READERS.get(number):
            return reader(content)
    return Constant(None)


def _constant(data: bytes) -> Node:
    return Constant(next((text for n, text in _fields(data) if n in (6, 7)), None))


def _name(data: bytes) -> Node:
    return Name(_last(data, 1).decode())


def _select(data: bytes) -> Node:
    return Select(_node(_last(data, 1)), _last(data, 2).decode())


def _call(data: bytes) -> Node:
    return FunctionCall(_last(data, 2).decode(), _all(data, 1, 3))


def _list(data: bytes) -> Node:
    return Literal(_all(data, 1))


def _map(data: bytes) -> Node:
    entries = (entry for n, entry in _fields(data) if n == 2)
    return Literal(tuple(node for entry in entries for node in _all(entry, 3, 4)), is_map=True)


def _loop(data: bytes) -> Node:
    parts = dict(_fields(data))
    over, start, condition, step, result = (_node(parts.get(n, b"")) for n in (2, 4, 5, 6, 7))
    variable, result_name = (parts.get(n, b"").decode() for n in (1, 3))
    return Loop(variable, over, result_name, start, condition, step, result)


_READERS = {3: _constant, 4: _name, 5: _select, 6: _call, 7: _list, 8: _map, 9: _loop}
