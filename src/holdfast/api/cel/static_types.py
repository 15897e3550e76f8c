"""Static types of expressions, as the checker infers and upstream's messages write them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from holdfast.api.protobuf_wire import message_fields

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "any", 2: "timestamp", 3: "duration"}
_SCALARS = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
OPTIONAL = "optional_type"


@dataclass(frozen=True, slots=True)
class StaticType:
    """A type and its parameters; messages of protobuf are object types.

    >>> str(StaticType("map", (StaticType("string"), StaticType("list", (StaticType("int"),)))))
    'map(string, list(int))'
    """

    name: str
    parameters: tuple[StaticType, ...] = ()
    is_object: bool = False

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.parameters))
        return f"{self.name}({inner})" if inner else self.name

    @property
    def is_scalar(self) -> bool:
        """Whether all values have the same size."""
        if self.name == OPTIONAL and self.parameters:
            return self.parameters[0].is_scalar
        return self.name in _SCALARS

    @property
    def has_fields(self) -> bool:
        """Whether selecting a field looks up a map or an object, not a value of unknown type."""
        return self.is_object or self.name == "map"


DYN = StaticType("dyn")


def _messages(data: bytes) -> list[bytes]:
    return [part for _, part in message_fields(data) if isinstance(part, bytes)]


@lru_cache(maxsize=1024)
def read_type(data: bytes) -> StaticType:
    """Parse the protobuf message ``cel.expr.Type``."""
    for number, content in message_fields(data):
        if isinstance(content, int):
            names = {2: {0: "null"}, 3: _PRIMITIVES, 4: _PRIMITIVES, 5: _WELL_KNOWN}
            return StaticType(names.get(number, {}).get(content, "dyn"))
        match number:
            case 6 | 7:
                name = "list" if number == 6 else "map"
                return StaticType(name, tuple(map(read_type, _messages(content))))
            case 9:
                return StaticType(content.decode(), is_object=True)
            case 11:
                return StaticType("type", (read_type(content),) if content else ())
            case 14:
                tag, *parameters = _messages(content)
                return StaticType(tag.decode(), tuple(map(read_type, parameters)))
    return DYN
