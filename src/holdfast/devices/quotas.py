"""What is left of shared counters and of consumable capacity while a search picks devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.api.quantity import Quantity
from holdfast.devices.amounts import Consumed, demand
from holdfast.devices.features import Features
from holdfast.devices.holdings import Holdings
from holdfast.devices.pools import Pool
from holdfast.devices.requests import Ask
from holdfast.devices.slices import DeviceCandidate, DeviceId, PoolId

_Left = dict[str, dict[str, Quantity]]
_NOTHING = Quantity(0)


class Rooms:
    """Counters of the pools and capacity of the devices, with what was picked taken off.

    Picks are a stack: ``give_back`` undoes the latest ``take``.
    """

    def __init__(self, pools: Sequence[Pool], holdings: Holdings, features: Features) -> None:
        self._holdings = holdings
        self._features = features
        self._pools = {pool.id: pool for pool in pools}
        self._left: dict[PoolId, _Left] = {}
        self._consumed: dict[DeviceId, Consumed] = {}
        self._taken: list[tuple[DeviceCandidate, Consumed | None, bool]] = []

    def capacity_for(self, ask: Ask, candidate: DeviceCandidate) -> Consumed | None:
        """What the ask would take of the device's capacity; None if it is not there.

        For a device that cannot be shared the request only filters: the whole device is taken.
        """
        if not self._features.consumable_capacity:
            return {}
        capacities = candidate.device.capacity
        wanted = demand(capacities, ask.capacity)
        if wanted is None:
            return None
        used = self._holdings.consumed.get(candidate.id, {})
        picked = self._consumed.get(candidate.id, {})
        for name, amount in wanted.items():
            total = amount + used.get(name, _NOTHING) + picked.get(name, _NOTHING)
            if total > Quantity.parse(capacities[name].value):
                return None
        return wanted

    def counters_for(self, pool: Pool, candidate: DeviceCandidate) -> bool:
        """Tell whether the pool has the counters left; a shared device in use has paid already."""
        if not candidate.consumes:
            return True
        if not self._features.partitionable_devices:
            return False
        if self._paid(candidate):
            return True
        left = self._counters(pool)
        return all(
            left[set_name][name] >= amount
            for set_name, amounts in candidate.consumes.items()
            for name, amount in amounts.items()
        )

    def left(self, pool: Pool) -> frozenset[tuple[str, str, Quantity]]:
        """What is left of every counter of the pool, as one hashable value."""
        return frozenset(
            (set_name, name, amount)
            for set_name, amounts in self._counters(pool).items()
            for name, amount in amounts.items()
        )

    def take(self, pool: Pool, candidate: DeviceCandidate, consumed: Consumed | None) -> None:
        """Take what a picked device needs; ``consumed`` is given for a shared one."""
        pays = bool(candidate.consumes) and not self._paid(candidate)
        if pays:
            self._spend(self._counters(pool), candidate.consumes, 1)
        if consumed is not None:
            used = self._consumed.setdefault(candidate.id, {})
            for name, amount in consumed.items():
                used[name] = used.get(name, _NOTHING) + amount
        self._taken.append((candidate, consumed, pays))

    def give_back(self) -> None:
        """Undo the latest ``take``."""
        candidate, consumed, paid = self._taken.pop()
        if paid:
            self._spend(self._left[candidate.id[:2]], candidate.consumes, -1)
        if consumed is None:
            return
        used = self._consumed[candidate.id]
        for name, amount in consumed.items():
            used[name] = used[name] - amount
        if not any(earlier.id == candidate.id for earlier, _, _ in self._taken):
            del self._consumed[candidate.id]

    def _paid(self, candidate: DeviceCandidate) -> bool:
        shared = self._features.consumable_capacity and candidate.shareable
        return shared and (
            candidate.id in self._holdings.shares
            or candidate.id in self._holdings.consumed
            or candidate.id in self._consumed
        )

    def _counters(self, pool: Pool) -> _Left:
        left = self._left.get(pool.id)
        if left is None:
            left = {name: dict(amounts) for name, amounts in pool.counters.items()}
            for candidate in (*pool.candidates, *pool.elsewhere):
                if self._holdings.taken(candidate.id):
                    self._spend(left, candidate.consumes, 1)
            self._left[pool.id] = left
        return left

    @staticmethod
    def _spend(left: _Left, amounts: Mapping[str, Mapping[str, Quantity]], times: int) -> None:
        for set_name, counters in amounts.items():
            for name, amount in counters.items():
                left[set_name][name] = left[set_name][name] - amount * times
