"""Follow the NodeInventories of one driver with an informer, and write their bookings.

The writes for one node are made one after the other, each with all bookings that wait for it: all
bookings of a node are in one object, and concurrent writes would only conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.api.classic_dra.node_inventory import (
    NODE_INVENTORIES,
    NodeAnswer,
    NodeInventory,
    NodeInventorySpec,
)
from holdfast.client.client import Client, PatchType
from holdfast.client.informer_set import InformerSet
from holdfast.node.driverkit.classic_dra.bookings import Booking, Bookings
from holdfast.node.driverkit.classic_dra.fitting import Unsuitable
from holdfast.node.driverkit.classic_dra.handlers import NotYet
from holdfast.node.driverkit.classic_dra.written_objects import WrittenObjects
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Conflict, Invalid, NotFound

_MOST_ATTEMPTS = 5


class InventoryStore:
    """Keeps ``bookings`` equal to the NodeInventories of a namespace, and writes to them."""

    def __init__(
        self,
        driver: str,
        namespace: str,
        client: Client,
        clock: Clock,
        informers: InformerSet,
    ) -> None:
        self.driver = driver
        self.namespace = namespace
        self.bookings = Bookings(clock.monotonic)
        self._client = client
        self._finalizer = f"{driver}/allocating"
        self._locks: dict[str, asyncio.Lock] = {}
        informer = informers.get(NODE_INVENTORIES, namespace=namespace)
        self._known = WrittenObjects(informer)
        self.on_change: Callable[[], None] = lambda: None
        """Called when devices, or the readiness of an inventory, have changed."""
        informer.add_handler(self._on_event)

    def object_name(self, pool: str) -> str:
        """Return the name of an inventory: the node's name, or the driver's."""
        return pool or self.driver

    async def write(self, pool: str, uids: Collection[str]) -> None:
        """Store the bookings of claims on a node; raises Unsuitable if it has no inventory."""
        async with self._locks.setdefault(pool, asyncio.Lock()):
            for _ in range(_MOST_ATTEMPTS):
                wanted = [b for b in self.bookings.on_pool(pool).values() if self._is_missing(b)]
                if not any(booking.uid in uids for booking in wanted):
                    return
                claims = {each.uid: msgspec.to_builtins(each.claim) for each in wanted}
                if await self._patch(pool, claims):
                    return
                self._drop_what_is_taken([each for each in wanted if each.uid in uids])
        raise self._too_many_conflicts(pool)

    async def protect(self, pool: str) -> None:
        """Keep an inventory, even if its node is deleted, until ``unprotect``.

        A finalizer does this: while the result of the author's ``allocate`` is unknown, only the
        booking tells that it was called.
        """
        async with self._locks.setdefault(pool, asyncio.Lock()):
            for _ in range(_MOST_ATTEMPTS):
                inventory = self.bookings.inventory(pool)
                if inventory is None or inventory.is_deleted:
                    return
                finalizers = inventory.metadata.finalizers
                if self._finalizer in finalizers:
                    return
                if await self._patch_finalizers(pool, [*finalizers, self._finalizer]):
                    return
        raise self._too_many_conflicts(pool)

    async def unprotect(self) -> None:
        """Remove the finalizers of inventories for which no ``allocate`` has an unknown outcome."""
        for pool in self.bookings.pools():
            async with self._locks.setdefault(pool, asyncio.Lock()):
                inventory = self.bookings.inventory(pool)
                if inventory is None or self.bookings.is_allocating(pool):
                    continue
                finalizers = inventory.metadata.finalizers
                if self._finalizer in finalizers:
                    kept = [each for each in finalizers if each != self._finalizer]
                    await self._patch_finalizers(pool, kept)  # otherwise in the next round

    async def remove(self, booking: Booking, answer: NodeAnswer | None) -> None:
        """Remove the booking of a claim from memory and from the inventory.

        ``answer`` is the node's answer that caused this; raises NotYet if it is outdated.
        """
        async with self._locks.setdefault(booking.pool, asyncio.Lock()):
            for _ in range(_MOST_ATTEMPTS):
                inventory = self.bookings.inventory(booking.pool)
                if inventory is None or booking.uid not in inventory.status.allocated:
                    break
                if inventory.spec.answers.get(booking.uid) != answer:
                    raise NotYet(f"node {booking.pool} has meanwhile begun to allocate, or ended")
                if await self._patch(booking.pool, {booking.uid: None}):
                    break
            else:
                raise self._too_many_conflicts(booking.pool)
            self.bookings.drop(booking.uid)
            await self._forget_answer(booking)

    async def _forget_answer(self, booking: Booking) -> None:
        """Remove the node's answer to a booking, so that the next one gets another."""
        inventory = self.bookings.inventory(booking.pool)
        if inventory is None or booking.uid not in inventory.spec.answers:
            return
        meta = inventory.metadata
        body = {"metadata": {"uid": meta.uid}, "spec": {"answers": {booking.uid: None}}}
        with suppress(NotFound, Conflict):
            self._set(
                await self._client.patch(
                    NODE_INVENTORIES, inventory.name, body, inventory.namespace
                )
            )

    def _too_many_conflicts(self, pool: str) -> Conflict:
        return Conflict(
            f"NodeInventory {self.object_name(pool)} was changed by another client in each of "
            f"{_MOST_ATTEMPTS} attempts"
        )

    def _drop_what_is_taken(self, bookings: Sequence[Booking]) -> None:
        """Drop bookings that a change of the inventory has made impossible."""
        for booking in bookings:
            inventory = self.bookings.inventory(booking.pool)
            stored = {} if inventory is None else inventory.status.allocated
            if booking.uid not in stored and not self.bookings.fits_still(booking):
                self.bookings.drop(booking.uid)

    def _is_missing(self, booking: Booking) -> bool:
        return not booking.claim.has_nothing and not self.bookings.is_stored(booking)

    async def _patch(self, pool: str, allocated: dict[str, Any]) -> bool:
        """Write bookings; return False if the inventory was changed before and is read again."""
        return await self._send(
            pool, lambda inventory: _bookings_patch(inventory, allocated), "status"
        )

    async def _patch_finalizers(self, pool: str, finalizers: list[str]) -> bool:
        """Write finalizers; return False as ``_patch`` does."""
        change = {"op": "add", "path": "/metadata/finalizers", "value": finalizers}
        return await self._send(pool, lambda _found: [change])

    async def _send(
        self, pool: str, patch: Callable[[NodeInventory], list[dict[str, Any]]], part: str = ""
    ) -> bool:
        inventory = self.bookings.inventory(pool)
        if inventory is None:
            raise Unsuitable(f"there is no NodeInventory {self.object_name(pool)}")
        version = inventory.metadata.resource_version
        guard = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        try:
            written = await self._client.patch(
                NODE_INVENTORIES,
                inventory.name,
                [guard, *patch(inventory)],
                inventory.namespace,
                type=PatchType.JSON,
                subresource=part,
            )
        except (Conflict, Invalid) as error:
            await self._read(pool, inventory.name)
            if isinstance(error, Invalid) and self.bookings.inventory(pool) == inventory:
                raise  # no other write is the reason
            return False
        except NotFound:
            self.bookings.remove_inventory(pool)
            return False
        self._set(written)
        return True

    async def _read(self, pool: str, name: str) -> None:
        try:
            self._set(await self._client.get(NODE_INVENTORIES, name, self.namespace))
        except NotFound:
            self.bookings.remove_inventory(pool)

    def _set(self, inventory: NodeInventory) -> None:
        self.bookings.set_inventory(self._known.put(inventory))

    def _on_event(self, kind: str, old: NodeInventory | None, new: NodeInventory | None) -> None:
        seen = new or old
        assert seen is not None
        if seen.spec.driver_name != self.driver:
            return
        now = self._known.get(seen.key)
        if now is None:
            self.bookings.remove_inventory(seen.spec.node_name)
        else:
            self.bookings.set_inventory(now)
        if old is None or new is None or _may_help(old.spec, new.spec):
            self.on_change()


def _bookings_patch(inventory: NodeInventory, allocated: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a patch that sets bookings, and removes those that are None.

    A merge patch would drop each null in the author's data, and merge it with older data.
    """
    if not inventory.status.allocated:  # perhaps there is no such field
        return [{"op": "add", "path": "/status", "value": {"allocated": allocated}}]
    return [
        {"op": "remove", "path": f"/status/allocated/{uid}"}
        if claim is None
        else {"op": "add", "path": f"/status/allocated/{uid}", "value": claim}
        for uid, claim in allocated.items()
    ]


def _may_help(old: NodeInventorySpec, new: NodeInventorySpec) -> bool:
    """Return whether a change may let claims be allocated; a removed answer does not."""
    before = {uid for uid, answer in old.answers.items() if answer.is_final}
    now = {uid for uid, answer in new.answers.items() if answer.is_final}
    return bool(now - before) or msgspec.structs.replace(old, answers=new.answers) != new
