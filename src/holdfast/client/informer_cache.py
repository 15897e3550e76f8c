"""The cache of an informer, without I/O: it takes objects and returns changes.

When a handler gets a change, the cache contains this change but none of the later ones. Replaying
the changes therefore reproduces the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")
ChangeType = Literal["added", "modified", "deleted"]
ObjectChange = tuple[ChangeType, T | None, T | None]


def identity_of(obj: Any) -> tuple[str, str, str]:
    """Return (``namespace/name``, uid, resourceVersion) of a typed or a raw object.

    >>> identity_of({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}})
    ('n', 'u', '7')
    """
    if isinstance(obj, dict):
        raw = obj["metadata"]
        namespace, name = raw.get("namespace", ""), raw["name"]
        uid, version = raw.get("uid", ""), raw.get("resourceVersion", "")
    else:
        meta = obj.metadata
        namespace, name = meta.namespace, meta.name
        uid, version = meta.uid, meta.resource_version
    return f"{namespace}/{name}" if namespace else name, uid, version


class InformerCache(Generic[T]):
    """The objects of a collection by key.

    Methods return their changes in order. The caller iterates over all of them: a change may be
    applied to ``objects`` only when it is reached.
    """

    def __init__(self) -> None:
        self.objects: dict[str, T] = {}

    def put(self, new: T) -> Iterable[ObjectChange[T]]:
        """Add or update an object; a version that is already cached changes nothing.

        If the cached object has another uid, its deletion was missed and is the first change.
        """
        key, uid, version = identity_of(new)
        old = self.objects.get(key)
        if old is None:
            self.objects[key] = new
            return (("added", None, new),)
        _, old_uid, old_version = identity_of(old)
        if old_uid != uid:
            return self._recreate(key, new)
        if old_version == version:
            return ()
        self.objects[key] = new
        return (("modified", old, new),)

    def remove(self, key: str, uid: str = "") -> Iterator[ObjectChange[T]]:
        """Remove a deleted object; with ``uid``, only if the cached object has that uid."""
        old = self.objects.get(key)
        if old is None or (uid and identity_of(old)[1] != uid):
            return
        del self.objects[key]
        yield "deleted", old, None

    def replace(
        self, now: Mapping[str, T], unreadable: Mapping[str, str]
    ) -> Iterator[ObjectChange[T]]:
        """Replace the contents by a new list: deletions first, then the rest in the list's order.

        ``unreadable`` maps the keys of objects that exist but cannot be read to their uids. The
        cached version of such an object is kept if it has that uid.
        """
        for key in [k for k in self.objects if k not in now]:
            if unreadable.get(key) != identity_of(self.objects[key])[1]:
                yield from self.remove(key)
        for obj in now.values():
            yield from self.put(obj)

    def _recreate(self, key: str, new: T) -> Iterator[ObjectChange[T]]:
        """Replace an object by one of the same name and another uid."""
        yield from self.remove(key)
        self.objects[key] = new
        yield "added", None, new
