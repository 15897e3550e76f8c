"""Indexes over the objects of an informer, like client-go's indexers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from holdfast.api.meta import Object, controller_of
from holdfast.client.informer_cache import ChangeType

T = TypeVar("T", bound=Object)


class ObjectIndex(Generic[T]):
    """The objects of a collection by ``index_key_of``; objects with the key "" are omitted.

    With the ``cache`` of the informer, the index is built at the first ``of``; before that a change
    costs nothing.
    """

    def __init__(
        self, index_key_of: Callable[[T], str], cache: Mapping[str, T] | None = None
    ) -> None:
        self._index_key_of = index_key_of
        self._groups: dict[str, dict[str, T]] = {}
        self._unread_cache = cache

    def on_change(self, kind: ChangeType, old: T | None, new: T | None) -> None:
        """Update the index; add this handler before those that use the index."""
        if self._unread_cache is not None:
            return
        if old is not None and (group := self._index_key_of(old)) in self._groups:
            self._groups[group].pop(old.uid, None)
            if not self._groups[group]:
                del self._groups[group]
        if new is not None and (group := self._index_key_of(new)):
            self._groups.setdefault(group, {})[new.uid] = new

    def of(self, group: str) -> tuple[T, ...]:
        """Return the objects with this key."""
        if self._unread_cache is not None:
            cache, self._unread_cache = self._unread_cache, None
            for obj in cache.values():
                self.on_change("added", None, obj)
        return tuple(self._groups.get(group, {}).values())


class KeyIndex(Generic[T]):
    """The keys of the objects of a collection by the terms that each object has."""

    def __init__(self, terms_of: Callable[[T], Collection[str]]) -> None:
        self._terms_of = terms_of
        self._keys: dict[str, set[str]] = {}

    def on_change(self, kind: ChangeType, old: T | None, new: T | None) -> None:
        """Update the index; add this handler before those that use the index."""
        if old is not None:
            for term in self._terms_of(old):
                keys = self._keys.get(term, set())
                keys.discard(old.key)
                if not keys:
                    self._keys.pop(term, None)
        if new is not None:
            for term in self._terms_of(new):
                self._keys.setdefault(term, set()).add(new.key)

    def of(self, term: str) -> tuple[str, ...]:
        """Return the keys of the objects with this term, sorted."""
        return tuple(sorted(self._keys.get(term, ())))


class ControllerIndex(Generic[T]):
    """The objects of a collection by the uid of their controller; orphans by namespace.

    With the ``cache`` of the informer each part is built when it is first read.
    """

    def __init__(self, cache: Mapping[str, T] | None = None) -> None:
        self._by_owner: ObjectIndex[T] = ObjectIndex(_owner_uid, cache)
        self._orphans: ObjectIndex[T] = ObjectIndex(
            lambda o: "" if controller_of(o) else o.namespace, cache
        )

    def on_change(self, kind: ChangeType, old: T | None, new: T | None) -> None:
        """Update the index; add this handler before those that use the index."""
        self._by_owner.on_change(kind, old, new)
        self._orphans.on_change(kind, old, new)

    def of(self, uid: str) -> tuple[T, ...]:
        """Return the objects controlled by the object with this uid."""
        return self._by_owner.of(uid)

    def orphans(self, namespace: str) -> tuple[T, ...]:
        """Return the objects of a namespace without a controller."""
        return self._orphans.of(namespace)


def _owner_uid(obj: Object) -> str:
    owner = controller_of(obj)
    return owner.uid if owner else ""
