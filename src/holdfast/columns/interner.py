"""Turn names into small integers, once and for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

CPU, MEMORY, EPHEMERAL, PODS = range(4)
_FIRST_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


class Interner(Generic[T]):
    """A one-way table of values; an id is never given to another value.

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
        """The id of ``value``, a new one if it was never seen."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self._values)
            self._values.append(value)
        return found

    def find(self, value: T) -> int:
        """The id of ``value``, or -1 if it was never seen."""
        return self._ids.get(value, -1)

    def __getitem__(self, id_: int) -> T:
        return self._values[id_]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def fork(self) -> Interner[T]:
        """An independent copy with the same ids."""
        copy: Interner[T] = Interner()
        copy._ids = dict(self._ids)
        copy._values = list(self._values)
        return copy


class ResourceNames(Interner[str]):
    """Resource names in which CPU, MEMORY, EPHEMERAL and PODS have their ids.

    ``digests`` remembers what pods of one spec ask for in these ids, ``terms`` the affinity of pods
    that differ in what they ask for alone (see ``pod_info``).
    """

    __slots__ = ("digests", "terms")

    def __init__(self) -> None:
        super().__init__(_FIRST_RESOURCES)
        self.digests: dict[bytes, Any] = {}
        self.terms: dict[bytes, dict[str, Any]] = {}

    def fork(self) -> ResourceNames:
        """An independent copy with the same ids."""
        copy = ResourceNames()
        copy._ids = dict(self._ids)
        copy._values = list(self._values)
        return copy
