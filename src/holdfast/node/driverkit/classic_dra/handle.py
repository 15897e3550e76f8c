"""The handle of a claim: data of the driver's controller for its node part, as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.api.classic_dra.node_inventory import BookedClaim, BookedShare
from holdfast.api.meta import Struct
from holdfast.node.driverkit.classic_dra.bookings import Booking


class Handle(Struct, frozen=True):
    """The devices of a claim; ``data`` is from the author's ``allocate``, or chosen by ``fits``."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    """Name, namespace and uid of the claim."""
    node: str = ""
    """The node; empty for devices that every node can use."""
    devices: tuple[str, ...] = ()
    shares: tuple[BookedShare, ...] = ()
    shared: bool = False
    granted: int | None = None
    data: Any = None

    @property
    def amount(self) -> int:
        """The amount that the claim got, in the driver's unit."""
        return len(self.devices) + len(self.shares) if self.granted is None else self.granted


def handle_of(booking: Booking) -> Handle:
    """Return the handle of a booking, with the result of ``allocate`` or the data of the choice."""
    claim = booking.claim
    data = msgspec.json.decode(claim.result) if claim.result else None
    return Handle(
        uid=booking.uid,
        namespace=claim.namespace,
        name=claim.name,
        node=booking.pool,
        devices=claim.devices,
        shares=claim.shares,
        shared=claim.shared,
        granted=claim.granted,
        data=claim.data if data is None else data,
    )


def with_result(booking: Booking, result: str) -> Booking:
    """Return a booking with the result of the function that allocates, as JSON."""
    claim = msgspec.structs.replace(booking.claim, result=result)
    return Booking(booking.uid, booking.pool, claim)


def booking_of(
    uid: str, namespace: str, name: str, handle: Handle, *, begun: bool = False
) -> Booking:
    """Return the booking in the handle of an allocated claim."""
    claim = BookedClaim(
        namespace=namespace,
        name=name,
        devices=handle.devices,
        shares=handle.shares,
        data=handle.data,
        shared=handle.shared,
        granted=handle.granted,
        begun=begun,
        result=msgspec.json.encode(handle.data).decode(),
    )
    return Booking(uid, handle.node, claim)


def encode_handle(handle: Handle) -> str:
    """Return a handle as JSON."""
    return msgspec.json.encode(handle).decode()


def decode_handle(text: str, data_type: Any = None) -> Handle | None:
    """Return a handle whose data has the author's type, or None if this kit did not write it."""
    try:
        handle = msgspec.json.decode(text, type=Handle)
        if data_type is None or handle.data is None:
            return handle
        return msgspec.structs.replace(handle, data=msgspec.convert(handle.data, data_type))
    except (msgspec.DecodeError, RecursionError):
        return None
