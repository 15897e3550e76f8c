"""Turn ``generated.proto`` files and their Go structs into one decoding table.

The table::

    {"groups":   {"apps/v1": "k8s.io.api.apps.v1", ...},
     "messages": {"k8s.io.api.apps.v1.Deployment": [[1, "metadata", "<message>", 0], ...]}}

A field is ``[number, JSON name, type, flags]``; the type is ``string``, ``bytes``, ``bool``,
``int``, ``double`` or a message's name (for a map: of its values, keys are always strings). A
message whose Go type is a bare list (``ExtraValue``) is written with one field named ``""``.
"""

from __future__ import annotations

import re
from pathlib import Path

from api_data.gosource import GoField, GoPackage, read_package

REPEATED, MAP, KEEP, INLINE = 1, 2, 4, 8

_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}", re.M | re.S)
_FIELD = re.compile(
    r"^  (optional|repeated|required|map<string, ([\w.]+)>) ?([\w.]+)? (\w+) = (\d+);", re.M
)
_PACKAGE = re.compile(r"^package ([\w.]+);", re.M)
_GROUP = re.compile(r'^const GroupName = "([^"]*)"', re.M)
_SCALARS = {
    "string": "string", "bytes": "bytes", "bool": "bool", "double": "double",
    "int32": "int", "int64": "int",
}  # fmt: skip


def table(modules: list[Path], served: set[str]) -> dict:
    """Return the table of the modules; ``served`` are the packages of an API server's kinds."""
    groups: dict[str, str] = {}
    messages: dict[str, list] = {}
    for path in sorted(p for module in modules for p in module.rglob("generated.proto")):
        text = path.read_text()
        package = _PACKAGE.search(text)[1]
        machinery = package.startswith("k8s.io.apimachinery") and "testapigroup" not in package
        if not (machinery or package in served):
            continue
        go = read_package(path.parent)
        for name, body in _MESSAGE.findall(text):
            messages[f"{package}.{name}"] = _message(package, name, body, go)
        register = path.parent / "register.go"
        found = _GROUP.search(register.read_text()) if register.exists() else None
        if found:
            version = path.parent.name
            groups[f"{found[1]}/{version}".lstrip("/")] = package
    _check(messages)
    return {"groups": groups, "messages": messages}


def _message(package: str, name: str, body: str, go: GoPackage) -> list:
    struct = go.structs.get(name, {})
    fields = []
    for label, map_value, kind, field_name, number in _FIELD.findall(body):
        known = struct.get(int(number), GoField(field_name, True, False, False))
        flags = REPEATED * (label == "repeated") | MAP * bool(map_value) | INLINE * known.inline
        resolved = _type(package, map_value or kind)
        # JSON writes a zero when the field is a pointer, or a scalar without omitempty; an empty
        # struct that is no pointer is omitted, but the raw JSON {} is not.
        scalar = resolved in _SCALARS.values()
        raw = resolved.endswith(".runtime.RawExtension")
        if known.pointer or raw or (scalar and not known.omit_empty):
            flags |= KEEP
        json_name = "" if name in go.list_types else known.json_name or field_name
        fields.append([int(number), json_name, resolved, flags])
    return fields


def _type(package: str, name: str) -> str:
    if name in _SCALARS:
        return _SCALARS[name]
    return name[1:] if name.startswith(".") else f"{package}.{name}"


def _check(messages: dict[str, list]) -> None:
    for name, fields in messages.items():
        for _, field, kind, _ in fields:
            if kind not in _SCALARS.values() and kind not in messages:
                raise SystemExit(f"{name}.{field} is of the unknown message {kind}")
