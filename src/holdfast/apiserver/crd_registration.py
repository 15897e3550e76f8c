"""Custom resources: a CustomResourceDefinition is served from the moment it is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject
from holdfast.api.defaults import default_object
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.kinds.admission.crds import CLEANUP_FINALIZER, mark_unserved
from holdfast.apiserver.kinds.custom_resources import descriptors_of_crd
from holdfast.apiserver.kinds.validation.crds import CRDS, check_definition, prevents_serving
from holdfast.apiserver.operation import Operation, ServerContext
from holdfast.apiserver.schema.stored_objects import decode, is_terminating, value_builder
from holdfast.apiserver.user import ADMIN
from holdfast.apiserver.verbs.deletion import DeleteOptions, delete_stored
from holdfast.apiserver.wire.negotiation import PLAIN_JSON
from holdfast.apiserver.wire.request_info import RequestInfo
from holdfast.client.transport import Request
from holdfast.errors import Cause, HoldfastError, NotAllowed
from holdfast.store import ObjectKey, StoredObject

T = TypeVar("T")
_AT_ONCE = 100  # objects deleted together
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """A stored definition; one that cannot be served describes no resource."""

    revision: int
    definition: JsonObject
    descriptor: tuple[KindDescriptor, ...]


class CrdRegistration:
    """Keep the registry as the stored definitions say.

    A definition that cannot be served, which only an older server can have stored, is logged and
    gets a condition; it can be read, replaced and deleted, and its objects are kept meanwhile.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._known: dict[str, _Known] = {}
        self._settling = asyncio.Lock()
        """A definition, and objects of its name, may be new when another task has settled them."""

    def served_crds(self) -> list[JsonObject]:
        """Give every definition that is served."""
        return [known.definition for known in self._known.values() if known.descriptor]

    def load(self) -> list[tuple[StoredObject, list[Cause]]]:
        """Serve what is stored now: new and changed definitions, and no longer the removed.

        Returns the definitions among these that cannot be served, with what is wrong with each.
        """
        stored = {s.key.name: s for s in self._context.store.list(*CRDS)}
        unserved = []
        for name in [name for name in self._known if name not in stored]:
            self._forget(name)
        for name, found in stored.items():
            known = self._known.get(name)
            if known is not None and known.revision == found.revision:
                continue
            self._forget(name)
            definition = decode(found)
            descriptor, problems = _read(definition)
            self._known[name] = _Known(found.revision, definition, descriptor)
            for one in descriptor:
                self._context.registry.add(one)
            if problems:
                unserved.append((found, problems))
        return unserved

    def _forget(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is not None and known.descriptor:
            resource = known.descriptor[0].resource
            self._context.registry.remove(resource.group, resource.plural)

    def may_change_resources(self, op: Operation) -> bool:
        """Tell whether an operation may change what is served."""
        if op.request_info.verb in ("get", "list", "watch"):
            return False
        if op.descriptor.defines_resources:
            return True
        return bool(op.descriptor.crd_name) and self._is_terminating(op.descriptor)

    def _is_terminating(self, descriptor: KindDescriptor) -> bool:
        """Ask the store: what is served is read again only after all objects are cleaned up."""
        stored = self._context.store.latest(ObjectKey(*CRDS, "", descriptor.crd_name))
        return stored is not None and is_terminating(stored)

    async def run_verb(self, op: Operation, verb: Callable[[Operation], Awaitable[T]]) -> T:
        """Run a verb, then bring the registry up to date and finish deleting definitions.

        All of it happens even if the client hangs up in the middle: what is stored is served.
        """
        return await asyncio.shield(self._operate(op, verb))

    async def _operate(self, op: Operation, verb: Callable[[Operation], Awaitable[T]]) -> T:
        if op.request_info.verb == "create" and not op.descriptor.defines_resources:
            words = "create not allowed while custom resource definition is terminating"
            raise NotAllowed(words)
        answer = await verb(op)
        await self.sync(discard_leftovers=True)
        return answer

    async def sync(self, *, discard_leftovers: bool = False) -> None:
        """Finish deleting definitions, then serve what is stored.

        At start every definition is new, and no object is left over.
        """
        async with self._settling:
            await self._settle(discard_leftovers)

    async def _settle(self, discard_leftovers: bool) -> None:
        for stored in self._context.store.list(*CRDS):
            if is_terminating(stored):
                await self._clean_up(stored)
        if discard_leftovers:
            await self._discard_leftovers()
        for stored, problems in self.load():
            await self._mark_unserved(stored, problems)

    async def _mark_unserved(self, stored: StoredObject, problems: list[Cause]) -> None:
        words = "; ".join(map(str, problems))
        log.error("%s is stored but cannot be served: %s", stored.key.display_name, words)
        definition = msgspec.json.decode(stored.value)  # as it is, for its owner to mend
        if not isinstance(definition, dict) or not isinstance(definition.get("metadata"), dict):
            return
        if mark_unserved(definition, problems, self._context.clock.now()):
            try:
                await self._context.store.update(stored, value_builder(definition))
            except HoldfastError as failure:
                log.warning(
                    "%s: its conditions are not written: %s", stored.key.display_name, failure
                )
            self.load()

    async def _discard_leftovers(self) -> None:
        """Delete the objects that an earlier definition left behind, before a new one shows them.

        Nothing is awaited between finding none and loading the new definition.
        """
        store = self._context.store
        while leftovers := self._leftovers():
            for stored in leftovers:
                latest = store.latest(stored.key)
                if latest is None:  # another request is deleting it
                    await asyncio.sleep(0)
                else:
                    await store.delete(latest, value_builder(decode(latest)))

    def _leftovers(self) -> list[StoredObject]:
        store = self._context.store
        new = [s.key.name for s in store.list(*CRDS) if s.key.name not in self._known]
        return [s for name in new for s in store.list(*_resource_named(name))]

    async def _clean_up(self, stored: StoredObject) -> None:
        """Delete the objects of a definition that is being deleted, then the definition."""
        store = self._context.store
        definition = decode(stored)
        if CLEANUP_FINALIZER not in (definition["metadata"].get("finalizers") or ()):
            return
        if not await self._empty(definition, stored.key):
            return
        previous = store.latest(stored.key)
        if previous is None:
            return
        definition = decode(previous)
        meta = definition["metadata"]
        meta["finalizers"] = [f for f in meta["finalizers"] if f != CLEANUP_FINALIZER]
        if meta["finalizers"]:
            await store.update(previous, value_builder(definition))
        else:
            del meta["finalizers"]
            await store.delete(previous, value_builder(definition))

    async def _empty(self, definition: JsonObject, key: ObjectKey) -> bool:
        """Delete all objects of a definition; tells whether none is held by a finalizer.

        Objects of a definition that cannot be served are deleted at once, finalizers or not: the
        finalizers could not be removed.
        """
        descriptor, _ = _read(definition)
        objects = self._context.store.list(*_resource_named(key.name))
        empty = True
        for start in range(0, len(objects), _AT_ONCE):  # one commit for many
            batch = objects[start : start + _AT_ONCE]
            gone = await asyncio.gather(*(self._delete_object(one, descriptor) for one in batch))
            empty = empty and all(gone)
        return empty

    async def _delete_object(
        self, stored: StoredObject, descriptor: tuple[KindDescriptor, ...]
    ) -> bool:
        """Delete an object of a definition; tells whether it is gone."""
        store = self._context.store
        latest = store.latest(stored.key)
        if latest is None:
            return True
        if not descriptor:
            await store.delete(latest, value_builder(decode(latest)))
            return True
        request_info, request = RequestInfo("delete", ""), Request("DELETE", "")
        op = Operation(self._context, request_info, descriptor[0], request, ADMIN, PLAIN_JSON)
        _, gone = await delete_stored(op, latest, DeleteOptions())
        return gone


def _resource_named(name: str) -> tuple[str, str]:
    """Split the name of a definition into the group and plural of its resource."""
    plural, _, group = name.partition(".")
    return group, plural


def _read(definition: JsonObject) -> tuple[tuple[KindDescriptor, ...], list[Cause]]:
    """Read what a stored definition describes: nothing, and why, if it cannot be served."""
    try:
        default_object(definition)
        problems = [cause for cause in check_definition(definition) if prevents_serving(cause)]
        descriptor = () if problems else tuple(descriptors_of_crd(definition))
        if not all(one.resource.version for one in descriptor):
            problems.append(field_errors.required("spec.versions[].name"))
        return (() if problems else descriptor), problems
    except Exception as misfit:  # a stored object of any shape must not stop the server
        words = f"cannot be read: {type(misfit).__name__}: {misfit}"
        return (), [field_errors.invalid("spec", None, words)]
