"""The bookings of one driver's devices: what inventories have, and what claims have of it.

A booking is known from three sources: the status of a NodeInventory, the handle of an allocated
claim, and the memory of this process during an allocation. A claim has one booking; it counts as
long as one source has it. Without I/O.

One source would not suffice. An inventory that was created again has no bookings, the write of a
booking may be lost, and the cache may be older than the last write. With three sources, none of
these frees a device that is in use. The cost is that a booking may count for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.api.classic_dra.node_inventory import BookedClaim, NodeInventory
from holdfast.node.driverkit.classic_dra.fitting import (
    Choice,
    ClaimParameters,
    Fits,
    FreeDevice,
    WrongChoice,
    choose,
    is_optional,
    remaining,
    without,
)
from holdfast.node.driverkit.classic_dra.inventory_conversion import choice_of, devices_of

NOT_READY = "it has no inventory of the driver, or its inventory is not ready"
HOLD_SECONDS = 60.0
"""How long a booking counts if it is only in memory."""
_MOST_RESULTS = 64
"""Results of ``fits`` that are remembered for each inventory."""


@dataclass(frozen=True, slots=True)
class Booking:
    """The part of one inventory that a claim has."""

    uid: str
    pool: str
    """Name of the node; empty for devices that every node can use."""
    claim: BookedClaim


@dataclass(slots=True)
class _Pool:
    inventory: NodeInventory | None = None
    claims: dict[str, Booking] = field(default_factory=dict)
    """Bookings by uid, from the handles of claims."""
    held: dict[str, tuple[float, Booking]] = field(default_factory=dict)
    """Bookings by uid in memory, and when they expire."""
    free: list[FreeDevice] | None = None
    results: dict[object, tuple[Choice, ...] | str] = field(default_factory=dict)

    def changed(self) -> None:
        self.free = None
        self.results.clear()


class Bookings:
    """Devices by node, and the bookings of claims; ``now`` is a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pools: dict[str, _Pool] = {}
        self._where: dict[str, set[str]] = {}
        """By uid of a claim: the pools that have, or had, a booking of it."""

    def set_inventory(self, inventory: NodeInventory) -> None:
        """Add or replace the inventory of a node."""
        name = inventory.spec.node_name
        pool = self._pool(name)
        pool.inventory = inventory
        for uid in inventory.status.allocated:
            self._where.setdefault(uid, set()).add(name)
        pool.changed()

    def remove_inventory(self, pool: str) -> None:
        """Remove the inventory of a node; bookings of claims stay."""
        self._pool(pool).inventory = None
        self._pool(pool).changed()

    def inventory(self, pool: str) -> NodeInventory | None:
        """Return the inventory of a node."""
        pool_state = self._pools.get(pool)
        return None if pool_state is None else pool_state.inventory

    def pools(self) -> list[str]:
        """Return the names of all nodes that have an inventory, sorted."""
        return sorted(name for name, pool in self._pools.items() if pool.inventory is not None)

    def free(self, pool: str) -> list[FreeDevice] | None:
        """Return what is free on a node, or None if its inventory is missing or not ready."""
        self._expire(pool)
        pool_state = self._pools.get(pool)
        if pool_state is None or pool_state.inventory is None or not pool_state.inventory.is_usable:
            return None
        if pool_state.free is None:
            used = (choice_of(booking.claim) for booking in self.on_pool(pool).values())
            pool_state.free = remaining(devices_of(pool_state.inventory), used)
        return pool_state.free

    def choose(
        self, pool: str, fits: Fits, requests: Sequence[ClaimParameters], key: object
    ) -> tuple[Choice, ...] | str:
        """Return the choices of ``fits`` for requests on a node, or why they do not fit.

        Results are remembered by ``key``, which identifies the requests, until a booking changes.
        """
        free = self.free(pool)
        if free is None:
            if all(is_optional(request.parameters) for request in requests):
                return tuple(Choice(granted=0) for _ in requests)
            return NOT_READY
        results = self._pools[pool].results
        if key not in results:
            if len(results) >= _MOST_RESULTS:
                results.clear()
            results[key] = choose(fits, free, requests)
        return results[key]

    def hold(self, booking: Booking) -> None:
        """Count a booking for a minute, in which it is stored."""
        self._add(booking).held[booking.uid] = (self._now() + HOLD_SECONDS, booking)

    def set_claim(self, booking: Booking) -> None:
        """Count the booking of an allocated claim."""
        pool = self._add(booking)
        pool.claims[booking.uid] = booking
        pool.held.pop(booking.uid, None)

    def unset_claim(self, uid: str) -> None:
        """Note that a claim is not allocated; bookings that are stored or in memory stay."""
        for name in self._where.get(uid, ()):
            if self._pool(name).claims.pop(uid, None) is not None:
                self._pool(name).changed()

    def drop(self, uid: str) -> None:
        """Forget the bookings of a claim from its handle and from memory; stored ones stay."""
        for name in self._where.pop(uid, ()):
            pool = self._pool(name)
            pool.claims.pop(uid, None)
            pool.held.pop(uid, None)
            pool.changed()
            if pool.inventory is not None and uid in pool.inventory.status.allocated:
                self._where.setdefault(uid, set()).add(name)

    def find(self, uid: str) -> list[Booking]:
        """Return the bookings of a claim; more than one only after an interrupted allocation."""
        known = sorted(self._where.get(uid, ()))
        bookings = [b for name in known if (b := self.on_pool(name).get(uid)) is not None]
        if known and not bookings:
            del self._where[uid]
        return bookings

    def on_pool(self, pool: str) -> dict[str, Booking]:
        """Return the bookings of a node by uid of the claim."""
        self._expire(pool)
        pool_state = self._pool(pool)
        stored = {} if pool_state.inventory is None else pool_state.inventory.status.allocated
        listed = {uid: Booking(uid, pool, claim) for uid, claim in stored.items()}
        return listed | pool_state.claims | {uid: one for uid, (_, one) in pool_state.held.items()}

    def all(self) -> Iterator[Booking]:
        """Yield all bookings."""
        for pool in tuple(self._pools):
            yield from self.on_pool(pool).values()

    def fits_still(self, booking: Booking) -> bool:
        """Return whether no other claim has the devices of a booking."""
        inventory = self.inventory(booking.pool)
        if inventory is None:
            return False
        others = (each for each in self.on_pool(booking.pool).values() if each.uid != booking.uid)
        free = remaining(devices_of(inventory), (choice_of(each.claim) for each in others))
        try:
            without(free, choice_of(booking.claim))
        except WrongChoice:
            return False
        return True

    def is_stored(self, booking: Booking) -> bool:
        """Return whether the NodeInventory has a booking, with the same steps of its allocation."""
        inventory, claim = self.inventory(booking.pool), booking.claim
        stored = None if inventory is None else inventory.status.allocated.get(booking.uid)
        if stored is None or (stored.devices, stored.shares) != (claim.devices, claim.shares):
            return False
        return not claim.begun or (stored.begun and stored.result == claim.result)

    def is_allocating(self, pool: str) -> bool:
        """Return whether ``allocate`` was called for a booking that its claim's handle lacks."""
        proved = self._pool(pool).claims
        bookings = self.on_pool(pool)
        return any(each.claim.begun and uid not in proved for uid, each in bookings.items())

    def _pool(self, name: str) -> _Pool:
        return self._pools.setdefault(name, _Pool())

    def _add(self, booking: Booking) -> _Pool:
        self._where.setdefault(booking.uid, set()).add(booking.pool)
        pool = self._pool(booking.pool)
        pool.changed()
        return pool

    def _expire(self, name: str) -> None:
        pool = self._pool(name)
        now = self._now()
        late = [uid for uid, (until, _) in pool.held.items() if until <= now]
        for uid in late:
            del pool.held[uid]
            pool.changed()
