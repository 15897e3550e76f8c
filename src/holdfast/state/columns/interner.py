"""Interning: equal values get the same small integer."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

CPU, MEMORY, EPHEMERAL, PODS = range(4)
MOST_FROM_PODS = 256
"""How many names of resources get an id because a pod requests them, if nothing else has them."""
OTHER_RESOURCES = "holdfast.dev/too-many-resource-names"
_FIRST_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


class Interner(Generic[T]):
    """A table of values and their ids; an id is never reused for another value.

    Arrays and cached results contain ids, and it is not known which of them are still in use.

    >>> words = Interner[str]()
    >>> words.id("a"), words.id("b"), words.id("a"), words[1]
    (0, 1, 0, 'b')
    """

    __slots__ = ("_ids", "_values")

    def __init__(self, values: tuple[T, ...] = ()) -> None:
        self._ids: dict[T, int] = {}
        self._values: list[T] = []
        for value in values:
            self.id(value)

    def id(self, value: T) -> int:
        """Return the id of ``value``; a new value gets the next id."""
        value_id = self._ids.get(value)
        if value_id is None:
            value_id = self._ids[value] = len(self._values)
            self._values.append(value)
        return value_id

    def find(self, value: T) -> int:
        """Return the id of ``value``, or -1 if it is unknown."""
        return self._ids.get(value, -1)

    def __getitem__(self, id_: int) -> T:
        return self._values[id_]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def fork(self) -> Interner[T]:
        """Return an independent copy with the same ids."""
        copy: Interner[T] = Interner()
        copy._ids = dict(self._ids)
        copy._values = list(self._values)
        return copy


class ResourceNames(Interner[str]):
    """Resource names; CPU, MEMORY, EPHEMERAL and PODS have fixed ids.

    Every id costs the node table a column as long as the process runs, and pods can request
    resources of any name: twelve pending pods with 256 names each took 800 MB with 5,000 nodes. So
    at most ``MOST_FROM_PODS`` names that only pods have get separate ids; all further names share
    that of ``OTHER_RESOURCES``, which no node has. The pods are rejected in either case.

    ``spec_cache`` and ``terms_cache`` store what ``pod_info`` read of pods with equal specs.
    ``of_classes`` are the names of device classes, which get ids whenever pods request them.
    """

    __slots__ = ("_from_pods", "of_classes", "spec_cache", "terms_cache")

    def __init__(self) -> None:
        self._from_pods = 0
        super().__init__(_FIRST_RESOURCES)
        self.of_classes: frozenset[str] = frozenset()
        self.spec_cache: dict[bytes, Any] = {}
        self.terms_cache: dict[bytes, dict[str, Any]] = {}

    def id(self, value: str) -> int:
        """Return the id of a name; a new one gets the next id, whatever pods have requested."""
        if value not in self._ids and self._from_pods >= MOST_FROM_PODS:
            self.spec_cache.clear()  # pods that request it have had another id
        return super().id(value)

    def id_requested(self, name: str) -> int:
        """Return the id of a name that a pod requests."""
        resource = self._ids.get(name)
        if resource is not None:
            return resource
        if name in self.of_classes:
            return self.id(name)
        if self._from_pods >= MOST_FROM_PODS:
            return super().id(OTHER_RESOURCES)
        self._from_pods += 1
        return super().id(name)

    def fork(self) -> ResourceNames:
        """Return an independent copy with the same ids."""
        copy = ResourceNames()
        copy._from_pods, copy.of_classes = self._from_pods, self.of_classes
        copy._ids = dict(self._ids)
        copy._values = list(self._values)
        return copy
