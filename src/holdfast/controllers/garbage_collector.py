"""The garbage collector: delete objects whose owners are deleted, by propagation policy.

An owner counts as absent only if that is certain: its deletion was seen, or the server says that it
does not exist. An owner of a kind that is not served, or not known yet, keeps its dependents.
Otherwise a collector that has just started would delete objects whose owners it has not read yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.api.meta import Object, ObjectReference, OwnerReference
from holdfast.api.resource import Resource
from holdfast.client.handler_dispatcher import ResourceEventHandler
from holdfast.client.informer import Informer
from holdfast.client.informer_cache import ChangeType
from holdfast.controllers.discovery import ServedResources, deletable_resources, discover
from holdfast.controllers.ownership import raw_reference
from holdfast.controllers.ownership_graph import FOREGROUND, ORPHAN, GraphObject, OwnershipGraph
from holdfast.controllers.planned_writes import Delete, Patch, Write, execute_writes
from holdfast.controllers.reconciler import ControllerContext, Reconciler
from holdfast.runtime.errors import HoldfastError, NotFound

REDISCOVER_SECONDS = 300.0
RETRY_SECONDS = 10.0
"""The pause after a failed discovery; nothing is collected until discovery succeeds.

Without this retry, the collector ignored custom kinds for five minutes if the server was
unavailable for a moment at the start.
"""
MAX_ABSENT_OWNERS = 10_000
CRDS = "customresourcedefinitions"

log = logging.getLogger(__name__)


def plan_dependent(
    item: GraphObject, owners: Mapping[str, GraphObject | None], dependents: Sequence[GraphObject]
) -> tuple[Write, ...]:
    """Plan for an object that has owners.

    ``owners`` maps the uid of each owner to its object, None if it is absent. It lacks an owner
    that cannot be resolved; such an owner keeps the object. An object with a solid owner is kept;
    references to owners that are absent, or that wait for its deletion, are then removed. Otherwise
    the object is deleted.
    """
    if item.deleting or not item.owners:
        return ()
    handle_deletion = [o for o in item.owners if o.uid in owners and owners[o.uid] is None]
    waiting = [o for o in item.owners if (w := owners.get(o.uid)) and w.waits_for_dependents]
    leaving = {o.uid for o in (*handle_deletion, *waiting)}
    if len(leaving) < len({o.uid for o in item.owners}):
        return (_remove_owners(item, leaving),) if leaving else ()
    propagation = "Foreground" if waiting and dependents else _own_policy(item)
    return (Delete(item.resource, item.name, item.namespace, item.uid, propagation, item.version),)


def plan_foreground_deletion(
    item: GraphObject, dependents: Sequence[GraphObject]
) -> tuple[Write, ...]:
    """Remove the foregroundDeletion finalizer of an owner without blocking dependents."""
    if any(_blocks(dependent, item) for dependent in dependents):
        return ()
    return (_remove_finalizer(item, FOREGROUND),)


def plan_orphaning(item: GraphObject, dependents: Sequence[GraphObject]) -> tuple[Write, ...]:
    """Remove an owner from its dependents, then the owner's orphan finalizer."""
    return (*(_remove_owners(d, {item.uid}) for d in dependents), _remove_finalizer(item, ORPHAN))


def _own_policy(item: GraphObject) -> str:
    if ORPHAN in item.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in item.finalizers else "Background"


def _blocks(dependent: GraphObject, owner: GraphObject) -> bool:
    reference = dependent.reference_to(owner.uid)
    return reference is not None and reference.block_owner_deletion


def _remove_owners(item: GraphObject, uids: set[str]) -> Patch:
    kept = [raw_reference(o) for o in item.owners if o.uid not in uids]
    return _patch(item, ownerReferences=kept or None)


def _remove_finalizer(item: GraphObject, finalizer: str) -> Patch:
    kept = [f for f in item.finalizers if f != finalizer]
    return _patch(item, finalizers=kept or None)


def _patch(item: GraphObject, **meta: Any) -> Patch:
    guarded = {"uid": item.uid, "resourceVersion": item.version, **meta}
    return Patch(item.resource, item.name, {"metadata": guarded}, item.namespace)


