"""What about a node's devices can make a difference to given claims, as one hashable value.

Two nodes with equal signatures give the claims the same answer, so the search runs once for both.
A signature lists the devices in search order with what selectors, taints, constraints, counters
and capacity have to say; names do not occur, and constraint values only as "same as the third".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.api.node import Node
from holdfast.api.quantity import Quantity
from holdfast.devices.allocator import Allocator
from holdfast.devices.amounts import demand
from holdfast.devices.constraints import values_of
from holdfast.devices.failures import AllocationError
from holdfast.devices.holdings import Holdings
from holdfast.devices.matching import tolerated
from holdfast.devices.pools import Pool
from holdfast.devices.quotas import Rooms
from holdfast.devices.requests import Ask
from holdfast.devices.slices import DeviceCandidate

_FAILS = "fails"


class Signer:
    """Signs nodes for the claims of one allocator."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._features = allocator.features
        self._asks = [ask for wanted in allocator.wanted for ask in wanted.asks]
        self._attributes = sorted(
            {
                name
                for claim in allocator.claims
                for c in claim.spec.devices.constraints
                if (name := c.match_attribute or c.distinct_attribute)
            }
        )
        self._known: WeakKeyDictionary[DeviceCandidate, Hashable] = WeakKeyDictionary()

    def sign(self, node: Node, pools: Sequence[Pool], holdings: Holdings) -> Hashable:
        """The node's signature; claims it says nothing new about need no search."""
        rooms = Rooms(pools, holdings, self._features)
        numbers: dict[Any, int] = {}
        return tuple(
            (
                pool.incomplete,
                bool(pool.fault),
                rooms.left(pool),
                tuple(self._device(c, node, holdings, numbers) for c in pool.candidates),
            )
            for pool in pools
        )

    def _device(
        self, candidate: DeviceCandidate, node: Node, holdings: Holdings, numbers: dict[Any, int]
    ) -> Hashable:
        constant = self._known.get(candidate)
        if constant is None:
            constant = self._known[candidate] = self._constant(candidate)
        identity = candidate.id
        consumed = holdings.consumed.get(identity)
        return (
            constant,
            identity in holdings.whole,
            identity in holdings.shares,
            frozenset(consumed.items()) if consumed else None,
            candidate.on_node(node),
            self._partition(candidate, numbers) if self._attributes else None,
        )

    def _partition(self, candidate: DeviceCandidate, numbers: dict[Any, int]) -> Hashable:
        """Constraint values, numbered in the order they first occur on the node."""
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
        """What never changes while the slice stays as it is."""
        device = candidate.device
        consumes = frozenset(
            (set_name, name, amount)
            for set_name, amounts in candidate.consumes.items()
            for name, amount in amounts.items()
        )
        capacity = frozenset((name, str(c.value)) for name, c in device.capacity.items())
        return (
            tuple(self._ask(ask, candidate) for ask in self._asks),
            consumes,
            candidate.shareable,
            capacity if candidate.shareable else None,
            bool(device.binding_conditions),
        )

    def _ask(self, ask: Ask, candidate: DeviceCandidate) -> Hashable:
        device = candidate.device
        tolerates = not self._features.device_taints or tolerated(device.taints, ask.tolerations)
        wanted = demand(device.capacity, ask.capacity)
        if wanted is None:
            return (self._selectable(ask, candidate), tolerates, None)
        if candidate.shareable:
            return (self._selectable(ask, candidate), tolerates, frozenset(wanted.items()))
        fits = all(n <= Quantity.parse(device.capacity[k].value) for k, n in wanted.items())
        return (self._selectable(ask, candidate), tolerates, fits)

    def _selectable(self, ask: Ask, candidate: DeviceCandidate) -> Hashable:
        try:
            return self._allocator.matcher.selected(ask, candidate)
        except AllocationError:
            return _FAILS
