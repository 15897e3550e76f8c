"""Call the author's functions that allocate and release, and store each step around the calls.

::

    booked ──► begun ──► result ──► status of the claim       undo: release, then remove the booking
           (1)      (2)        (3)

A controller that ends at (1) has called nothing, and nothing is released. At (2) it is unknown
whether the function was called, or has returned. So it is called again with the same arguments; it
finds its earlier allocation or raises ``Unsuitable``; then its result is stored. At (3) the
function is not called again. So ``release`` gets what the function returned, or is not called. From
before (2) until the claim has the result, a finalizer keeps the inventory, even if its node is
deleted. With ``allocate_on_node`` the node part stores the same steps in the spec of its
NodeInventory.

This costs two more writes per claim. Without them, in a run in which controllers were killed, 48 of
270 releases had a handle without the author's data or followed ``Unsuitable``. If ``release`` were
called without data, every author would have to search for the allocation, and a driver that does
not would leak it (decision 0036).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from holdfast.api.classic_dra.names import MAX_HANDLE_BYTES
from holdfast.api.classic_dra.node_inventory import NodeAnswer
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.meta import ObjectMeta
from holdfast.node.driverkit.classic_dra.bookings import Booking
from holdfast.node.driverkit.classic_dra.fitting import Unsuitable
from holdfast.node.driverkit.classic_dra.functions import FitFunctions
from holdfast.node.driverkit.classic_dra.handle import Handle, encode_handle, handle_of, with_result
from holdfast.node.driverkit.classic_dra.handlers import ClaimItem, NotYet
from holdfast.node.driverkit.classic_dra.inventory_conversion import choice_of, request_of
from holdfast.node.driverkit.classic_dra.inventory_store import InventoryStore
from holdfast.runtime.errors import HoldfastError, Retryable


class StillAllocating(Retryable):
    """A node has begun to allocate a claim and has not answered."""


class BookingAllocator:
    """Makes the allocations of bookings, and undoes them."""

    def __init__(self, functions: FitFunctions, store: InventoryStore) -> None:
        self._functions = functions
        self._store = store

    async def make(self, booking: Booking, item: ClaimItem) -> Handle:
        """Return the handle of a stored booking, after the author's function has returned.

        Raises Unsuitable if it refuses; then the booking is gone.
        """
        try:
            return await self._make(booking, item)
        except Unsuitable:
            await self._store.remove(booking, self._answer(booking))
            raise

    async def undo(self, booking: Booking, claim: ClassicClaim | None = None) -> None:
        """Release what was allocated for a booking, if anything was, then remove the booking.

        ``claim`` is None if it does not exist any more.
        """
        answer = self._answer(booking)
        if self._functions.release is not None:
            handle = await self._allocated(booking, answer, claim)
            if handle is not None:
                await self._release(handle)
        await self._store.remove(booking, answer)

    async def _make(self, booking: Booking, item: ClaimItem) -> Handle:
        claim = booking.claim
        if not self._functions.do_allocate or claim.has_nothing or claim.result:
            return handle_of(booking)
        if self._functions.on_node:
            answer = self._answer(booking)
            if answer is None or not answer.is_final:
                raise NotYet(f"node {booking.pool} has not allocated claim {claim.name} yet")
            if answer.refused:
                raise Unsuitable(f"node {booking.pool}: {answer.refused}")
            return handle_of(with_result(booking, answer.result))
        return await self._call(booking, item.claim_parameters, item.class_parameters, item.claim)

    async def _allocated(
        self, booking: Booking, answer: NodeAnswer | None, claim: ClassicClaim | None
    ) -> Handle | None:
        """Return the handle with which a booking is released, None if nothing was allocated."""
        functions, booked = self._functions, booking.claim
        if booked.has_nothing:
            return None
        if booked.result:
            return handle_of(booking)
        if not functions.do_allocate:
            return handle_of(booking) if self._store.bookings.is_stored(booking) else None
        if functions.on_node:
            if answer is None or answer.refused or not (answer.begun or answer.result):
                return None
            if not answer.result:
                raise StillAllocating(
                    f"node {booking.pool} is allocating claim {booked.name}, which is released "
                    "when the node has answered, or is deleted"
                )
            return handle_of(with_result(booking, answer.result))
        if not booked.begun:
            return None
        request, of_class = request_of(booked, functions.parameters, functions.class_parameters)
        meta = ObjectMeta(name=booked.name, namespace=booked.namespace, uid=booking.uid)
        try:
            return await self._call(
                booking, request, of_class, claim or ClassicClaim(metadata=meta)
            )
        except Unsuitable:
            return None

    async def _call(
        self, booking: Booking, request: Any, of_class: Any, claim: ClassicClaim
    ) -> Handle:
        """Call ``allocate``; before it, store that it is called, and after it, its result."""
        assert self._functions.allocate is not None
        if not booking.claim.begun:
            self._check_node(booking)
        begun = msgspec.structs.replace(booking.claim, begun=True)
        booking = Booking(booking.uid, booking.pool, begun)
        self._store.bookings.hold(booking)
        await self._store.protect(booking.pool)
        await self._store_booking(booking)
        data = await self._functions.allocate(request, choice_of(begun), of_class, claim)
        try:
            booking = with_result(booking, msgspec.json.encode(data).decode())
            handle = handle_of(booking)
            if (size := len(encode_handle(handle).encode())) > MAX_HANDLE_BYTES:
                raise HoldfastError(f"its handle has {size} bytes, more than {MAX_HANDLE_BYTES}")
            await self._store_booking(booking)
            self._check_node(booking)
        except Retryable:
            raise  # it is still in memory, or will be requested again
        except Exception:
            # It can never be stored, and exists only here.
            await self._release(msgspec.structs.replace(handle_of(booking), data=data))
            await self._store.remove(booking, None)
            raise
        return handle

    def _check_node(self, booking: Booking) -> None:
        """Raise Unsuitable if the inventory of a booking is being deleted, as after its node."""
        inventory = self._store.bookings.inventory(booking.pool)
        if inventory is not None and inventory.is_deleted:
            raise Unsuitable(f"node {booking.pool}: its NodeInventory is being deleted")

    async def _store_booking(self, booking: Booking) -> None:
        """Store a booking; raises Unsuitable if it, or its inventory, is gone."""
        bookings = self._store.bookings
        bookings.hold(booking)
        await self._store.write(booking.pool, {booking.uid})
        if not bookings.is_stored(booking):
            raise Unsuitable(f"node {booking.pool}: its devices were taken meanwhile")

    async def _release(self, handle: Handle) -> None:
        """Call the author's ``release``, with data of the author's type where it matches."""
        if self._functions.release is None:
            return
        if self._functions.handle is not None and handle.data is not None:
            with suppress(msgspec.ValidationError, RecursionError):
                data = msgspec.convert(handle.data, self._functions.handle)
                handle = msgspec.structs.replace(handle, data=data)
        await self._functions.release(handle)

    def _answer(self, booking: Booking) -> NodeAnswer | None:
        inventory = self._store.bookings.inventory(booking.pool)
        return None if inventory is None else inventory.spec.answers.get(booking.uid)
