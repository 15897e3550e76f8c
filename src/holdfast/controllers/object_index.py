"""Objects in groups, kept current by an informer's handler: no walk over a whole collection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.api.meta import Object
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.ownership import controller_of

T = TypeVar("T", bound=Object)


class ObjectIndex(Generic[T]):
    """The objects of a collection by whatever ``group_of`` says; "" is no group."""

    def __init__(self, index_key_of: Callable[[T], str]) -> None:
        self._index_key_of = index_key_of
        self._groups: dict[str, dict[str, T]] = {}

    def on_change(self, kind: ChangeType, old: T | None, new: T | None) -> None:
        """Follow one change; add this handler before those that ask."""
        if old is not None and (group := self._index_key_of(old)) in self._groups:
            self._groups[group].pop(old.uid, None)
            if not self._groups[group]:
                del self._groups[group]
        if new is not None and (group := self._index_key_of(new)):
            self._groups.setdefault(group, {})[new.uid] = new

    def of(self, group: str) -> tuple[T, ...]:
        """List a group."""
        return tuple(self._groups.get(group, {}).values())


class ControllerIndex(Generic[T]):
    """The objects of a collection by the uid of their controller, and those that have none."""

    def __init__(self) -> None:
        self._by_owner: ObjectIndex[T] = ObjectIndex(_owner_uid)
        self._orphans: ObjectIndex[T] = ObjectIndex(
            lambda o: "" if controller_of(o) else o.namespace
        )

    def on_change(self, kind: ChangeType, old: T | None, new: T | None) -> None:
        """Follow one change; add this handler before those that ask."""
        self._by_owner.on_change(kind, old, new)
        self._orphans.on_change(kind, old, new)

    def of(self, uid: str) -> tuple[T, ...]:
        """List what the object with this uid controls."""
        return self._by_owner.of(uid)

    def orphans(self, namespace: str) -> tuple[T, ...]:
        """List what nobody controls."""
        return self._orphans.of(namespace)


def _owner_uid(obj: Object) -> str:
    owner = controller_of(obj)
    return owner.uid if owner else ""
