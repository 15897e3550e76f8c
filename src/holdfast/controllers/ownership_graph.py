"""The graph of owners and dependents of the garbage collector, by uid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.api.meta import Object, OwnerReference
from holdfast.api.resource import Resource

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class GraphObject:
    """An object in the graph: its identity, owners, finalizers and whether it is being deleted."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str
    version: str
    owners: tuple[OwnerReference, ...] = ()
    deleting: bool = False
    finalizers: tuple[str, ...] = ()

    @classmethod
    def of(cls, resource: Resource[Any], obj: Object) -> GraphObject:
        """Return the graph object of an API object of any kind."""
        meta = obj.metadata
        return cls(
            resource, meta.namespace, meta.name, meta.uid, meta.resource_version,
            meta.owner_references, meta.deletion_timestamp is not None, meta.finalizers,
        )  # fmt: skip

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it is being deleted in the foreground and so waits for its dependents."""
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether it is being deleted and its dependents are orphaned."""
        return self.deleting and ORPHAN in self.finalizers

    def reference_to(self, uid: str) -> OwnerReference | None:
        """Return its reference to an owner, or None."""
        return next((o for o in self.owners if o.uid == uid), None)


class OwnershipGraph:
    """All observed objects, and the dependents of every uid, observed or not."""

    def __init__(self) -> None:
        self._items: dict[str, GraphObject] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> GraphObject | None:
        """Return an object, or None."""
        return self._items.get(uid)

    def put(self, item: GraphObject) -> None:
        """Add an object or replace its older version."""
        self.remove(item.uid)
        self._items[item.uid] = item
        for owner in item.owners:
            self._dependents.setdefault(owner.uid, {})[item.uid] = None

    def remove(self, uid: str) -> None:
        """Remove a deleted object."""
        item = self._items.pop(uid, None)
        for owner in item.owners if item else ():
            known = self._dependents.get(owner.uid, {})
            known.pop(uid, None)
            if not known:
                self._dependents.pop(owner.uid, None)

    def dependents(self, uid: str) -> tuple[GraphObject, ...]:
        """Return the objects that refer to an owner, in the order in which they were added."""
        return tuple(self._items[d] for d in self._dependents.get(uid, ()))

    def of_resource(self, resource: Resource[Any]) -> Iterable[GraphObject]:
        """Return the objects of one resource; visits all objects."""
        return [i for i in self._items.values() if i.resource == resource]
