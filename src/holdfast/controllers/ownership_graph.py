"""Who owns whom, by uid: the picture the garbage collector plans on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.api.meta import Object, OwnerReference
from holdfast.api.resource import Resource

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class GraphObject:
    """What matters about an object: its identity, its owners, whether and how it is going."""

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
        """Read an object of any kind."""
        meta = obj.metadata
        return cls(
            resource, meta.namespace, meta.name, meta.uid, meta.resource_version,
            meta.owner_references, meta.deletion_timestamp is not None, meta.finalizers,
        )  # fmt: skip

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it is being deleted and goes last (foreground)."""
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether it is being deleted and lets its dependents live."""
        return self.deleting and ORPHAN in self.finalizers

    def reference_to(self, uid: str) -> OwnerReference | None:
        """Find its reference to an owner."""
        return next((o for o in self.owners if o.uid == uid), None)


class OwnershipGraph:
    """Every object that was seen, and the dependents of every uid, seen or not."""

    def __init__(self) -> None:
        self._items: dict[str, GraphObject] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> GraphObject | None:
        """Look an object up."""
        return self._items.get(uid)

    def put(self, item: GraphObject) -> None:
        """Take in an object or its newer version."""
        self.remove(item.uid)
        self._items[item.uid] = item
        for owner in item.owners:
            self._dependents.setdefault(owner.uid, {})[item.uid] = None

    def remove(self, uid: str) -> None:
        """Forget an object that is gone."""
        item = self._items.pop(uid, None)
        for owner in item.owners if item else ():
            known = self._dependents.get(owner.uid, {})
            known.pop(uid, None)
            if not known:
                self._dependents.pop(owner.uid, None)

    def dependents(self, uid: str) -> tuple[GraphObject, ...]:
        """List the objects that refer to an owner, in the order they were seen."""
        return tuple(self._items[d] for d in self._dependents.get(uid, ()))

    def of_resource(self, resource: Resource[Any]) -> Iterable[GraphObject]:
        """List the objects of one resource (a walk; used when a resource is no longer served)."""
        return [i for i in self._items.values() if i.resource == resource]
