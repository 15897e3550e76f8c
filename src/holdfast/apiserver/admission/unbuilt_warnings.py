"""Warn users of kinds and fields that are stored but not acted on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.apiserver.metadata import content_changed
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.unbuilt import FIELDS, KINDS, Field

Object = dict[str, Any]
_PAGE = "docs/status.md"


def unbuilt_warnings(op: Operation, new: Object, old: Object | None = None) -> list[str]:
    """List the sentences about a new or changed object; none for components of the cluster.

    A change of nothing but metadata or status is not warned of.
    """
    kind, fields = KINDS.get(op.served.id), FIELDS.get(op.served.id, ())
    if (kind is None and not fields) or op.call.subresource or op.user.is_component:
        return []
    if old is not None and not content_changed(new, old):
        return []
    sentences = [] if kind is None else [kind]
    sentences += [field.sentence for field in fields if _is_set(new, field)]
    return [f"{sentence} ({_PAGE})" for sentence in dict.fromkeys(sentences)]


def _is_set(obj: Object, field: Field) -> bool:
    found = _values(obj, field.path)
    return any(value in field.only for value in found) if field.only else any(found)


def _values(value: Any, path: tuple[str, ...]) -> Iterable[Any]:
    """Find what is at a path, in every item of the lists on the way."""
    if not path:
        return (value,)
    head, rest = path[0], path[1:]
    if head == "[]":
        items = value if isinstance(value, list) else ()
        return [one for item in items for one in _values(item, rest)]
    return _values(value[head], rest) if isinstance(value, Mapping) and head in value else ()
