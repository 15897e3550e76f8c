"""Register the resources of stored CustomResourceDefinitions, and clean up deleted ones.

Only one task does this at a time (``_sync_lock``). Before, two requests could delete the objects of
one CRD together. If a CRD of the same name was then created, the slower request continued with that
CRD and took its new objects for old ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import msgspec

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject
from holdfast.api.defaults import default_object
from holdfast.client.transport import Request
from holdfast.runtime.errors import Cause, HoldfastError, NotAllowed
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.kinds.admission.crds import CLEANUP_FINALIZER, mark_unserved
from holdfast.server.kinds.custom_resources import descriptors_of_crd
from holdfast.server.kinds.validation.crds import CRDS, check_definition, prevents_serving
from holdfast.server.operation import Operation, ServerContext
from holdfast.server.schema.stored_objects import decode, is_terminating, value_builder
from holdfast.server.store import ObjectKey, StoredObject
from holdfast.server.user import ADMIN
from holdfast.server.verbs.deletion import DeleteOptions, delete_stored
from holdfast.server.wire.negotiation import PLAIN_JSON
from holdfast.server.wire.request_info import RequestInfo

T = TypeVar("T")
_BATCH = 100  # objects deleted in one batch
_HEAD = {"apiVersion": f"{CRDS[0]}/v1", "kind": "CustomResourceDefinition"}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RegisteredCrd:
    """A stored CRD and its descriptors; none if it cannot be served."""

    stored: StoredObject
    descriptors: tuple[KindDescriptor, ...]


class CrdRegistration:
    """Keeps the registry in sync with the stored CRDs.

    A CRD that cannot be served, which only an older server can have stored, is logged and gets a
    condition; it can be read, replaced and deleted, and its objects stay stored.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._registered: dict[str, _RegisteredCrd] = {}
        self._sync_lock = asyncio.Lock()
        """Held while CRDs are registered and cleaned up, so that two tasks do not do it at once."""

    def served_crds(self) -> list[JsonObject]:
        """Return all served CRDs."""
        served = [one.stored for one in self._registered.values() if one.descriptors]
        definitions = [decode(stored) for stored in served]
        for definition in definitions:
            default_object(definition)
        return definitions

    def load(self) -> list[tuple[StoredObject, list[Cause]]]:
        """Update the registry: add new and changed CRDs, remove deleted ones.

        Return the new or changed CRDs that cannot be served, with the reasons.
        """
        stored = {s.key.name: s for s in self._context.store.list(*CRDS)}
        not_served = []
        for name in [name for name in self._registered if name not in stored]:
            self._unregister(name)
        for name, crd in stored.items():
            registered = self._registered.get(name)
            if registered is not None and registered.stored.revision == crd.revision:
                continue
            self._unregister(name)
            descriptors, problems = _read_stored(crd)
            self._registered[name] = _RegisteredCrd(crd, descriptors)
            for one in descriptors:
                self._context.registry.add(one)
            if problems:
                not_served.append((crd, list(problems)))
        return not_served

    def _unregister(self, name: str) -> None:
        registered = self._registered.pop(name, None)
        if registered is not None and registered.descriptors:
            resource = registered.descriptors[0].resource
            self._context.registry.remove(resource.group, resource.plural)

    def may_change_resources(self, op: Operation) -> bool:
        """Return whether an operation may change what is served."""
        if op.request_info.verb in ("get", "list", "watch"):
            return False
        if op.descriptor.defines_resources:
            return True
        return bool(op.descriptor.crd_name) and self._is_terminating(op.descriptor)

    def _is_terminating(self, descriptor: KindDescriptor) -> bool:
        """Return whether the CRD of a resource is being deleted.

        This reads the store, because the registry is updated only after the clean-up. When it read
        the registry and the garbage collector removed a finalizer during the clean-up, the CRD
        stayed until the next restart.
        """
        stored = self._context.store.latest(ObjectKey(*CRDS, "", descriptor.crd_name))
        return stored is not None and is_terminating(stored)

    async def run_verb(self, op: Operation, verb: Callable[[Operation], Awaitable[T]]) -> T:
        """Run a verb, then finish the deletion of CRDs and update the registry.

        This is not cancelled if the client closes the connection.
        """
        return await asyncio.shield(self._run_verb(op, verb))

    async def _run_verb(self, op: Operation, verb: Callable[[Operation], Awaitable[T]]) -> T:
        if op.request_info.verb == "create" and not op.descriptor.defines_resources:
            message = "create not allowed while custom resource definition is terminating"
            raise NotAllowed(message)
        response = await verb(op)
        await self.sync(discard_leftovers=True)
        return response

    async def sync(self, *, discard_leftovers: bool = False) -> None:
        """Finish the deletion of CRDs, then update the registry.

        ``discard_leftovers`` is False at the start, when every CRD is new to the registry.
        """
        async with self._sync_lock:
            await self._sync(discard_leftovers)

    async def _sync(self, discard_leftovers: bool) -> None:
        for stored in self._context.store.list(*CRDS):
            if is_terminating(stored):
                await self._clean_up(stored)
        if discard_leftovers:
            await self._discard_leftovers()
        for stored, problems in self.load():
            await self._mark_unserved(stored, problems)

    async def _mark_unserved(self, stored: StoredObject, problems: list[Cause]) -> None:
        message = "; ".join(map(str, problems))
        log.error("%s is stored but cannot be served: %s", stored.key.display_name, message)
        definition = msgspec.json.decode(stored.value)  # unchanged, so that it can be corrected
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
        """Delete objects of an earlier CRD of the same name before the new CRD is served.

        Nothing is awaited between finding no such object and registering the new CRD.
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
        new = [s.key.name for s in store.list(*CRDS) if s.key.name not in self._registered]
        return [s for name in new for s in store.list(*_group_resource(name))]

    async def _clean_up(self, stored: StoredObject) -> None:
        """Delete the objects of a CRD that is being deleted, then the CRD."""
        store = self._context.store
        definition = decode(stored)
        if CLEANUP_FINALIZER not in (definition["metadata"].get("finalizers") or ()):
            return
        if not await self._delete_objects(definition, stored.key):
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

    async def _delete_objects(self, definition: JsonObject, key: ObjectKey) -> bool:
        """Delete all objects of a CRD; return whether none is left because of finalizers.

        Objects of a CRD that cannot be served are deleted even with finalizers, because no client
        could remove those.
        """
        descriptors, _ = _read_crd(definition)
        objects = self._context.store.list(*_group_resource(key.name))
        all_deleted = True
        for start in range(0, len(objects), _BATCH):  # one commit per batch
            batch = objects[start : start + _BATCH]
            deleted = await asyncio.gather(
                *(self._delete_object(one, descriptors) for one in batch)
            )
            all_deleted = all_deleted and all(deleted)
        return all_deleted

    async def _delete_object(
        self, stored: StoredObject, descriptor: tuple[KindDescriptor, ...]
    ) -> bool:
        """Delete an object of a CRD; return whether it is deleted."""
        store = self._context.store
        latest = store.latest(stored.key)
        if latest is None:
            return True
        if not descriptor:
            await store.delete(latest, value_builder(decode(latest)))
            return True
        request_info, request = RequestInfo("delete", ""), Request("DELETE", "")
        op = Operation(self._context, request_info, descriptor[0], request, ADMIN, PLAIN_JSON)
        _, deleted = await delete_stored(op, latest, DeleteOptions())
        return deleted


def _group_resource(name: str) -> tuple[str, str]:
    """Return the group and plural of the resource of a CRD, from the name of the CRD."""
    plural, _, group = name.partition(".")
    return group, plural


class _Spec(msgspec.Struct):
    """The part of a stored CRD that decides its descriptors, together with its name; as JSON."""

    spec: msgspec.Raw = msgspec.Raw(b"null")


def _read_stored(stored: StoredObject) -> tuple[tuple[KindDescriptor, ...], Sequence[Cause]]:
    """Return the descriptors of a stored CRD, or none and the reasons if it cannot be served."""
    if stored.from_disk:  # its fields may have wrong types
        return _read_crd(decode(stored))
    spec = msgspec.json.decode(stored.value, type=_Spec).spec
    return _read_spec(stored.key.name, bytes(spec))


@lru_cache(maxsize=256)
def _read_spec(name: str, spec: bytes) -> tuple[tuple[KindDescriptor, ...], Sequence[Cause]]:
    """Read a CRD of this name and spec; cached, because writes of the status change neither.

    Without the cache each of these writes would check and compile the schema again.
    """
    definition = {**_HEAD, "metadata": {"name": name}, "spec": msgspec.json.decode(spec)}
    return _read_crd(definition)


def _read_crd(definition: JsonObject) -> tuple[tuple[KindDescriptor, ...], list[Cause]]:
    """Return the descriptors of a stored CRD, or none and the reasons if it cannot be served."""
    try:
        default_object(definition)
        causes = check_definition(definition, old=definition)
        problems = [cause for cause in causes if prevents_serving(cause)]
        descriptor = () if problems else tuple(descriptors_of_crd(definition))
        if not all(one.resource.version for one in descriptor):
            problems.append(field_errors.required("spec.versions[].name"))
        return (() if problems else descriptor), problems
    except Exception as error:  # no stored object may prevent the start of the server
        message = f"cannot be read: {type(error).__name__}: {error}"
        return (), [field_errors.invalid("spec", None, message)]
