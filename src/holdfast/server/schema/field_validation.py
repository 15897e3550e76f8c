"""Field validation and pruning of built-in kinds.

An unknown or duplicate field is an error with fieldValidation=Strict, gets a warning with Warn, and
is ignored with Ignore. Unknown fields are never stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.field_errors import go_quoted
from holdfast.api.quantity import Quantity
from holdfast.api.resource import Resource
from holdfast.runtime.errors import BadRequest
from holdfast.server.schema.field_types import check_field_type, fill_nulls, type_mismatch
from holdfast.server.schema.fields import FieldInfo, FieldShape, Gvk, fields_of, type_of

WARNING_LIMIT = 100
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_STRING = ("scalar", "string")


def prune(kind: Resource[Any] | Gvk, obj: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of an object without unknown fields, and their paths.

    Parts without unknown fields are shared with ``obj``.
    """
    type_name = type_of(kind)
    if type_name is None:
        return dict(obj), []
    dropped: list[str] = []
    return prune_type(type_name, obj, "", dropped), dropped


def prune_type(type_name: str, value: Any, path: str, dropped: list[str]) -> Any:
    """Return a copy of a value without unknown fields; append their paths to ``dropped``.

    Raises BadRequest for a field of a wrong type; whether ``value`` itself is an object is not
    checked.
    """
    known = fields_of(type_name)
    if not known or not (type(value) is dict or isinstance(value, Mapping)):
        return value
    out: dict[str, Any] = {}
    for name, one in value.items():
        info = known.get(name)
        if info is not None and type(one) is str and (info.shape, info.scalar) == _STRING:
            out[name] = one  # most fields: without the cost of a path
            continue
        where = f"{path}.{name}" if path else name
        if info is None:
            dropped.append(where)
        elif one is not None:
            out[name] = _prune_field(type_name, info, one, where, dropped)
        elif info.scalar == "time":
            out[name] = None  # Go encodes an unset time as null
    return out


def prune_mistyped(type_name: str, value: Mapping[str, Any], path: str, mistyped: list[str]) -> Any:
    """Return a copy of a value without unknown fields and fields of wrong types.

    Appends the paths of fields of wrong types to ``mistyped``.
    """
    known = fields_of(type_name)
    out: dict[str, Any] = {}
    for name, one in value.items():
        where = f"{path}.{name}" if path else name
        info = known.get(name)
        if info is not None and one is not None:
            _put_well_typed(out, name, _Place(type_name, info, where), one, mistyped)
        elif info is not None and info.scalar == "time":
            out[name] = None  # Go encodes an unset time as null
    return out


@dataclass(frozen=True, slots=True)
class _Place:
    """A field of a type, and its path in an object."""

    holder: str
    info: FieldInfo
    path: str


def _put_well_typed(
    out: dict[Any, Any], name: Any, field_place: _Place, value: Any, mistyped: list[str]
) -> None:
    """Store a value in ``out`` without parts of wrong types; append the paths of those."""
    info = field_place.info
    if value is None and info.shape != "any" and info.scalar != "time":
        mistyped.append(field_place.path)
    elif isinstance(value, dict) and info.type and info.shape in ("object", "any"):
        out[name] = prune_mistyped(info.type, value, field_place.path, mistyped)
    elif isinstance(value, list) and info.shape == "list":
        kept: dict[int, Any] = {}
        for i, one in enumerate(value):
            _put_well_typed(kept, i, _item(field_place, f"[{i}]"), one, mistyped)
        out[name] = list(kept.values())
    elif isinstance(value, dict) and info.shape == "map":
        out[name] = {}
        for key, one in value.items():
            _put_well_typed(out[name], key, _item(field_place, f".{key}"), one, mistyped)
    else:
        try:
            if info.scalar == "quantity":
                Quantity.parse(value)
            out[name] = _prune_field(field_place.holder, info, value, field_place.path, [])
        except (BadRequest, TypeError):
            mistyped.append(field_place.path)


def _item(field_place: _Place, step: str) -> _Place:
    shape: FieldShape = (
        "object" if field_place.info.type else "scalar" if field_place.info.scalar else "any"
    )
    info = FieldInfo(shape, field_place.info.type, scalar=field_place.info.scalar)
    return _Place(field_place.holder, info, field_place.path + step)


