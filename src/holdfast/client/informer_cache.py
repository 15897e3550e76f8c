"""A local copy of one collection, and what changed in it.

Pure bookkeeping: news in, changes out. Every change is made in the copy before it is told, one at
a time, so that replaying what was told always reproduces the copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

from holdfast.api.meta import Object

T = TypeVar("T")
ChangeType = Literal["added", "modified", "deleted"]
ObjectChange = tuple[ChangeType, T | None, T | None]


def identity_of(obj: Any) -> tuple[str, str, str]:
    """Return (``namespace/name``, uid, resourceVersion) of a typed or a raw object.

    >>> identity_of({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}})
    ('n', 'u', '7')
    """
    if isinstance(obj, Object):
        meta = obj.metadata
        namespace, name = meta.namespace, meta.name
        uid, version = meta.uid, meta.resource_version
    else:
        raw = obj["metadata"]
        namespace, name = raw.get("namespace", ""), raw["name"]
        uid, version = raw.get("uid", ""), raw.get("resourceVersion", "")
    return f"{namespace}/{name}" if namespace else name, uid, version


class InformerCache(Generic[T]):
    """The objects of a collection by key, as far as they have been told.

    The methods are generators: each change is in ``objects`` when it is yielded.
    """

    def __init__(self) -> None:
        self.objects: dict[str, T] = {}

    def put(self, new: T) -> Iterator[ObjectChange[T]]:
        """Take in an object that exists now; a version we have already is no news.

        Another uid under the same name means that the old object was deleted unseen.
        """
        key, uid, version = identity_of(new)
        old = self.objects.get(key)
        if old is not None:
            _, old_uid, old_version = identity_of(old)
            if old_uid == uid:
                if old_version != version:
                    self.objects[key] = new
                    yield "modified", old, new
                return
            yield from self.remove(key)
        self.objects[key] = new
        yield "added", None, new

    def remove(self, key: str, uid: str = "") -> Iterator[ObjectChange[T]]:
        """Forget an object that is gone; with a uid, only if it is that one we have."""
        old = self.objects.get(key)
        if old is None or (uid and identity_of(old)[1] != uid):
            return
        del self.objects[key]
        yield "deleted", old, None

    def replace(
        self, now: Mapping[str, T], unreadable: Mapping[str, str]
    ) -> Iterator[ObjectChange[T]]:
        """Become a fresh list: first what went, then what came or changed, in the list's order.

        ``doubtful`` maps keys whose object exists but cannot be read to its uid: the last
        readable version of that very object is kept.
        """
        for key in [k for k in self.objects if k not in now]:
            if unreadable.get(key) != identity_of(self.objects[key])[1]:
                yield from self.remove(key)
        for obj in now.values():
            yield from self.put(obj)
