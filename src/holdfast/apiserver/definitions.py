"""Custom resources: a CustomResourceDefinition is served from the moment it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from holdfast.api.resource import Resource
from holdfast.apiserver.deletion import DeleteOptions, delete_stored
from holdfast.apiserver.negotiation import PLAIN
from holdfast.apiserver.operation import Context, Operation
from holdfast.apiserver.registry import Custom, Served
from holdfast.apiserver.routing import Call
from holdfast.apiserver.structural import Schema
from holdfast.apiserver.tables import columns_of
from holdfast.apiserver.user import ADMIN
from holdfast.apiserver.writing import builder, decode
from holdfast.client.transport import Request
from holdfast.store import Stored

Object = dict[str, Any]
T = TypeVar("T")
ID = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    """Keep the registry as the stored definitions say."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, tuple[int, Object]] = {}

    def documents(self) -> list[Object]:
        """Give every definition that is served."""
        return [definition for _, definition in self._known.values()]

    def load(self) -> None:
        """Serve what is stored now: new and changed definitions, and no longer the removed."""
        stored = {s.key.name: s for s in self._context.store.list(*ID)}
        for name in [name for name in self._known if name not in stored]:
            _, gone = self._known.pop(name)
            self._context.registry.remove(gone["spec"]["group"], gone["spec"]["names"]["plural"])
        for name, found in stored.items():
            known = self._known.get(name)
            if known is None or known[0] != found.revision:
                definition = decode(found)
                if known is not None:
                    spec = known[1]["spec"]
                    self._context.registry.remove(spec["group"], spec["names"]["plural"])
                for served in served_by(definition):
                    self._context.registry.add(served)
                self._known[name] = (found.revision, definition)

    def concerns(self, op: Operation) -> bool:
        """Tell whether an operation may change what is served."""
        if op.call.verb in ("get", "list", "watch"):
            return False
        if op.served.id == ID:
            return True
        return op.served.custom is not None and self._is_dying(op.served)

    def _is_dying(self, served: Served) -> bool:
        known = self._known.get(f"{served.resource.plural}.{served.resource.group}")
        return known is not None and bool(known[1]["metadata"].get("deletionTimestamp"))

    async def operate(self, op: Operation, verb: Callable[[Operation], Awaitable[T]]) -> T:
        """Run a verb, then bring the registry up to date and finish what is dying.

        All of it happens even if the client hangs up in the middle: what is stored is served.
        """
        return await asyncio.shield(self._operate(op, verb))

    async def _operate(self, op: Operation, verb: Callable[[Operation], Awaitable[T]]) -> T:
        answer = await verb(op)
        await self.settle()
        return answer

    async def settle(self) -> None:
        """Finish the definitions that are dying, then serve what is stored."""
        for stored in self._context.store.list(*ID):
            if b'"deletionTimestamp"' in stored.value:
                await self._clean_up(stored)
        self.load()

    async def _clean_up(self, stored: Stored) -> None:
        """Delete the objects of a dying definition; the last one takes the definition along."""
        store = self._context.store
        definition = decode(stored)
        if CLEANUP not in (definition["metadata"].get("finalizers") or ()):
            return
        for served in served_by(definition)[:1]:
            if not await self._empty(served):
                return
        previous = store.latest(stored.key)
        if previous is None:
            return
        definition = decode(previous)
        meta = definition["metadata"]
        meta["finalizers"] = [f for f in meta["finalizers"] if f != CLEANUP]
        if meta["finalizers"]:
            await store.update(previous, builder(definition))
        else:
            del meta["finalizers"]
            await store.delete(previous, builder(definition))

    async def _empty(self, served: Served) -> bool:
        """Delete all objects of a resource; tells whether none is held by a finalizer."""
        store, empty = self._context.store, True
        call, request = Call("delete", ""), Request("DELETE", "")
        op = Operation(self._context, call, served, request, ADMIN, PLAIN)
        for stored in store.list(*served.id):
            latest = store.latest(stored.key)
            if latest is not None:
                _, gone = await delete_stored(op, latest, DeleteOptions())
                empty = empty and gone
        return empty


def served_by(definition: Mapping[str, Any]) -> list[Served]:
    """List the resources a definition describes, one a served version."""
    spec = definition["spec"]
    storage = next((v["name"] for v in spec["versions"] if v.get("storage")), "")
    return [_version(spec, version, storage) for version in spec["versions"] if version["served"]]


def _version(spec: Mapping[str, Any], version: Mapping[str, Any], storage: str) -> Served:
    names, parts = spec["names"], version.get("subresources") or {}
    resource: Resource[Any] = Resource(
        spec["group"], version["name"], names["plural"], names["kind"], dict,
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in parts),
        columns=columns_of(version),
    )  # fmt: skip
    schema = Schema.compile((version.get("schema") or {}).get("openAPIV3Schema") or {})
    selectable = tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ())
    custom = Custom(schema, parts.get("scale"), selectable)
    list_kind = names.get("listKind") or f"{names['kind']}List"
    return Served(resource, f"{spec['group']}/{storage}", custom, list_kind)
