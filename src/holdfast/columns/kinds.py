"""Kinds of pods: a namespace and the labels somebody looks at.

Fifty thousand pods of five hundred workloads are five hundred kinds, so a selector is matched
against kinds, never against pods. Only *visible* label keys count: those that some selector names.
A label of a pod's own (a StatefulSet's ordinal) makes no new kind while nobody selects by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.columns.counters import SelectorCount

_MANY = 8192
Visible = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True, eq=False)
class Kind:
    """One kind: which counters its pods move, and where its pods stand (uid to row)."""

    id: int
    namespace: str
    labels: Mapping[str, str]
    counters: list[SelectorCount] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)


class Kinds:
    """The table of kinds; ids are never reused."""

    __slots__ = ("_kinds", "_next", "keys")

    def __init__(self) -> None:
        self.keys: frozenset[str] = frozenset()
        self._kinds: dict[Visible, Kind] = {}
        self._next = 0

    def of(
        self,
        namespace: str,
        labels: Mapping[str, str],
        counters: Iterable[SelectorCount],
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> Kind:
        """The kind of a pod; a new one is matched against the counters that exist."""
        key = self.visible(namespace, labels)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _MANY:
                self._kinds = {k: v for k, v in self._kinds.items() if v.rows}
            kind = self._kinds[key] = Kind(self._next, namespace, dict(key[1]))
            self._next += 1
            its = namespaces.get(namespace, {})
            kind.counters = [c for c in counters if c.selects(namespace, its, kind.labels)]
        return kind

    def visible(self, namespace: str, labels: Mapping[str, str]) -> Visible:
        """What can be seen of a pod: its namespace and its labels under visible keys."""
        keys = self.keys
        if not keys or not labels:
            return (namespace, ())
        seen = [pair for pair in labels.items() if pair[0] in keys]
        if len(seen) > 1:
            seen.sort()
        return (namespace, tuple(seen))

    def show(self, keys: Iterable[str]) -> bool:
        """Make keys visible; tell whether any is new. Then every pod needs its kind anew."""
        wider = self.keys | frozenset(keys)
        if wider == self.keys:
            return False
        self.keys = wider
        self._kinds = {}
        return True

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def __len__(self) -> int:
        return len(self._kinds)
