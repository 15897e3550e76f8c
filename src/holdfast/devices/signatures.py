"""Signatures of nodes: everything about their devices that an allocation depends on, hashable.

The search has the same result on nodes with equal signatures, so it runs once for them. A signature
lists the devices in search order with the results of selectors and taints, and their constraint
values, counters and capacity. Names are left out; constraint values are numbered by first use.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.api.node import Node
from holdfast.api.quantity import Quantity
from holdfast.devices.allocated_devices import AllocatedDevices
from holdfast.devices.allocator import Allocator
from holdfast.devices.constraints import values_of
from holdfast.devices.consumable_capacity import consumed_capacity
from holdfast.devices.errors import AllocationError
from holdfast.devices.matching import tolerated
from holdfast.devices.pools import Pool
from holdfast.devices.remaining_capacity import RemainingCapacity
from holdfast.devices.requests import RequestAlternative
from holdfast.devices.slices import DeviceCandidate

_FAILS = "fails"


class SignatureBuilder:
    """Builds the signatures of nodes for the claims of one allocator."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._features = allocator.features
        self._alternatives = [
            alternative for request in allocator.requests for alternative in request.alternatives
        ]
        self._attributes = sorted(
            {
                name
                for claim in allocator.claims
                for c in claim.spec.devices.constraints
                if (name := c.match_attribute or c.distinct_attribute)
            }
        )
        self._constants: WeakKeyDictionary[DeviceCandidate, Hashable] = WeakKeyDictionary()

    def signature(
        self, node: Node, pools: Sequence[Pool], allocated_devices: AllocatedDevices
    ) -> Hashable:
        """Return the signature of a node."""
        remaining = RemainingCapacity(pools, allocated_devices, self._features)
        numbers: dict[Any, int] = {}
        return tuple(
            (
                pool.incomplete,
                bool(pool.invalid_reason),
                remaining.remaining_counters(pool),
                tuple(self._device(c, node, allocated_devices, numbers) for c in pool.candidates),
            )
            for pool in pools
        )

    def _device(
        self,
        candidate: DeviceCandidate,
        node: Node,
        allocated_devices: AllocatedDevices,
        numbers: dict[Any, int],
    ) -> Hashable:
        constant = self._constants.get(candidate)
        if constant is None:
            constant = self._constants[candidate] = self._constant(candidate)
        identity = candidate.id
        consumed = allocated_devices.consumed.get(identity)
        return (
            constant,
            identity in allocated_devices.unshared,
            identity in allocated_devices.shared,
            frozenset(consumed.items()) if consumed else None,
            candidate.is_available_on(node),
            self._partition(candidate, numbers) if self._attributes else None,
        )

    def _partition(self, candidate: DeviceCandidate, numbers: dict[Any, int]) -> Hashable:
        """Return constraint values, numbered in the order in which they first occur on the node."""
        found = []
        for name in self._attributes:
            attribute = candidate.attribute(name)
            lists = self._features.list_attributes
            values = frozenset() if attribute is None else values_of(attribute, lists=lists)
            found.append(
                frozenset(numbers.setdefault((name, value), len(numbers)) for value in values)
            )
        return tuple(found)

    def _constant(self, candidate: DeviceCandidate) -> Hashable:
        """Return the part of the signature that depends on the slice only."""
        device = candidate.device
        consumes = frozenset(
            (set_name, name, amount)
            for set_name, amounts in candidate.consumed_counters.items()
            for name, amount in amounts.items()
        )
        capacity = frozenset((name, str(c.value)) for name, c in device.capacity.items())
        return (
            tuple(self._alternative(alternative, candidate) for alternative in self._alternatives),
            consumes,
            candidate.shareable,
            capacity if candidate.shareable else None,
            bool(device.binding_conditions),
        )

    def _alternative(self, alternative: RequestAlternative, candidate: DeviceCandidate) -> Hashable:
        device = candidate.device
        tolerates = not self._features.device_taints or tolerated(
            device.taints, alternative.tolerations
        )
        wanted = consumed_capacity(device.capacity, alternative.capacity)
        if wanted is None:
            return (self._selectable(alternative, candidate), tolerates, None)
        if candidate.shareable:
            return (self._selectable(alternative, candidate), tolerates, frozenset(wanted.items()))
        fits = all(n <= Quantity.parse(device.capacity[k].value) for k, n in wanted.items())
        return (self._selectable(alternative, candidate), tolerates, fits)

    def _selectable(self, alternative: RequestAlternative, candidate: DeviceCandidate) -> Hashable:
        try:
            return self._allocator.matcher.selected(alternative, candidate)
        except AllocationError:
            return _FAILS
