"""Kinds and fields that are stored but have no effect, each with the warning for its users.

A write of such an object gets the text as a warning. docs/status.md lists the same texts, and a
test compares the two. Remove a text from the kind's descriptor and from the page when the feature
is implemented; the test also lists the component that acts on each of the other built-in kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

PAGE = "docs/status.md"


@dataclass(frozen=True, slots=True)
class UnimplementedField:
    """A field that is stored but has no effect when it is set, or set to one of ``values``."""

    path: tuple[str, ...]
    """Keys from the root of the object; ``[]`` means every item of a list, and a last key that ends
    in ``/*`` means every key of a domain."""
    warning: str
    values: tuple[str, ...] = ()
    has_event: bool = False
    """Whether a new object with it gets an event, too: no other component writes one."""

    def prefixed(self, *prefix: str) -> UnimplementedField:
        """Return the same field in an object that contains such an object."""
        return replace(self, path=(*prefix, *self.path))


@dataclass(frozen=True, slots=True)
class UnimplementedFeatures:
    """The fields of a kind that have no effect; with ``warning`` the whole kind has none."""

    warning: str = ""
    fields: tuple[UnimplementedField, ...] = ()
    has_events: bool = field(init=False, compare=False)
    """Whether new objects may get an event."""
    _tree: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with_event = any(one.has_event for one in self.fields)
        object.__setattr__(self, "has_events", bool(self.warning) or with_event)
        object.__setattr__(self, "_tree", _tree(self.fields))

    def __bool__(self) -> bool:
        return bool(self.warning or self.fields)

    def warnings(self, obj: Any) -> list[str]:
        """Return the warnings about an object."""
        messages = [self.warning] if self.warning else []
        messages += [one.warning for one in _fields_of(obj, self._tree)]
        return _with_page(messages)

    def event_messages(self, obj: Any) -> list[str]:
        """Return what an event says about a new object."""
        messages = [self.warning] if self.warning else []
        messages += [one.warning for one in _fields_of(obj, self._tree) if one.has_event]
        return _with_page(messages)


def _with_page(warnings: Iterable[str]) -> list[str]:
    return [f"{warning} ({PAGE})" for warning in dict.fromkeys(warnings)]


def _tree(fields: Iterable[UnimplementedField]) -> dict[str, Any]:
    """Arrange fields in a tree by their paths, so that an object is walked once."""
    root: dict[str, Any] = {}
    for one in fields:
        node = root
        for key in one.path[:-1]:
            node = node.setdefault(key, {})
        node[one.path[-1]] = one
    return root


def _fields_of(
    value: Any, node: dict[str, Any] | UnimplementedField
) -> Iterator[UnimplementedField]:
    """Yield the fields that are set."""
    if isinstance(node, UnimplementedField):
        if value in node.values if node.values else value:
            yield node
    elif isinstance(value, list):
        for item in value if "[]" in node else ():
            yield from _fields_of(item, node["[]"])
    elif isinstance(value, dict):
        for key, child in node.items():
            if key in value:
                yield from _fields_of(value[key], child)
            elif key.endswith("/*"):
                named = any(value[one] for one in value if one.startswith(key[:-1]))
                yield from _fields_of(named, child)


FULLY_IMPLEMENTED = UnimplementedFeatures()
