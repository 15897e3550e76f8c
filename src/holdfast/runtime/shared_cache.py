"""A bounded cache that owners share so that none can evict what another needs.

Tenants decide by their objects what is computed for them. One tenant with enough different objects
would flush a cache of the latest results, and every decision for the others would compute its
results again. Here an owner, usually a namespace, loses entries only while it has more than any
other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class _Entry(Generic[V]):
    __slots__ = ("owner", "size", "value")

    def __init__(self, value: V, owner: str, size: int) -> None:
        self.value = value
        self.owner = owner
        self.size = size


class SharedCache(Generic[V]):
    """Values by key; the sizes of all entries add up to ``most`` at most.

    An entry belongs to the owner that stored it, or to one that used it later and has less. If the
    cache is full, the owner with the most loses the entry that it used least recently.

    >>> cache = SharedCache[int](most=4)
    >>> removed = cache.put("mine", 1, owner="a")
    >>> for number in range(100):
    ...     removed = cache.put(number, number, owner="b")
    >>> cache.get("mine", "a"), cache.get(99, "b"), cache.get(1, "b"), len(cache)
    (1, 99, None, 4)
    """

    __slots__ = ("_entries", "_keys", "_most", "_sizes", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[Hashable, _Entry[V]] = {}
        self._keys: dict[str, OrderedDict[Hashable, None]] = {}
        """By owner, the least recently used first."""
        self._sizes: dict[str, int] = {}
        self.size = 0
        """The sum of all sizes."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[V]:
        return (entry.value for entry in self._entries.values())

    def get(self, key: Hashable, owner: str) -> V | None:
        """Return the value of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if (
            entry.owner != owner
            and self._sizes.get(owner, 0) + entry.size < self._sizes[entry.owner]
        ):
            self._remove(key, entry)
            self._add(key, entry, owner)
        else:
            self._keys[entry.owner].move_to_end(key)
        return entry.value

    def put(
        self,
        key: Hashable,
        value: V,
        owner: str,
        size: int = 1,
        kept: Collection[Hashable] = (),
    ) -> list[V]:
        """Store a value and return those that were removed to make space.

        The new entry stays, even if it is larger than the cache, and so do those of ``kept``.
        """
        self.discard(key)
        self._add(key, _Entry(value, owner, size), owner)
        return self._shrink(key, kept)

    def grow(self, key: Hashable, by: int) -> None:
        """Add to the size of an entry; an entry that is gone is ignored."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.size += by
            self._sizes[entry.owner] += by
            self.size += by
            self._shrink(key)

    def discard(self, key: Hashable) -> None:
        """Remove an entry; an unknown key is ignored."""
        entry = self._entries.get(key)
        if entry is not None:
            self._remove(key, entry)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._keys.clear()
        self._sizes.clear()
        self.size = 0

    def _shrink(self, used: Hashable, kept: Collection[Hashable] = ()) -> list[V]:
        """Remove entries until the sizes fit, but not the entry that was just used."""
        removed: list[V] = []
        while self.size > self._most:
            key = self._next_to_remove(used, kept)
            if key is None:
                break
            removed.append(self._entries[key].value)
            self._remove(key, self._entries[key])
        return removed

    def _next_to_remove(self, used: Hashable, kept: Collection[Hashable]) -> Hashable | None:
        for owner in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            for key in self._keys[owner]:
                if key != used and key not in kept:
                    return key
        return None

    def _add(self, key: Hashable, entry: _Entry[V], owner: str) -> None:
        entry.owner = owner
        self._entries[key] = entry
        self._keys.setdefault(owner, OrderedDict())[key] = None
        self._sizes[owner] = self._sizes.get(owner, 0) + entry.size
        self.size += entry.size

    def _remove(self, key: Hashable, entry: _Entry[V]) -> None:
        owner = entry.owner
        del self._entries[key]
        del self._keys[owner][key]
        self._sizes[owner] -= entry.size
        self.size -= entry.size
        if not self._keys[owner]:
            del self._keys[owner], self._sizes[owner]
