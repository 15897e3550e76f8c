"""Kinds and fields that are stored but have no effect, each with the warning for its users.

A write of such an object gets the text as a warning. docs/status.md lists the same texts, and a
test compares the two. Remove a text from the kind's descriptor and from the page when the feature
is implemented; the test also lists what acts on each of the other built-in kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

PAGE = "docs/status.md"


@dataclass(frozen=True, slots=True)
class UnimplementedField:
    """A field that is stored but has no effect when it is set, or set to one of ``values``."""

    path: tuple[str, ...]
    """Keys from the root of the object; ``[]`` stands for every item of a list, and a last key
    that ends in ``/*`` for every key of a domain."""
    warning: str
    values: tuple[str, ...] = ()

    def prefixed(self, *prefix: str) -> UnimplementedField:
        """Return the same field in an object that contains such an object."""
        return UnimplementedField((*prefix, *self.path), self.warning, self.values)


@dataclass(frozen=True, slots=True)
class UnimplementedFeatures:
    """The fields of a kind that have no effect; with ``warning`` the whole kind has none."""

    warning: str = ""
    fields: tuple[UnimplementedField, ...] = ()
    _tree: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tree", _tree(self.fields))

    def __bool__(self) -> bool:
        return bool(self.warning or self.fields)

    def warnings(self, obj: Any) -> list[str]:
        """Return the warnings about an object."""
        found = [self.warning] if self.warning else []
        found += _warnings(obj, self._tree)
        return [f"{warning} ({PAGE})" for warning in dict.fromkeys(found)]


def _tree(fields: Iterable[UnimplementedField]) -> dict[str, Any]:
    """Arrange fields in a tree by their paths, so that an object is walked once."""
    root: dict[str, Any] = {}
    for one in fields:
        node = root
        for key in one.path[:-1]:
            node = node.setdefault(key, {})
        node[one.path[-1]] = one
    return root


def _warnings(value: Any, node: dict[str, Any] | UnimplementedField) -> Iterator[str]:
    if isinstance(node, UnimplementedField):
        if value in node.values if node.values else value:
            yield node.warning
    elif isinstance(value, list):
        for item in value if "[]" in node else ():
            yield from _warnings(item, node["[]"])
    elif isinstance(value, dict):
        for key, child in node.items():
            if key in value:
                yield from _warnings(value[key], child)
            elif key.endswith("/*"):
                named = any(value[one] for one in value if one.startswith(key[:-1]))
                yield from _warnings(named, child)


FULLY_IMPLEMENTED = UnimplementedFeatures()
