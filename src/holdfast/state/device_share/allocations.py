"""Allocations of devices, and sums of them: what is used of each device of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.api.shared_device import VirtualFunction
from holdfast.state.device_share.requests import MEMORY, RESOURCES, DeviceAmounts


@dataclass(frozen=True, slots=True)
class SharedDeviceAllocation:
    """The amounts and the virtual functions of one device that a pod or a reservation has."""

    minor: int
    amounts: DeviceAmounts
    vfs: tuple[VirtualFunction, ...] = ()


AllocationsByType = Mapping[str, tuple[SharedDeviceAllocation, ...]]
"""Allocations by type of device, each in ascending order of minors."""


DeviceTotals = Mapping[tuple[str, int], DeviceAmounts]
"""What the healthy devices of a node have, by type and minor."""
NO_TOTALS: DeviceTotals = {}


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Amounts and virtual functions by type and minor; immutable and hashable.

    ``amounts`` are (type, minor, amounts) in ascending order, none of them all zero; ``vfs`` are
    (type, minor, bus id).
    """

    amounts: tuple[tuple[str, int, DeviceAmounts], ...] = ()
    vfs: frozenset[tuple[str, int, str]] = frozenset()

    def plus(self, other: DeviceUse) -> DeviceUse:
        """Return the sum."""
        sums = {(kind, minor): amounts for kind, minor, amounts in self.amounts}
        for kind, minor, more in other.amounts:
            amounts = sums.get((kind, minor))
            sums[kind, minor] = _add(amounts, more) if amounts else more
        return _of(sums, self.vfs | other.vfs)

    def minus(self, other: DeviceUse) -> DeviceUse:
        """Return the difference, nothing below zero."""
        sums = {(kind, minor): amounts for kind, minor, amounts in self.amounts}
        for kind, minor, less in other.amounts:
            if amounts := sums.get((kind, minor)):
                pairs = zip(amounts, less, strict=True)
                sums[kind, minor] = tuple([max(a - b, 0) for a, b in pairs])
        return _of(sums, self.vfs - other.vfs)

    def minors(self) -> frozenset[tuple[str, int]]:
        """Return the (type, minor) of all devices of which something is used."""
        return frozenset((kind, minor) for kind, minor, _ in self.amounts)

    def includes(self, other: DeviceUse) -> bool:
        """Return whether this has at least as much of every device as the other."""
        return not other.minus(self).amounts

    def has_less_than(self, other: DeviceUse) -> bool:
        """Return whether this has less of a device, or fewer virtual functions.

        Bytes of GPUs do not count: percent of them are rounded down, so that a pod that requests
        bytes and one that has the remaining percent have a few bytes too many together.
        """
        lost = other.minus(self)
        return bool(lost.vfs) or any(
            any(amounts[:MEMORY] + amounts[MEMORY + 1 :]) if kind == "gpu" else any(amounts)
            for kind, _, amounts in lost.amounts
        )

    def within(self, devices: frozenset[tuple[str, int]]) -> DeviceUse:
        """Return the use of these devices only."""
        return DeviceUse(
            tuple([one for one in self.amounts if one[:2] in devices]),
            frozenset(one for one in self.vfs if one[:2] in devices),
        )

    def limited(self, totals: DeviceTotals, taken: DeviceUse) -> DeviceUse:
        """Return the part of the use that fits in what ``taken`` leaves of the devices.

        Devices without totals have enough.
        """
        used = {(kind, minor): amounts for kind, minor, amounts in taken.amounts}
        left: dict[tuple[str, int], DeviceAmounts] = {}
        for kind, minor, amounts in self.amounts:
            if (total := totals.get((kind, minor))) is not None:
                gone = used.get((kind, minor), (0,) * len(total))
                possible = zip(amounts, total, gone, strict=True)
                amounts = tuple([min(a, max(0, t - g)) for a, t, g in possible])  # noqa: PLW2901
            left[kind, minor] = amounts
        return _of(left, self.vfs - taken.vfs)

    def resources(self) -> dict[str, int]:
        """Return the sum over all devices by resource name."""
        total: dict[str, int] = {}
        for kind, _, amounts in self.amounts:
            for name, amount in zip(RESOURCES[kind], amounts, strict=True):
                if amount:
                    total[name] = total.get(name, 0) + amount
        return total


UNUSED = DeviceUse()


def use_of(allocations: AllocationsByType) -> DeviceUse:
    """Return what the allocations of one pod or reservation use."""
    sums: dict[tuple[str, int], DeviceAmounts] = {}
    vfs: set[tuple[str, int, str]] = set()
    for kind, listed in allocations.items():
        for one in listed:
            before = sums.get((kind, one.minor))
            sums[kind, one.minor] = _add(before, one.amounts) if before else one.amounts
            vfs.update((kind, one.minor, vf.bus_id) for vf in one.vfs)
    return _of(sums, frozenset(vfs))


def _add(some: DeviceAmounts, more: DeviceAmounts) -> DeviceAmounts:
    return tuple([a + b for a, b in zip(some, more, strict=True)])


def _of(
    sums: Mapping[tuple[str, int], DeviceAmounts], vfs: Iterable[tuple[str, int, str]]
) -> DeviceUse:
    listed = [(kind, minor, amounts) for (kind, minor), amounts in sums.items() if any(amounts)]
    return DeviceUse(tuple(sorted(listed)), frozenset(vfs))
