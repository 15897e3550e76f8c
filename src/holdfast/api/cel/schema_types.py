"""The static types of a CRD's values, from its schema, with the sizes that they may have.

Objects are protobuf messages for the checker. A message cannot hold lists of lists or maps of
lists; their items have the unknown type, so that errors in them are found only at evaluation.
Fields have the names that rules write: those that CEL cannot express are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from google.protobuf import descriptor_pb2

from holdfast.api.cel.ranges import DeclaredSize
from holdfast.api.cel.time_values import TYPES

_KEYWORDS = frozenset({"true", "false", "null", "in"})
_RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
    "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


def escape_field_name(name: str) -> str:
    """Return a field's name as rules write it; "" if they cannot.

    >>> escape_field_name("namespace"), escape_field_name("a-b"), escape_field_name("plain")
    ('__namespace__', 'a__dash__b', 'plain')
    """
    if name in _RESERVED or name in _KEYWORDS:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return ""
    for bad, good in _ESCAPES:
        name = name.replace(bad, good)
    return name


def field_spellings(name: str) -> list[str]:
    """Return all names under which rules may read a field: reserved words also as they are.

    >>> field_spellings("namespace"), field_spellings("a-b"), field_spellings("1")
    (['__namespace__', 'namespace'], ['a__dash__b'], [])
    """
    escaped = escape_field_name(name)
    return [escaped, *([name] if name in _RESERVED else [])] if escaped else []


_REQUEST_BYTES = 3 * 1024 * 1024
"""The largest request, which bounds sizes that a schema does not."""
_X = "x-kubernetes-"
_SCALARS = {"boolean": ("bool", 4), "number": ("double", 1), "integer": ("int", 1)}
_TEXT_SIZES = {
    "duration": (32, 3), "date": (12, 12), "date-time": (32, 21),
}  # fmt: skip
"""The most characters of a format, and the fewest bytes of its JSON."""
_STRING = {"type": "string"}
_METADATA = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}

_Field = descriptor_pb2.FieldDescriptorProto
_FIELD_TYPES = {
    "bool": _Field.TYPE_BOOL, "double": _Field.TYPE_DOUBLE, "int": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES,
}  # fmt: skip
_MESSAGES = {
    "timestamp": "Timestamp", "duration": "Duration", "dyn": "Value", "list": "ListValue",
    "map": "Struct",
}  # fmt: skip
_IMPORTS = ("struct", "timestamp", "duration")

RawSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaType:
    """A type: ``name`` is its CEL name, ``object`` for objects."""

    name: str
    size: DeclaredSize
    fewest_bytes: int
    """The fewest bytes of a value as JSON."""
    items: SchemaType | None = None
    fields: Mapping[str, SchemaType] = dataclass_field(default_factory=dict)
    list_type: str = ""
    """``set`` or ``map`` if the order of items does not count."""
    map_keys: tuple[str, ...] = ()

    def field(self, name: str) -> SchemaType | None:
        """Return the type of a field, or of a value of a map."""
        return self.items if self.name == "map" else self.fields.get(name)


def schema_type(schema: RawSchema, *, is_resource: bool = False) -> SchemaType | None:
    """Return the type of a schema's values; None if rules cannot use them.

    ``is_resource``: the schema is that of a whole object, which always has a name and a kind.
    """
    if schema.get(f"{_X}int-or-string"):
        longest = _longest(schema, _REQUEST_BYTES - 2)
        return SchemaType("dyn", DeclaredSize(longest), 1)
    if is_resource:
        fixed = {"kind": _STRING, "apiVersion": _STRING, "metadata": _METADATA}
        schema = {**schema, "properties": {**(schema.get("properties") or {}), **fixed}}
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind == "object":
        return _object(schema)
    if kind == "string":
        return _string(schema)
    if kind in _SCALARS:
        name, fewest = _SCALARS[kind]
        return SchemaType(name, DeclaredSize(), fewest)
    return None


def _nested(schema: Any) -> SchemaType | None:
    if not isinstance(schema, Mapping):
        return None
    return schema_type(schema, is_resource=bool(schema.get(f"{_X}embedded-resource")))


def _limit(schema: RawSchema, key: str, default: int) -> int:
    given = schema.get(key)
    return default if given is None else max(int(given), 0)


def _longest(schema: RawSchema, default: int) -> int:
    given = schema.get("maxLength")  # in characters, of four bytes at most
    return default if given is None else 4 * max(int(given), 0)


def _array(schema: RawSchema) -> SchemaType | None:
    items = _nested(schema.get("items"))
    if items is None:
        return None
    most = _limit(schema, "maxItems", (_REQUEST_BYTES - 2) // (items.fewest_bytes + 1))
    keys = tuple(escape_field_name(key) for key in schema.get(f"{_X}list-map-keys") or ())
    kind = schema.get(f"{_X}list-type") or ""
    size = DeclaredSize(most, items.size)
    return SchemaType("list", size, 2, items, list_type=kind, map_keys=keys)


def _object(schema: RawSchema) -> SchemaType | None:
    if isinstance(schema.get("additionalProperties"), Mapping):
        values = _nested(schema["additionalProperties"])
        if values is None:
            return None
        default = (_REQUEST_BYTES - 2) // (values.fewest_bytes + 6)
        most = _limit(schema, "maxProperties", default)
        return SchemaType("map", DeclaredSize(most, values.size, DeclaredSize()), 2, values)
    required = schema.get("required") or ()
    fields: dict[str, SchemaType] = {}
    fewest = 2
    for name, raw in (schema.get("properties") or {}).items():
        field_type = _nested(raw)
        if field_type is None:
            continue
        fields.update(dict.fromkeys(field_spellings(name), field_type))
        if name in required and raw.get("default") is None:
            fewest += len(name) + field_type.fewest_bytes + 4
    size = DeclaredSize(fields={name: one.size for name, one in fields.items()})
    return SchemaType("object", size, fewest, fields=fields)


def _string(schema: RawSchema) -> SchemaType:
    format_ = schema.get("format") or ""
    name = TYPES.get(format_, "string")
    if format_ in _TEXT_SIZES:
        most, fewest = _TEXT_SIZES[format_]
        return SchemaType(name, DeclaredSize(most), fewest)
    unbounded = _REQUEST_BYTES - 2
    if name == "bytes":
        return SchemaType(name, DeclaredSize(_limit(schema, "maxLength", unbounded)), 2)
    texts = [len(one.encode()) for one in schema.get("enum") or () if isinstance(one, str)]
    return SchemaType(name, DeclaredSize(_longest(schema, max(texts, default=unbounded))), 2)


def _entry_name(name: str) -> str:
    """Return the name that protobuf demands of the entries of a map field.

    >>> _entry_name("a_bC")
    'ABCEntry'
    """
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _entries(message: Any) -> list[str]:
    return [nested.name for nested in message.nested_type]


class MessageTypes:
    """The protobuf messages for the objects of one type."""

    def __init__(self, root: SchemaType) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(name="rules.proto", syntax="proto3")
        self._file.dependency.extend(f"google/protobuf/{name}.proto" for name in _IMPORTS)
        self._name = self._type_name(root)

    def described(self) -> tuple[str, bytes]:
        """Return the CEL type of the root, and the file of its messages; b"" if it has none."""
        return self._name, self._file.SerializeToString() if self._file.message_type else b""

    def _type_name(self, type_: SchemaType) -> str:
        if type_.name == "object":
            return self._message(type_)
        if type_.items is None:
            return type_.name
        inner = self._type_name(type_.items)
        return f"list<{inner}>" if type_.name == "list" else f"map<string, {inner}>"

    def _message(self, type_: SchemaType) -> str:
        message = self._file.message_type.add(name=f"selfType{len(self._file.message_type)}")
        message.options.deprecated_legacy_json_field_conflicts = True
        for i, (name, one) in enumerate(type_.fields.items()):
            self._field(message, name, i + 1 if i < 18_999 else i + 1_001, one)
        return str(message.name)

    def _field(self, message: Any, name: str, number: int, type_: SchemaType) -> None:
        added = message.field.add(name=name, number=number)
        added.label = _Field.LABEL_OPTIONAL
        if type_.items is not None and type_.name == "list":
            added.label = _Field.LABEL_REPEATED
            self._set_type(added, type_.items)
        elif type_.items is not None and _entry_name(name) not in _entries(message):
            added.label = _Field.LABEL_REPEATED
            entry = message.nested_type.add(name=_entry_name(name))
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=1)
            value = entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL)
            self._set_type(value, type_.items)
            added.type = _Field.TYPE_MESSAGE
            added.type_name = f".{message.name}.{entry.name}"
        else:
            self._set_type(added, type_)

    def _set_type(self, added: Any, type_: SchemaType) -> None:
        if type_.name in _FIELD_TYPES:
            added.type = _FIELD_TYPES[type_.name]
            return
        added.type = _Field.TYPE_MESSAGE
        if type_.name == "object":
            added.type_name = f".{self._message(type_)}"
        else:
            added.type_name = f".google.protobuf.{_MESSAGES[type_.name]}"
