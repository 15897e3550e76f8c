"""Strict field validation of built-in kinds: name the fields nobody knows.

kubectl leaves this to the server. With fieldValidation=Strict an unknown or duplicate field is an
error, with Warn a warning, with Ignore nothing; in every case unknown fields are not stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.api.field_errors import go_quoted
from holdfast.api.quantity import Quantity
from holdfast.api.resource import Resource
from holdfast.apiserver.schema.field_types import check_field_type, fill_nulls, type_mismatch
from holdfast.apiserver.schema.fields import FieldInfo, FieldShape, Gvk, fields_of, type_of
from holdfast.errors import BadRequest

WARNING_LIMIT = 100
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def prune(kind: Resource[Any] | Gvk, obj: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Copy the object without the fields its kind does not have; also list their paths.

    What has no unknown field is shared with ``obj``.
    """
    type_name = type_of(kind)
    if type_name is None:
        return dict(obj), []
    dropped: list[str] = []
    return prune_type(type_name, obj, "", dropped), dropped


def prune_type(type_name: str, value: Any, path: str, dropped: list[str]) -> Any:
    """Copy a value of a built-in type without unknown fields, adding their paths to ``dropped``.

    Raises BadRequest for a value that does not fit its field; ``value`` itself, if it is no
    object, is the caller's to refuse.
    """
    known = fields_of(type_name)
    if not known or not isinstance(value, Mapping):
        return value
    out: dict[str, Any] = {}
    for name, one in value.items():
        where = f"{path}.{name}" if path else name
        info = known.get(name)
        if info is None:
            dropped.append(where)
        elif one is not None:
            out[name] = _prune_field(type_name, info, one, where, dropped)
        elif info.scalar == "time":
            out[name] = None  # as Go writes a time that is not set
    return out


def prune_mistyped(type_name: str, value: Mapping[str, Any], path: str, misfits: list[str]) -> Any:
    """Copy a value of a built-in type without what does not fit the types of its fields.

    Adds the paths of that to ``misfits``. Fields the type does not have are left out too.
    """
    known = fields_of(type_name)
    out: dict[str, Any] = {}
    for name, one in value.items():
        where = f"{path}.{name}" if path else name
        info = known.get(name)
        if info is not None and one is not None:
            _put_fitting(out, name, _Place(type_name, info, where), one, misfits)
        elif info is not None and info.scalar == "time":
            out[name] = None  # as Go writes a time that is not set
    return out


@dataclass(frozen=True, slots=True)
class _Place:
    """A field of a type, and where it stands in an object."""

    holder: str
    info: FieldInfo
    path: str


def _put_fitting(
    out: dict[Any, Any], name: Any, place: _Place, value: Any, misfits: list[str]
) -> None:
    """Put what fits of a value into ``out``; a list or map keeps its items that fit."""
    info = place.info
    if value is None and info.shape != "any" and info.scalar != "time":
        misfits.append(place.path)
    elif isinstance(value, dict) and info.type and info.shape in ("object", "any"):
        out[name] = prune_mistyped(info.type, value, place.path, misfits)
    elif isinstance(value, list) and info.shape == "list":
        kept: dict[int, Any] = {}
        for i, one in enumerate(value):
            _put_fitting(kept, i, _item(place, f"[{i}]"), one, misfits)
        out[name] = list(kept.values())
    elif isinstance(value, dict) and info.shape == "map":
        out[name] = {}
        for key, one in value.items():
            _put_fitting(out[name], key, _item(place, f".{key}"), one, misfits)
    else:
        try:
            if info.scalar == "quantity":
                Quantity.parse(value)
            out[name] = _prune_field(place.holder, info, value, place.path, [])
        except (BadRequest, TypeError):
            misfits.append(place.path)


def _item(place: _Place, step: str) -> _Place:
    shape: FieldShape = "object" if place.info.type else "scalar" if place.info.scalar else "any"
    info = FieldInfo(shape, place.info.type, scalar=place.info.scalar)
    return _Place(place.holder, info, place.path + step)


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
    """Copy the value of a field that holds one object, or else a list of them or a boolean."""
    if isinstance(value, dict):
        return prune_type(info.type, value, path, dropped)
    if info.union == "bool":
        if not isinstance(value, bool):
            raise BadRequest("boolean or JSON schema expected")
        return value
    if not isinstance(value, list):
        return None  # as Go reads it
    if not all(isinstance(one, dict) for one in value):
        raise BadRequest(f"json: cannot unmarshal {path} into Go value of type v1.JSONSchemaProps")
    return [prune_type(info.type, one, f"{path}[{i}]", dropped) for i, one in enumerate(value)]


def _prune_items(
    holder: str, info: FieldInfo, value: list[Any] | dict[str, Any], path: str, dropped: list[str]
) -> list[Any] | dict[str, Any]:
    def item(one: Any, at: str) -> Any:
        if one is None:
            return {}  # as Go reads it
        if not isinstance(one, dict) and fields_of(info.type):
            raise type_mismatch(holder, info, one, path)
        return prune_type(info.type, one, at, dropped)

    if isinstance(value, list):
        return [item(one, f"{path}[{i}]") for i, one in enumerate(value)]
    return {key: item(one, f"{path}.{key}") for key, one in value.items()}


def duplicate_fields(body: bytes) -> list[str]:
    """List the paths of JSON fields that stand twice in one object of the body."""
    try:
        # Objects that hold a duplicate are read as lists of pairs, all others as dicts.
        value = json.loads(body, object_pairs_hook=_pairs)
    except ValueError as broken:
        raise BadRequest(f"the body is no JSON: {broken}") from None
    found: list[str] = []
    if _seen_twice(value):
        _collect(value, "", found)
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object in which a field stands twice."""


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Pairs(pairs)


def _seen_twice(value: Any) -> bool:
    if isinstance(value, _Pairs):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_seen_twice(one) for one in inner)


def _collect(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs | dict):
        seen: set[str] = set()
        for name, one in value if isinstance(value, _Pairs) else value.items():
            where = f"{path}.{name}" if path else name
            if name in seen:
                found.append(where)
            seen.add(name)
            _collect(one, where, found)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _collect(one, f"{path}[{index}]", found)


def field_warnings(unknown: Iterable[str], duplicate: Iterable[str] = ()) -> list[str]:
    r"""Word each field as upstream does; with fieldValidation=Warn each is one warning.

    There are as many as upstream reports at most, and each path once.

    >>> field_warnings(["spec.foo", "a\nb"])
    ['unknown field "spec.foo"', 'unknown field "a\\nb"']
    """
    found = [f"duplicate field {go_quoted(path)}" for path in dict.fromkeys(duplicate)]
    found += [f"unknown field {go_quoted(path)}" for path in dict.fromkeys(unknown)]
    return found[:WARNING_LIMIT]


def strict_error_message(words: Iterable[str], kind: str = "", version: str = "") -> str:
    """Join complaints to the error text of fieldValidation=Strict, upstream's when given a kind.

    >>> strict_error_message(field_warnings(["spec.a", "spec.b"]))
    'strict decoding error: unknown field "spec.a", unknown field "spec.b"'
    """
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: ' if kind else ""
    return f"{prefix}strict decoding error: {', '.join(words)}"
