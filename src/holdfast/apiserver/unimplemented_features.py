"""What is stored but not acted on: kinds and fields, each with the sentence that users are told.

Writing such an object is answered with the sentence as a warning. docs/status.md lists the same
sentences, and a test compares the two. Remove a sentence from the kind's entry, and there, when
the thing is built; the test also names what acts on each of the other built-in kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_PAGE = "docs/status.md"


@dataclass(frozen=True, slots=True)
class UnimplementedField:
    """A field that is stored but has no effect when it is set, or set to one of ``values``."""

    path: tuple[str, ...]
    """Keys from the object down; ``[]`` stands for every item of a list."""
    warning: str
    values: tuple[str, ...] = ()

    def prefixed(self, *prefix: str) -> UnimplementedField:
        """Give the same field of an object that holds such an object."""
        return UnimplementedField((*prefix, *self.path), self.warning, self.values)


@dataclass(frozen=True, slots=True)
class UnimplementedFeatures:
    """What of one kind is not acted on: the kind itself, if ``warning`` says so, and fields."""

    warning: str = ""
    fields: tuple[UnimplementedField, ...] = ()
    _tree: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tree", _tree(self.fields))

    def __bool__(self) -> bool:
        return bool(self.warning or self.fields)

    def warnings(self, obj: Any) -> list[str]:
        """List the sentences about an object."""
        found = [self.warning] if self.warning else []
        found += _sentences(obj, self._tree)
        return [f"{sentence} ({_PAGE})" for sentence in dict.fromkeys(found)]


def _tree(fields: Iterable[UnimplementedField]) -> dict[str, Any]:
    """Arrange fields by their paths, so that an object is walked once."""
    root: dict[str, Any] = {}
    for one in fields:
        node = root
        for key in one.path[:-1]:
            node = node.setdefault(key, {})
        node[one.path[-1]] = one
    return root


def _sentences(value: Any, node: dict[str, Any] | UnimplementedField) -> Iterator[str]:
    if isinstance(node, UnimplementedField):
        if value in node.values if node.values else value:
            yield node.warning
    elif isinstance(value, list):
        for item in value if "[]" in node else ():
            yield from _sentences(item, node["[]"])
    elif isinstance(value, dict):
        for key, below in node.items():
            if key in value:
                yield from _sentences(value[key], below)


FULLY_IMPLEMENTED = UnimplementedFeatures()
