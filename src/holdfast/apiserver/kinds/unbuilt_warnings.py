"""Warn users of kinds and fields that are stored but not acted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.apiserver.kinds.unbuilt import FIELDS, KINDS, Field
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.metadata import content_changed

Object = dict[str, Any]
_PAGE = "docs/status.md"


def _tree(fields: Iterable[Field]) -> dict[str, Any]:
    """Arrange fields by their paths, so that an object is walked once."""
    root: dict[str, Any] = {}
    for field in fields:
        node = root
        for key in field.path[:-1]:
            node = node.setdefault(key, {})
        node[field.path[-1]] = field
    return root


_TREES = {kind: _tree(fields) for kind, fields in FIELDS.items()}


def unbuilt_warnings(op: Operation, new: Object, old: Object | None = None) -> list[str]:
    """List the sentences about a new or changed object; none for components of the cluster.

    A change of nothing but metadata or status is not warned of.
    """
    kind, fields = KINDS.get(op.served.id), _TREES.get(op.served.id, {})
    if (kind is None and not fields) or op.call.subresource or op.user.is_component:
        return []
    if old is not None and not content_changed(new, old):
        return []
    sentences = [] if kind is None else [kind]
    sentences += _sentences(new, fields)
    return [f"{sentence} ({_PAGE})" for sentence in dict.fromkeys(sentences)]


def _sentences(value: Any, node: dict[str, Any] | Field) -> Iterator[str]:
    if isinstance(node, Field):
        if value in node.only if node.only else value:
            yield node.sentence
    elif isinstance(value, list):
        for item in value if "[]" in node else ():
            yield from _sentences(item, node["[]"])
    elif isinstance(value, dict):
        for key, below in node.items():
            if key in value:
                yield from _sentences(value[key], below)
