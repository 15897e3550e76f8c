"""Which devices are taken: whole devices, shares of devices, and capacity consumed of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.api.devices import DeviceResult, ResourceClaim
from holdfast.api.quantity import Quantity
from holdfast.devices.amounts import Consumed
from holdfast.devices.slices import DeviceId


def device_of(result: DeviceResult) -> DeviceId:
    """The identity of an allocated device."""
    return (result.driver, result.pool, result.device)


def results_of(claim: ResourceClaim) -> tuple[DeviceResult, ...]:
    """The devices a claim holds; looking at a device as administrator takes nothing."""
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return tuple(r for r in allocation.devices.results if r.device and not r.admin_access)


@dataclass(slots=True)
class Holdings:
    """Counts rather than sets: two claims on one device (somebody else's doing) stay two."""

    whole: Counter[DeviceId] = field(default_factory=Counter)
    shares: Counter[DeviceId] = field(default_factory=Counter)
    consumed: dict[DeviceId, Consumed] = field(default_factory=dict)
    sharing: bool = True
    """Whether shares are understood; without, every result takes the whole device."""

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim], *, sharing: bool = True) -> Holdings:
        """Add up what the claims hold."""
        holdings = cls(sharing=sharing)
        for claim in claims:
            for result in results_of(claim):
                holdings.take(result)
        return holdings

    def taken(self, device: DeviceId) -> bool:
        """Tell whether anybody holds the device or part of it."""
        return device in self.whole or device in self.shares

    def take(self, result: DeviceResult) -> None:
        """Enter one allocated device."""
        device = device_of(result)
        if result.share_id is None or not self.sharing:
            self.whole[device] += 1
            return
        self.shares[device] += 1
        self.consume(device, _parsed(result))

    def consume(self, device: DeviceId, amounts: Consumed) -> None:
        """Enter capacity consumed of a shared device."""
        if not amounts:
            return
        used = self.consumed.setdefault(device, {})
        for name, amount in amounts.items():
            used[name] = used[name] + amount if name in used else amount

    def give_back(self, result: DeviceResult) -> None:
        """Undo ``take``."""
        device = device_of(result)
        shared = result.share_id is not None and self.sharing
        holders = self.shares if shared else self.whole
        holders[device] -= 1
        if holders[device] <= 0:
            del holders[device]
        if shared:
            self._release(device, _parsed(result))

    def _release(self, device: DeviceId, amounts: Consumed) -> None:
        if device not in self.shares:
            self.consumed.pop(device, None)
            return
        for name, amount in amounts.items():
            self.consumed[device][name] -= amount

    def copy(self) -> Holdings:
        """An independent copy."""
        consumed = {device: dict(amounts) for device, amounts in self.consumed.items()}
        return Holdings(Counter(self.whole), Counter(self.shares), consumed, self.sharing)


def _parsed(result: DeviceResult) -> Consumed:
    amounts: Mapping[str, str | int | float] = result.consumed_capacity
    return {name: Quantity.parse(amount) for name, amount in amounts.items()}
