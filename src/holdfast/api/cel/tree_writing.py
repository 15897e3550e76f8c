"""Write a syntax tree in the engine's serialized form, to be evaluated without another check."""

from __future__ import annotations

from itertools import count

from holdfast.api.cel.syntax import Constant, FunctionCall, Literal, Loop, Name, Node, Select
from holdfast.api.protobuf_wire import BYTES, VARINT

_PARSED = b"type.googleapis.com/cel.expr.ParsedExpr"


def write_tree(tree: Node) -> bytes:
    """Return what the engine's ``Env.deserialize`` reads."""
    return part(1, _PARSED) + part(2, part(2, _Writer().node(tree)))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def part(number: int, content: bytes) -> bytes:
    """Return a field of a message that holds bytes, a text or another message."""
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | VARINT) + _varint(value)


def _text(number: int, text: str) -> bytes:
    return part(number, text.encode())


class _Writer:
    """Writes nodes and numbers them."""

    def __init__(self) -> None:
        self._ids = count(1)

    def node(self, node: Node) -> bytes:
        out = _number(2, next(self._ids))
        match node:
            case Constant(_, encoded):
                return out + part(3, encoded)
            case Name(name):
                return out + part(4, _text(1, name))
            case Select(operand, field, tests_presence):
                test = _number(3, 1) if tests_presence else b""
                return out + part(5, part(1, self.node(operand)) + _text(2, field) + test)
            case FunctionCall():
                return out + part(6, self._call(node))
            case Literal(elements, True, optional):
                return out + part(8, self._entries(elements, optional))
            case Literal(elements, _, optional):
                packed = b"".join(map(_varint, optional))
                listed = b"".join(part(1, self.node(one)) for one in elements)
                return out + part(7, listed + (part(2, packed) if packed else b""))
            case Loop():
                return out + part(9, self._loop(node))

    def _call(self, call: FunctionCall) -> bytes:
        arguments = [self.node(one) for one in call.arguments]
        target = part(1, arguments.pop(0)) if call.is_member else b""
        return target + _text(2, call.function) + b"".join(part(3, a) for a in arguments)

    def _entries(self, elements: tuple[Node, ...], optional: tuple[int, ...]) -> bytes:
        out = b""
        for i in range(0, len(elements), 2):
            key, value = self.node(elements[i]), self.node(elements[i + 1])
            entry = _number(1, next(self._ids)) + part(3, key) + part(4, value)
            out += part(2, entry + (_number(5, 1) if i // 2 in optional else b""))
        return out

    def _loop(self, loop: Loop) -> bytes:
        nodes = {
            2: loop.over, 4: loop.start, 5: loop.condition, 6: loop.step, 7: loop.result,
        }  # fmt: skip
        names = {1: loop.variable, 3: loop.result_name, 8: loop.second_variable}
        out = b"".join(_text(number, name) for number, name in names.items() if name)
        return out + b"".join(part(number, self.node(one)) for number, one in nodes.items())
