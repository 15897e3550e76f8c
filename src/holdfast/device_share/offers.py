"""What a reservation offers to a pod, and which devices the pod may therefore take."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.device_share.allocations import DeviceUse
from holdfast.device_share.candidates import UNRESTRICTED, Restriction
from holdfast.device_share.node_devices import NodeDevices


class Offer(NamedTuple):
    """What remains of a reservation for an owner; of ``restricted`` types it gets nothing else.

    ``all_of_it``: for a reservation that takes over what pods have, and must get all of that.
    """

    remaining: DeviceUse
    restricted: frozenset[str] = frozenset()
    all_of_it: bool = False


def restriction_of(offer: Offer | None, state: NodeDevices) -> Restriction:
    """Return which devices an owner may take: those of its reservation first, or no others."""
    if offer is None:
        return UNRESTRICTED
    minors = offer.remaining.minors()
    if not offer.restricted:
        return Restriction(minors, offer.remaining.vfs)
    own = offer.remaining.within(frozenset(one for one in minors if one[0] in offer.restricted))
    others = tuple(
        (kind, device.minor, device.total)
        for kind, devices in state.inventory.devices.items()
        if kind not in offer.restricted
        for device in devices
    )
    limit = own.plus(DeviceUse(others))
    return Restriction(minors, offer.remaining.vfs, limit.minors(), limit)
