"""Allocated devices: whole devices, shared devices, and the consumed capacity of shared ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from holdfast.api.devices import DeviceResult, ResourceClaim
from holdfast.api.quantity import Quantity
from holdfast.state.devices.consumable_capacity import ConsumedCapacity
from holdfast.state.devices.slices import DeviceId


def device_id(result: DeviceResult) -> DeviceId:
    """Return the identity of an allocated device."""
    return (result.driver, result.pool, result.device)


def allocated_results(claim: ResourceClaim) -> tuple[DeviceResult, ...]:
    """Return the devices allocated to a claim; admin access does not allocate a device."""
    return tuple([r for r in claim.results if r.device and not r.admin_access])


@dataclass(slots=True)
class AllocatedDevices:
    """Counts, not sets: another scheduler may allocate one device to two claims."""

    unshared: Counter[DeviceId] = field(default_factory=Counter)
    shared: Counter[DeviceId] = field(default_factory=Counter)
    consumed: dict[DeviceId, ConsumedCapacity] = field(default_factory=dict)
    sharing: bool = True
    """Whether consumable capacity is enabled; if not, every result allocates a whole device."""

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim], *, sharing: bool = True) -> AllocatedDevices:
        """Sum up the devices of all claims."""
        allocated_devices = cls(sharing=sharing)
        for claim in claims:
            for result in allocated_results(claim):
                allocated_devices.allocate(result)
        return allocated_devices

    def is_allocated(self, device: DeviceId) -> bool:
        """Return whether the device, or a share of it, is allocated."""
        return device in self.unshared or device in self.shared

    def allocate(self, result: DeviceResult) -> None:
        """Add one allocated device."""
        device = device_id(result)
        if result.share_id is None or not self.sharing:
            # += would call a function of Counter in Python for a missing key.
            self.unshared[device] = self.unshared.get(device, 0) + 1
            return
        self.shared[device] = self.shared.get(device, 0) + 1
        self.consume(device, _parsed(result))

    def consume(self, device: DeviceId, amounts: ConsumedCapacity) -> None:
        """Add consumed capacity of a shared device."""
        if not amounts:
            return
        used = self.consumed.setdefault(device, {})
        for name, amount in amounts.items():
            used[name] = used[name] + amount if name in used else amount

    def deallocate(self, result: DeviceResult) -> None:
        """Undo ``allocate``."""
        device = device_id(result)
        shared = result.share_id is not None and self.sharing
        holders = self.shared if shared else self.unshared
        holders[device] -= 1
        if holders[device] <= 0:
            del holders[device]
        if shared:
            self._release(device, _parsed(result))

    def _release(self, device: DeviceId, amounts: ConsumedCapacity) -> None:
        if device not in self.shared:
            self.consumed.pop(device, None)
            return
        for name, amount in amounts.items():
            self.consumed[device][name] -= amount

    def restricted_to(self, devices: Iterable[DeviceId]) -> AllocatedDevices:
        """Return a copy that contains only these devices."""
        some = AllocatedDevices(sharing=self.sharing)
        for device in devices:
            if device in self.unshared:
                some.unshared[device] = self.unshared[device]
            if device in self.shared:
                some.shared[device] = self.shared[device]
            if device in self.consumed:
                some.consumed[device] = dict(self.consumed[device])
        return some

    def copy(self) -> AllocatedDevices:
        """Return an independent copy."""
        consumed = {device: dict(amounts) for device, amounts in self.consumed.items()}
        return AllocatedDevices(
            Counter(self.unshared), Counter(self.shared), consumed, self.sharing
        )


def _parsed(result: DeviceResult) -> ConsumedCapacity:
    amounts: Mapping[str, str | int | float] = result.consumed_capacity
    return {name: _quantity(amount) for name, amount in amounts.items()}


@lru_cache(1024, typed=True)
def _quantity(amount: str | int | float) -> Quantity:
    return Quantity.parse(amount)
