"""The syntax tree of a checked expression, parsed from the engine's serialized form.

That form is the protobuf message ``cel.expr.CheckedExpr`` inside ``google.protobuf.Any``; the
numbers below are its field numbers. It is parsed here because protobuf's own parser rejects trees
as deep as those that the engine's macros generate. Macros and names are resolved by the engine:
``device.driver`` is one name, ``sets.contains(a, b)`` one call without a receiver.

A tree is needed because the engine only compiles and evaluates. Its cost is bounded before the
evaluation, upstream's estimate needs the static types, equal results are shared by the fields that
a selector reads, and an expression with Kubernetes' types is rewritten for an engine that does not
have them. A second parser of expressions would one day disagree with the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.api.cel.static_types import DYN, StaticType, read_type
from holdfast.api.protobuf_wire import VARINT, Fields, message_fields, read_varint

_BOOL, _INT, _UINT, _STRING, _BYTES = 2, 3, 4, 6, 7
_ACCUMULATORS = ("@result", "__result__")


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant; ``text`` is its value if it is a string or bytes, else None.

    ``encoded`` is the constant as the engine serializes it.
    """

    text: bytes | None
    encoded: bytes = b""
    type: StaticType = DYN

    @property
    def is_false(self) -> bool:
        """Whether it is the constant ``false``."""
        return self.encoded in (b"", bytes([_BOOL << 3 | VARINT, 0]))

    @property
    def number(self) -> int | None:
        """Its value if it is an integer, else None."""
        if not self.encoded or self.encoded[0] >> 3 not in (_INT, _UINT):
            return None
        value = read_varint(self.encoded, 1)[0]
        return value - (1 << 64) if self.encoded[0] >> 3 == _INT and value >> 63 else value


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str
    type: StaticType = DYN


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``, or ``has(operand.field)`` if it tests presence."""

    operand: Node
    field: str
    tests_presence: bool = False
    type: StaticType = DYN


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function or operator; the receiver of a method is the first argument."""

    function: str
    arguments: tuple[Node, ...]
    is_member: bool = False
    overloads: tuple[str, ...] = ()
    """The identifiers of the declarations that may apply; several if types are unknown."""
    type: StaticType = DYN


@dataclass(frozen=True, slots=True)
class Literal:
    """A list, or a map with keys and values alternating."""

    elements: tuple[Node, ...]
    is_map: bool = False
    optional: tuple[int, ...] = ()
    """Items or entries that are left out if they have no value."""
    type: StaticType = DYN


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
    second_variable: str = ""
    """The variable of the value, if ``variable`` is the key or index; "" if there is no second."""
    type: StaticType = DYN

    @property
    def binds(self) -> bool:
        """Whether it is ``cel.bind(result_name, start, result)``, without rounds."""
        empty = isinstance(self.over, Literal) and not self.over.elements
        never = isinstance(self.condition, Constant) and self.condition.is_false
        return empty and never and self.result_name not in _ACCUMULATORS


Node = Constant | Name | Select | FunctionCall | Literal | Loop


class MessageLiteral(Exception):
    """The expression constructs a protobuf message, as in ``google.protobuf.Int64Value{}``."""


def read_tree(serialized: bytes) -> tuple[Node, dict[int, int]]:
    """Parse the output of the engine's ``Expression.serialize``.

    Returns the tree, and the position of each node in the text, by ``id(node)``.
    """
    reader = _Reader(_content(message_fields(serialized), 2))
    return reader.root, reader.offsets


def _content(fields: Fields, number: int) -> bytes:
    """Return the content of a field that is not a number, b"" if it is absent."""
    for field_number, content in fields:
        if field_number == number and isinstance(content, bytes):
            return content
    return b""


def _text(fields: Fields, number: int) -> str:
    return _content(fields, number).decode()


