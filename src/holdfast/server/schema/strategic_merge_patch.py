"""Strategic merge patch: merge lists by the merge keys of the built-in kinds.

Besides values, a patch may contain directives: ``$patch`` (replace, delete or merge this map, or
one item of a list), ``$retainKeys`` (drop all other keys), ``$deleteFromPrimitiveList/<field>`` and
``$setElementOrder/<field>``. Null removes a field.

A patch is applied without a pause, so no directive may take quadratic time: items are found by
dictionaries of their keys. Lists in lists have no merge keys and are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.api.resource import Resource
from holdfast.runtime.errors import BadRequest, Unsupported
from holdfast.server.schema.fields import FieldInfo, Gvk, fields_of, type_of

_MARKER, _RETAIN = "$patch", "$retainKeys"
_DELETE_LIST, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
_ABSENT = object()
_UNKNOWN = FieldInfo("any")


def strategic_merge(
    kind: Resource[Any] | Gvk, current: Mapping[str, Any], patch: Mapping[str, Any]
) -> dict[str, Any]:
    """Apply a strategic merge patch and return the new object.

    The inputs are not changed; unpatched parts are shared with ``current``. Raises Unsupported
    (415) for a kind without merge keys (custom resources), BadRequest for an invalid patch.
    """
    type_name = type_of(kind)
    if type_name is None:
        raise Unsupported(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"
        )
    return _merge_map(current, patch, type_name, "")


def _merge_map(
    current: Mapping[str, Any], patch: Mapping[str, Any], type_name: str, path: str
) -> dict[str, Any]:
    directive = patch.get(_MARKER)
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != _MARKER}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _invalid_patch(
            path, f"unknown patch type: {directive!r}; use replace, delete or merge"
        )
    merged = _retained(current, patch, path)
    known = fields_of(type_name)
    for name in _changed_fields(patch):
        where = f"{path}.{name}" if path else name
        value = _merge_field(merged.get(name), name, patch, known.get(name, _UNKNOWN), where)
        if value is _ABSENT:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged


def _changed_fields(patch: Mapping[str, Any]) -> dict[str, None]:
    """Return the fields that a patch or its directives change, in order."""
    names: dict[str, None] = {}
    for key in patch:
        if key.startswith((_DELETE_LIST, _ORDER)):
            names[key.partition("/")[2]] = None
        elif key not in (_MARKER, _RETAIN):
            names[key] = None
    return names


def _retained(current: Mapping[str, Any], patch: Mapping[str, Any], path: str) -> dict[str, Any]:
    if _RETAIN not in patch:
        return dict(current)
    keep = {one for one in _list(patch[_RETAIN], path, _RETAIN) if isinstance(one, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in keep:
            raise _invalid_patch(
                path, f"patch content doesn't match retainKeys list: {key} is not in it"
            )
    return {k: v for k, v in current.items() if k in keep}


def _merge_field(
    current_value: Any, name: str, patch: Mapping[str, Any], info: FieldInfo, path: str
) -> Any:
    """Return the new value of a field, or _ABSENT."""
    value = patch.get(name, _ABSENT)
    if value is None:
        return _ABSENT
    merged = _merge_value(current_value, value, info, path)
    if _DELETE_LIST + name in patch and isinstance(merged, list):
        listed = _list(patch[_DELETE_LIST + name], path, _DELETE_LIST + name)
        deleted = {_identity(one, "", path) for one in listed}
        merged = [item for item in merged if _identity(item, "", path) not in deleted]
    if _ORDER + name in patch and isinstance(merged, list):
        order = _list(patch[_ORDER + name], path, _ORDER + name)
        wanted = [_identity(one, info.merge_key, path) for one in order]
        patched_items = value if isinstance(value, list) else []
        _check_order(patched_items, wanted, info.merge_key, path)
        server_order = _server_order(
            current_value if isinstance(current_value, list) else [], merged, info, path
        )
        merged = _in_order(merged, wanted, server_order, info.merge_key, path)
    return merged


def _merge_value(current_value: Any, value: Any, info: FieldInfo, path: str) -> Any:
    if value is _ABSENT:
        return _ABSENT if current_value is None else current_value
    if isinstance(current_value, dict) and isinstance(value, dict):
        if "replace" in info.strategies:
            return _without_directives(value)
        return _merge_map(current_value, value, info.type if info.shape != "map" else "", path)
    if isinstance(current_value, list) and isinstance(value, list) and "merge" in info.strategies:
        return _merge_list(current_value, value, info, path)
    return _without_directives(value)


def _merge_list(
    current_value: list[Any], patch: list[Any], info: FieldInfo, path: str
) -> list[Any]:
    key = info.merge_key
    if not any(isinstance(one, dict) for one in (*current_value, *patch)):
        merged = list(dict.fromkeys(_identity(one, "", path) for one in (*current_value, *patch)))
        return _in_order(merged, patch, current_value, "", path)
    if not key:
        raise _invalid_patch(path, "cannot merge lists without merge key")
    plain, current_value, replaced = _special_items(current_value, patch, key, path)
    if replaced:
        return [_without_directives(item) for item in plain]
    merged = list(current_value)
    places = {_identity(item, key, path): i for i, item in reversed(list(enumerate(current_value)))}
    for item in plain:
        at = places.get(_identity(item, key, path))
        if at is None:
            merged.append(_without_directives(item))
        else:
            merged[at] = _merge_map(merged[at], item, info.type, f"{path}[{at}]")
    return _in_order(merged, [_identity(i, key, path) for i in plain], current_value, key, path)


def _special_items(
    current_value: list[Any], patch: list[Any], key: str, path: str
) -> tuple[list[Any], list[Any], bool]:
    """Apply the ``$patch`` of list items.

    Return the items to merge, the remaining list, and whether the list is replaced.
    """
    plain, replaced = [], False
    deleted: set[Any] = set()
    for item in patch:
        directive = item.get(_MARKER) if isinstance(item, dict) else None
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            deleted.add(_identity(item, key, path))
        elif directive == "replace":
            replaced = True
        else:
            raise _invalid_patch(path, f"unknown patch type: {directive!r}; use delete or replace")
    if deleted:
        current_value = [one for one in current_value if _identity(one, key, path) not in deleted]
    return plain, current_value, replaced


def _server_order(
    current_value: list[Any], merged: list[Any], info: FieldInfo, path: str
) -> list[Any]:
    """Return the order on the server, in which new items take the places of deleted ones.

    This is upstream's order; kubectl apply depends on the position of a replaced container.
    """
    was = {_identity(one, info.merge_key, path) for one in current_value}
    now = {_identity(one, info.merge_key, path) for one in merged}
    stayed = [one for one in current_value if _identity(one, info.merge_key, path) in now]
    added = [one for one in merged if _identity(one, info.merge_key, path) not in was]
    return stayed + added[: len(current_value) - len(stayed)]


def _in_order(
    merged: list[Any], wanted: Sequence[Any], server_order: list[Any], key: str, path: str
) -> list[Any]:
    """Put the items of the patch in its order; the other items keep their places among them."""
    rank = {one: i for i, one in enumerate(wanted)}
    place = {_identity(one, key, path): i for i, one in enumerate(server_order)}
    pairs = [(_identity(item, key, path), item) for item in merged]
    named = deque(sorted((p for p in pairs if p[0] in rank), key=lambda p: rank[p[0]]))
    others = deque(
        sorted((p for p in pairs if p[0] not in rank), key=lambda p: place.get(p[0], len(place)))
    )
    out = []
    while named and others:
        mine, theirs = place.get(named[0][0]), place.get(others[0][0])
        server_first = mine is not None and theirs is not None and theirs < mine
        out.append((others if server_first else named).popleft())
    return [item for _, item in (*out, *named, *others)]


def _check_order(patch: list[Any], wanted: list[Any], key: str, path: str) -> None:
    """Raise BadRequest for a patch whose items are not in the order of its own directive."""
    if not wanted or not patch:
        return
    left = iter(wanted)
    for item in patch:
        if isinstance(item, dict) and _MARKER in item:
            continue
        if _identity(item, key, path) not in left:  # consumes the iterator: the order must match
            raise _invalid_patch(
                path, f"the order of the patch's items doesn't match {_ORDER}: {wanted}"
            )


def _identity(item: Any, key: str, path: str) -> Any:
    if not key:
        if isinstance(item, dict | list):
            raise _invalid_patch(path, "lists of lists are not supported")
        return item
    if not isinstance(item, dict) or key not in item:
        raise _invalid_patch(path, f"map: {item} does not contain declared merge key: {key}")
    value = item[key]
    return value if not isinstance(value, dict | list) else str(value)


def _without_directives(value: Any) -> Any:
    """Return a new value without directives and nulls; _ABSENT if it has ``$patch: delete``."""
    if isinstance(value, dict):
        if value.get(_MARKER) == "delete":
            return _ABSENT
        kept = {k: _without_directives(v) for k, v in value.items() if not _is_directive(k)}
        return {k: v for k, v in kept.items() if v is not None and v is not _ABSENT}
    if isinstance(value, list):
        items = [one for one in value if not (isinstance(one, dict) and _MARKER in one)]
        return [_without_directives(one) for one in items]
    return value


def _is_directive(key: str) -> bool:
    return key in (_MARKER, _RETAIN) or key.startswith((_DELETE_LIST, _ORDER))


def _list(value: Any, path: str, directive: str) -> list[Any]:
    if not isinstance(value, list):
        raise _invalid_patch(path, f"{directive} must be a list")
    return value


def _invalid_patch(path: str, message: str) -> BadRequest:
    return BadRequest(f"invalid strategic merge patch at {path or 'the root'}: {message}")
