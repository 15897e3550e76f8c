"""Objects as this process last wrote them, until the informer has caught up."""

from __future__ import annotations

from typing import Generic, TypeVar

from holdfast.api.meta import Object
from holdfast.client.informer import Informer

T = TypeVar("T", bound=Object)


class WrittenObjects(Generic[T]):
    """The cache of an informer with the process's own writes on top."""

    def __init__(self, informer: Informer[T]) -> None:
        self.informer = informer
        self._written: dict[str, T] = {}
        informer.add_handler(self._on_event)

    def get(self, key: str) -> T | None:
        """Return the newest known version of an object."""
        cached, written = self.informer.cache.get(key), self._written.get(key)
        if written is None or cached is None:
            return written or cached
        return written if _version(written) > _version(cached) else cached

    def put(self, obj: T) -> T:
        """Remember the response to a write, and return it."""
        if obj.metadata.deletion_timestamp is None or obj.metadata.finalizers:
            cached = self.informer.cache.get(obj.key)
            # One that the cache no longer has was deleted before the response was read.
            if cached is not None and _version(cached) < _version(obj):
                self._written[obj.key] = obj
        else:  # the write has removed the last finalizer, and so the object
            self._written.pop(obj.key, None)
        return obj

    def _on_event(self, kind: str, old: T | None, new: T | None) -> None:
        seen = new or old
        assert seen is not None
        written = self._written.get(seen.key)
        if written is not None and (
            (new is None and written.uid == seen.uid)
            or (new is not None and _version(written) <= _version(new))
        ):
            del self._written[seen.key]


def _version(obj: Object) -> int:
    """Return a resource version as a number; text that is not a number counts as the oldest."""
    text = obj.metadata.resource_version
    return int(text) if text.isdigit() else 0
