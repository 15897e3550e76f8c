"""Read Go struct definitions: only the names of fields in JSON and protobuf."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([*\[\]\w.]+(?:\[\w+\][\w.*]+)?)\s+`([^`]*)`", re.M)
_SLICE_TYPE = re.compile(r"^type (\w+) \[\]", re.M)
_TAG = re.compile(r'(\w+):"([^"]*)"')


@dataclass(frozen=True)
class GoField:
    """One struct field as its tags describe it."""

    json_name: str
    pointer: bool
    omit_empty: bool
    inline: bool


@dataclass(frozen=True)
class GoPackage:
    """The structs of a package by name, their fields by protobuf number, and its list types."""

    structs: dict[str, dict[int, GoField]]
    list_types: frozenset[str]


def read_package(directory: Path) -> GoPackage:
    """Read every hand-written Go file of a directory."""
    structs: dict[str, dict[int, GoField]] = {}
    lists: set[str] = set()
    for path in sorted(directory.glob("*.go")):
        if path.name.endswith("_test.go") or path.name.startswith(("generated.", "zz_generated")):
            continue
        source = path.read_text()
        lists.update(_SLICE_TYPE.findall(source))
        for name, body in _STRUCT.findall(source):
            structs[name] = dict(_fields(body))
    return GoPackage(structs, frozenset(lists))


def _fields(body: str):
    for _, kind, tags in _FIELD.findall(body):
        tag = dict(_TAG.findall(tags))
        parts = tag.get("protobuf", "").split(",")
        if len(parts) < 2 or not parts[1].isdigit():
            continue
        json_name, *options = tag.get("json", "").split(",")
        yield (
            int(parts[1]),
            GoField(
                json_name if json_name != "-" else "",
                pointer=kind.startswith("*"),
                omit_empty="omitempty" in options or "omitzero" in options,
                inline="inline" in options or ("json" in tag and not json_name),
            ),
        )
