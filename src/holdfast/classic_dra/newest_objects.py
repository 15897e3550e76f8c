"""Objects in their newest known version: from the watch, or from the response to our own write."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from holdfast.api.meta import Object, is_newer

_REMEMBERED_DELETIONS = 4096
T = TypeVar("T", bound=Object)


class NewestObjects(Generic[T]):
    """Objects of one kind by key; neither an older version nor a deleted object comes back."""

    __slots__ = ("_by_key", "_deleted")

    def __init__(self) -> None:
        self._by_key: dict[str, T] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def __iter__(self) -> Iterator[T]:
        return iter(self._by_key.values())

    def get(self, key: str) -> T | None:
        """Return the newest known version of an object, or None."""
        return self._by_key.get(key)

    def upsert(self, obj: T) -> bool:
        """Store an object unless a newer version is known; return whether it was stored."""
        known = self._by_key.get(obj.key)
        if obj.uid in self._deleted or (known is not None and not is_newer(obj, known)):
            return False
        self._by_key[obj.key] = obj
        return True

    def delete(self, obj: T) -> None:
        """Remove an object; a late response to one of our own writes does not restore it."""
        if obj.uid:
            self._deleted[obj.uid] = None
            if len(self._deleted) > _REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
        known = self._by_key.get(obj.key)
        if known is not None and known.uid == obj.uid:
            del self._by_key[obj.key]

    def fork(self) -> NewestObjects[T]:
        """Return an independent copy."""
        copy: NewestObjects[T] = NewestObjects()
        copy._by_key, copy._deleted = dict(self._by_key), self._deleted.copy()
        return copy