class GarbageCollector(Reconciler):
    """Watch all resources and process the objects whose owners may be deleted.

    Keys are uids. Discovery is repeated, because custom resources are added and removed.
    """

    name = "garbage-collector-controller"
    workers = 4

    def __init__(self, context: ControllerContext, shared: Iterable[Resource[Any]] = ()) -> None:
        super().__init__(context)
        self._graph = OwnershipGraph()
        self._kinds: dict[tuple[str, str], Resource[Object]] = {}
        self._own_informers: dict[Resource[Any], Informer[Object]] = {}
        self._absent_owners: OrderedDict[str, None] = OrderedDict()
        self._unresolved: set[str] = set()
        self._crds_changed = asyncio.Event()
        self._shared = frozenset(shared)
        for resource in self._shared:
            context.informers.get(resource).add_handler(self._handler(resource))

    async def run(self) -> None:
        """Process the queue, and start and stop informers as resources are served."""
        following = asyncio.create_task(self._discover_forever())
        try:
            await super().run()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            for informer in self._own_informers.values():
                await informer.stop()

    async def _discover_forever(self) -> None:
        while True:
            seconds = REDISCOVER_SECONDS
            try:
                await self._update_informers(await discover(self.client))
            except HoldfastError as failure:
                log.warning("discovery failed: %s; trying again", failure)
                seconds = RETRY_SECONDS
            self._crds_changed.clear()
            waiting = asyncio.create_task(self._crds_changed.wait())
            pause = asyncio.create_task(self.clock.sleep(seconds))
            try:
                await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                pause.cancel()

    async def _update_informers(self, served: ServedResources) -> None:
        """Start informers for new resources and stop those of resources no longer served."""
        self._kinds = {(r.group, r.kind): r for r in served}
        for uid in self._unresolved:
            self.queue.add(uid)
        self._unresolved.clear()
        wanted = frozenset(deletable_resources(served)) - self._shared
        for resource in wanted - self._own_informers.keys():
            informer = Informer(self.client, resource, clock=self.clock)
            informer.add_handler(self._handler(resource))
            self._own_informers[resource] = informer
            informer.start()
        for resource in self._own_informers.keys() - wanted:
            await self._own_informers.pop(resource).stop()
            for item in self._graph.of_resource(resource):
                self._handle_deletion(item)

    def _handler(self, resource: Resource[Object]) -> ResourceEventHandler[Object]:
        def on_change(kind: ChangeType, old: Object | None, new: Object | None) -> None:
            if resource.plural == CRDS:
                self._crds_changed.set()
            before = GraphObject.of(resource, old) if old is not None else None
            if new is None:
                assert before is not None
                self._handle_deletion(before)
                return
            item = GraphObject.of(resource, new)
            self._graph.put(item)
            if before is not None and replace(before, version=item.version) == item:
                return  # neither its owners nor its deletion changed
            if item.owners or item.deleting:
                self.queue.add(item.uid)
            if item.waits_for_dependents:
                self._enqueue_dependents(item.uid)

        return on_change

    def _handle_deletion(self, item: GraphObject) -> None:
        self._graph.remove(item.uid)
        self._remember_absent(item.uid)
        self._enqueue_dependents(item.uid)
        for owner in item.owners:
            known = self._graph.get(owner.uid)
            if known is not None and known.waits_for_dependents:
                self.queue.add(owner.uid)

    def _enqueue_dependents(self, uid: str) -> None:
        for dependent in self._graph.dependents(uid):
            self.queue.add(dependent.uid)

    def _remember_absent(self, uid: str) -> None:
        self._absent_owners[uid] = None
        if len(self._absent_owners) > MAX_ABSENT_OWNERS:
            self._absent_owners.popitem(last=False)

    def object_for_key(self, key: str) -> ObjectReference | None:
        """Return a reference to the object of a uid."""
        item = self._graph.get(key)
        if item is None:
            return None
        return ObjectReference(
            api_version=item.resource.api_version, kind=item.resource.kind,
            namespace=item.namespace, name=item.name, uid=item.uid,
        )  # fmt: skip

    async def reconcile(self, key: str) -> None:
        """Process one object: as an owner being deleted, or as a dependent."""
        item = self._graph.get(key)
        if item is None:
            return
        dependents = self._graph.dependents(key)
        if item.orphans_dependents:
            writes = plan_orphaning(item, dependents)
        elif item.waits_for_dependents:
            writes = plan_foreground_deletion(item, dependents)
        else:
            owners = await self._owners(item)
            writes = plan_dependent(item, owners, dependents)
        await execute_writes(self.client, writes)

    async def _owners(self, item: GraphObject) -> dict[str, GraphObject | None]:
        """Return an object's owners; get them from the server if they are not in the graph."""
        owners: dict[str, GraphObject | None] = {}
        for owner in item.owners if not item.deleting else ():
            resource = self._resource_of(owner, item)
            known = self._graph.get(owner.uid)
            if resource is None:
                continue
            if known is not None:
                owners[owner.uid] = known if _may_own(known, item) else None
            elif owner.uid in self._absent_owners:
                owners[owner.uid] = None
            else:
                owners[owner.uid] = await self._get_owner(resource, owner, item.namespace)
        return owners

    def _resource_of(self, owner: OwnerReference, item: GraphObject) -> Resource[Object] | None:
        """Return the resource of an owner, or None if it cannot be resolved.

        The kind may not be served yet. A cluster-scoped object cannot have a namespaced owner.
        """
        group = owner.api_version.rpartition("/")[0]
        resource = self._kinds.get((group, owner.kind))
        if resource is None:
            self._unresolved.add(item.uid)
            return None
        return None if resource.namespaced and not item.namespace else resource

    async def _get_owner(
        self, resource: Resource[Object], owner: OwnerReference, namespace: str
    ) -> GraphObject | None:
        try:
            obj = await self.client.get(resource, owner.name, namespace)
        except NotFound:
            obj = None
        if obj is None or obj.uid != owner.uid:
            self._remember_absent(owner.uid)
            return None
        return GraphObject.of(resource, obj)


def _may_own(owner: GraphObject, item: GraphObject) -> bool:
    """Return whether an owner is valid; an owner in another namespace counts as absent."""
    return not owner.namespace or owner.namespace == item.namespace
