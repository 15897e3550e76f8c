"""Remaining shared counters and consumable capacity during one allocation search."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.api.quantity import Quantity
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.consumable_capacity import (
    ConsumedCapacity,
    consumed_capacity,
    forbidden_request,
)
from holdfast.state.devices.features import Features
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.requests import RequestAlternative
from holdfast.state.devices.slices import DeviceCandidate, DeviceId, PoolId

_ZERO = Quantity(0)


class RemainingCapacity:
    """Counters of the pools and capacity of the devices, minus what this search has chosen.

    Chosen devices form a stack: ``deallocate_last`` undoes the latest ``allocate``.
    """

    def __init__(self, allocated_devices: AllocatedDevices, features: Features) -> None:
        self._allocated_devices = allocated_devices
        self._features = features
        self._remaining: dict[tuple[PoolId, str], dict[str, Quantity]] = {}
        self._overcommitted: dict[PoolId, bool] = {}
        self._consumed: dict[DeviceId, ConsumedCapacity] = {}
        self._chosen: list[tuple[DeviceCandidate, ConsumedCapacity | None, Pool | None]] = []

    def consumed_capacity_for(
        self, alternative: RequestAlternative, candidate: DeviceCandidate
    ) -> ConsumedCapacity | None:
        """Return what the request would consume of the device's capacity; None if it does not fit.

        For a device that cannot be shared this only filters: the whole device is allocated.
        """
        if not self._features.consumable_capacity:
            return {}
        capacities = candidate.device.capacity
        needed = consumed_capacity(capacities, alternative.capacity)
        if needed is None:
            return None
        used = self._allocated_devices.consumed.get(candidate.id, {})
        chosen = self._consumed.get(candidate.id, {})
        for name, amount in needed.items():
            total = amount + used.get(name, _ZERO) + chosen.get(name, _ZERO)
            if total > Quantity.parse(capacities[name].value):
                return None
        return needed

    def capacity_shortage(self, alternative: RequestAlternative, candidate: DeviceCandidate) -> str:
        """Describe why ``consumed_capacity_for`` returns None; "" if it does not."""
        if self.consumed_capacity_for(alternative, candidate) is not None:
            return ""
        capacities = candidate.device.capacity
        for name, amount in (consumed_capacity(capacities, alternative.capacity) or {}).items():
            used = self._allocated_devices.consumed.get(candidate.id, {}).get(name, _ZERO)
            chosen = self._consumed.get(candidate.id, {}).get(name, _ZERO)
            left = Quantity.parse(capacities[name].value) - used - chosen
            if amount > left:
                return f"{amount} of {name} is needed, {left} is left"
        return forbidden_request(capacities, alternative.capacity)

    def has_counters_for(self, pool: Pool, candidate: DeviceCandidate) -> bool:
        """Return whether the remaining counters suffice; an allocated shared device needs none.

        If any counter of the pool is overcommitted, no device with counters can be allocated.
        """
        if not candidate.consumed_counters:
            return True
        if not self._features.partitionable_devices:
            return False
        if self._has_counters(candidate):
            return True
        if self._is_overcommitted(pool):
            return False
        return all(
            left[name] >= amount
            for set_name, amounts in candidate.consumed_counters.items()
            for left in (self._counters(pool, set_name),)
            for name, amount in amounts.items()
        )

    def counter_shortage(
        self, pool: Pool, candidate: DeviceCandidate
    ) -> tuple[str, Quantity, Quantity] | None:
        """Return a counter of which too little is left, what is needed and what is left.

        None if ``has_counters_for`` returns True.
        """
        if self.has_counters_for(pool, candidate):
            return None
        needed = [
            (set_name, name, amount)
            for set_name, amounts in candidate.consumed_counters.items()
            for name, amount in amounts.items()
        ]
        for set_name, name, amount in needed if self._features.partitionable_devices else ():
            left = self._counters(pool, set_name)[name]
            if left < amount:
                return f"{set_name}/{name}", amount, left
        set_name, name, amount = needed[0]
        return f"{set_name}/{name}", amount, _ZERO

    def remaining_counters(self, pool: Pool) -> frozenset[tuple[str, str, Quantity]]:
        """Return the remaining amount of the counters of its own devices, as one hashable value."""
        return frozenset(
            (set_name, name, amount)
            for set_name in pool.own_sets
            for name, amount in self._counters(pool, set_name).items()
        )

    def allocate(
        self, pool: Pool, candidate: DeviceCandidate, consumed: ConsumedCapacity | None
    ) -> None:
        """Subtract what a chosen device needs; ``consumed`` is set for a shared device only."""
        needs_counters = bool(candidate.consumed_counters) and not self._has_counters(candidate)
        if needs_counters:
            self._subtract(pool, candidate.consumed_counters, 1)
        if consumed is not None:
            used = self._consumed.setdefault(candidate.id, {})
            for name, amount in consumed.items():
                used[name] = used.get(name, _ZERO) + amount
        self._chosen.append((candidate, consumed, pool if needs_counters else None))

    def deallocate_last(self) -> None:
        """Undo the latest ``allocate``."""
        candidate, consumed, pool = self._chosen.pop()
        if pool is not None:
            self._subtract(pool, candidate.consumed_counters, -1)
        if consumed is None:
            return
        used = self._consumed[candidate.id]
        for name, amount in consumed.items():
            used[name] = used[name] - amount
        if not any(earlier.id == candidate.id for earlier, _, _ in self._chosen):
            del self._consumed[candidate.id]

    def _has_counters(self, candidate: DeviceCandidate) -> bool:
        shared = self._features.consumable_capacity and candidate.shareable
        return shared and (
            candidate.id in self._allocated_devices.shared
            or candidate.id in self._allocated_devices.consumed
            or candidate.id in self._consumed
        )

    def _counters(self, pool: Pool, set_name: str) -> dict[str, Quantity]:
        """Return what is left of a counter set; computed when the first device needs it."""
        left = self._remaining.get((pool.id, set_name))
        if left is None:
            is_allocated = self._allocated_devices.is_allocated
            left = self._remaining[pool.id, set_name] = pool.counters.remaining(
                set_name, is_allocated
            )
        return left

    def _is_overcommitted(self, pool: Pool) -> bool:
        known = self._overcommitted.get(pool.id)
        if known is None:
            is_allocated = self._allocated_devices.is_allocated
            known = self._overcommitted[pool.id] = bool(pool.counters.overcommitted(is_allocated))
        return known

    def _subtract(
        self, pool: Pool, amounts: Mapping[str, Mapping[str, Quantity]], times: int
    ) -> None:
        for set_name, counters in amounts.items():
            left = self._counters(pool, set_name)
            for name, amount in counters.items():
                left[name] = left[name] - amount * times