def _prune_field(holder: str, info: FieldInfo, value: Any, path: str, dropped: list[str]) -> Any:
    if not info.type:
        value = fill_nulls(info, value)
        check_field_type(holder, info, value, path)
        return value
    if info.union:
        return _prune_union(info, value, path, dropped)
    if not isinstance(value, list if info.shape == "list" else dict):
        raise type_mismatch(holder, info, value, path)
    if info.shape == "object":
        return prune_type(info.type, value, path, dropped)
    return _prune_items(holder, info, value, path, dropped)


def _prune_union(info: FieldInfo, value: Any, path: str, dropped: list[str]) -> Any:
    """Prune a field that contains an object, a list of objects, or a boolean."""
    if isinstance(value, dict):
        return prune_type(info.type, value, path, dropped)
    if info.union == "bool":
        if not isinstance(value, bool):
            raise BadRequest("boolean or JSON schema expected")
        return value
    if not isinstance(value, list):
        return None  # as Go decodes it
    if not all(isinstance(one, dict) for one in value):
        raise BadRequest(f"json: cannot unmarshal {path} into Go value of type v1.JSONSchemaProps")
    return [prune_type(info.type, one, f"{path}[{i}]", dropped) for i, one in enumerate(value)]


def _prune_items(
    holder: str, info: FieldInfo, value: list[Any] | dict[str, Any], path: str, dropped: list[str]
) -> list[Any] | dict[str, Any]:
    def item(one: Any, at: str) -> Any:
        if one is None:
            return {}  # as Go decodes it
        if not isinstance(one, dict) and fields_of(info.type):
            raise type_mismatch(holder, info, one, path)
        return prune_type(info.type, one, at, dropped)

    if isinstance(value, list):
        return [item(one, f"{path}[{i}]") for i, one in enumerate(value)]
    return {key: item(one, f"{path}.{key}") for key, one in value.items()}


def duplicate_fields(body: bytes) -> list[str]:
    """Return the paths of duplicate fields in a JSON body."""
    try:
        # Objects with duplicate fields are decoded to lists of pairs, all others to dicts.
        value = json.loads(body, object_pairs_hook=_pairs)
    except ValueError as broken:
        raise BadRequest(f"the body is no JSON: {broken}") from None
    paths: list[str] = []
    if _has_duplicates(value):
        _collect_duplicates(value, "", paths)
    return paths


class _Pairs(list[tuple[str, Any]]):
    """An object with duplicate fields."""


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    obj = dict(pairs)
    return obj if len(obj) == len(pairs) else _Pairs(pairs)


def _has_duplicates(value: Any) -> bool:
    if isinstance(value, _Pairs):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_has_duplicates(one) for one in inner)


def _collect_duplicates(value: Any, path: str, paths: list[str]) -> None:
    if isinstance(value, _Pairs | dict):
        seen: set[str] = set()
        for name, one in value if isinstance(value, _Pairs) else value.items():
            where = f"{path}.{name}" if path else name
            if name in seen:
                paths.append(where)
            seen.add(name)
            _collect_duplicates(one, where, paths)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _collect_duplicates(one, f"{path}[{index}]", paths)


def field_warnings(unknown: Iterable[str], duplicate: Iterable[str] = ()) -> list[str]:
    r"""Return upstream's message for each field, which is a warning with fieldValidation=Warn.

    Each path is listed once, and at most as many as upstream lists.

    >>> field_warnings(["spec.foo", "a\nb"])
    ['unknown field "spec.foo"', 'unknown field "a\\nb"']
    """
    warnings = [f"duplicate field {go_quoted(path)}" for path in dict.fromkeys(duplicate)]
    warnings += [f"unknown field {go_quoted(path)}" for path in dict.fromkeys(unknown)]
    return warnings[:WARNING_LIMIT]


def strict_error_message(warnings: Iterable[str], kind: str = "", version: str = "") -> str:
    """Return the error message for fieldValidation=Strict; with a kind, upstream's full message.

    >>> strict_error_message(field_warnings(["spec.a", "spec.b"]))
    'strict decoding error: unknown field "spec.a", unknown field "spec.b"'
    """
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: ' if kind else ""
    return f"{prefix}strict decoding error: {', '.join(warnings)}"