class _Reader:
    """Parses one checked expression: its references and types by node, then its nodes."""

    def __init__(self, checked: bytes) -> None:
        self._overloads: dict[int, tuple[str, ...]] = {}
        self._types: dict[int, StaticType] = {}
        self._positions: dict[int, int] = {}
        self.offsets: dict[int, int] = {}
        root = b""
        for number, content in message_fields(checked):
            if not isinstance(content, bytes):
                continue
            if number == 2:
                entry = message_fields(content)
                self._overloads[_number(entry, 1)] = _overloads(_content(entry, 2))
            elif number == 3:
                entry = message_fields(content)
                self._types[_number(entry, 1)] = read_type(_content(entry, 2))
            elif number == 4:
                root = content
            elif number == 5:
                self._positions = _positions(content)
        self.root = self._node(root)

    def _node(self, data: bytes) -> Node:
        node_id, reader, node_content = 0, None, b""
        for number, content in message_fields(data):
            if isinstance(content, int):
                node_id = content
            else:
                reader, node_content = _READERS.get(number), content
        if reader is None:
            return Constant(None)
        node = reader(self, node_content, node_id, self._types.get(node_id, DYN))
        self.offsets[id(node)] = self._positions.get(node_id, 0)
        return node

    def _all(self, fields: Fields, *numbers: int) -> tuple[Node, ...]:
        return tuple(
            self._node(content)
            for n, content in fields
            if n in numbers and isinstance(content, bytes)
        )

    def constant(self, data: bytes, _: int, type_: StaticType) -> Node:
        texts = (text for n, text in message_fields(data) if n in (_STRING, _BYTES))
        text = next(texts, None)
        return Constant(text if isinstance(text, bytes) else None, data, type_)

    def name(self, data: bytes, _: int, type_: StaticType) -> Node:
        return Name(_text(message_fields(data), 1), type_)

    def select(self, data: bytes, _: int, type_: StaticType) -> Node:
        fields = message_fields(data)
        operand = self._node(_content(fields, 1))
        return Select(operand, _text(fields, 2), bool(_number(fields, 3)), type_)

    def call(self, data: bytes, node_id: int, type_: StaticType) -> Node:
        fields = message_fields(data)
        member = any(n == 1 for n, _ in fields)
        overloads = self._overloads.get(node_id, ())
        function, arguments = _text(fields, 2), self._all(fields, 1, 3)
        if function == "flatten" and len(arguments) == 1:
            type_ = _flat(arguments[0].type, type_)
        return FunctionCall(function, arguments, member, overloads, type_)

    def list(self, data: bytes, _: int, type_: StaticType) -> Node:
        fields = message_fields(data)
        packed, at, optional = _content(fields, 2), 0, []
        while at < len(packed):
            index, at = read_varint(packed, at)
            optional.append(index)
        return Literal(self._all(fields, 1), optional=tuple(optional), type=type_)

    def map(self, data: bytes, _: int, type_: StaticType) -> Node:
        fields = message_fields(data)
        if name := _text(fields, 1):
            raise MessageLiteral(name)
        entries = [message_fields(e) for n, e in fields if n == 2 and isinstance(e, bytes)]
        elements = tuple(node for entry in entries for node in self._all(entry, 3, 4))
        optional = tuple(i for i, entry in enumerate(entries) if _number(entry, 5))
        return Literal(elements, is_map=True, optional=optional, type=type_)

    def loop(self, data: bytes, _: int, type_: StaticType) -> Node:
        fields = message_fields(data)
        over, start, condition, step, result = (
            self._node(_content(fields, n)) for n in (2, 4, 5, 6, 7)
        )
        variable, result_name, second = (_text(fields, n) for n in (1, 3, 8))
        return Loop(variable, over, result_name, start, condition, step, result, second, type_)


def _flat(nested: StaticType, default: StaticType) -> StaticType:
    """Return the type of a list of lists that is flattened, which the engine does not infer."""
    inner = nested.parameters[0] if nested.name == "list" and nested.parameters else default
    return inner if inner.name == "list" else default


def _number(fields: Fields, number: int) -> int:
    """Return the value of a numeric field, 0 if it is absent."""
    return next((v for n, v in fields if n == number and isinstance(v, int)), 0)


def _overloads(reference: bytes) -> tuple[str, ...]:
    fields = message_fields(reference)
    return tuple(o.decode() for n, o in fields if n == 3 and isinstance(o, bytes))


def _positions(source_info: bytes) -> dict[int, int]:
    entries = (e for n, e in message_fields(source_info) if n == 4 and isinstance(e, bytes))
    listed = [message_fields(entry) for entry in entries]
    return {_number(entry, 1): _number(entry, 2) for entry in listed}


_READERS = {
    3: _Reader.constant, 4: _Reader.name, 5: _Reader.select, 6: _Reader.call, 7: _Reader.list,
    8: _Reader.map, 9: _Reader.loop,
}  # fmt: skip


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct children of a node, in the order in which they are written."""
    match node:
        case Select(operand):
            return (operand,)
        case FunctionCall(_, arguments):
            return arguments
        case Literal(elements):
            return elements
        case Loop():
            return (node.over, node.start, node.condition, node.step, node.result)
    return ()


def walk(tree: Node) -> Iterator[Node]:
    """Yield all nodes of a tree, parents first."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))
