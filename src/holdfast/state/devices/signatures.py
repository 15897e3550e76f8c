"""Signatures of nodes: everything about their devices that an allocation depends on, hashable.

The search has the same result on nodes with equal signatures, so it runs once for them. A signature
lists the devices in search order with the results of selectors and taints, and their constraint
values, counters and capacity. Names are left out; constraint values are numbered by first use. The
state of a pool is computed once after each change of it, for all nodes that have the pool. Before,
an allocation from a pool with counters made every row gather its pools and search again: half of a
card cost 0.28 s per decision with 100 nodes and 11 s with 500. Now it is 0.64 ms with 5,000.

States are numbers, because a tuple of all devices would be hashed for every row. A device that no
request can select is None, so it does not make nodes differ.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from weakref import WeakKeyDictionary

from holdfast.api.node import Node
from holdfast.api.quantity import Quantity
from holdfast.state.devices.allocated_devices import AllocatedDevices
from holdfast.state.devices.allocator import Allocator
from holdfast.state.devices.constraints import values_of
from holdfast.state.devices.consumable_capacity import consumed_capacity
from holdfast.state.devices.errors import AllocationError
from holdfast.state.devices.matching import tolerated
from holdfast.state.devices.node_pools import NodePools
from holdfast.state.devices.pools import Pool
from holdfast.state.devices.remaining_capacity import RemainingCapacity
from holdfast.state.devices.requests import RequestAlternative
from holdfast.state.devices.slices import DeviceCandidate

_FAILS = "fails"
_MAX_STATES = 100_000
_PARTS_A_STEP = 1024
"""About two milliseconds: selectors, tolerations of a taint, capacities of a request."""
_PARTS_OF_PLAIN_DEVICE = 8
_WORK_OF_PART = 20
"""How much work of selectors takes as long as a part; usually all of it was done before."""


@dataclass(slots=True)
class _PoolState:
    """The state of a pool: ``constant`` numbers its constant part, ``number`` numbers all of it.

    ``values`` are the constraint values of its devices, in the order of their numbers. ``used`` are
    the positions of the devices whose allocation matters.
    """

    constant: int
    values: tuple[Hashable, ...]
    used: tuple[int, ...]
    version: int = -1
    number: int = -1


class SignatureBuilder:
    """Builds the signatures of nodes for the claims of one allocator."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._features = allocator.features
        self._alternatives = allocator.alternatives
        self._attributes = sorted(
            {
                name
                for claim in allocator.claims
                for c in claim.spec.devices.constraints
                if (name := c.match_attribute or c.distinct_attribute)
            }
        )
        self._selector_count = sum(a.selector_count for a in allocator.alternatives)
        self._toleration_count = sum(len(a.tolerations) for a in allocator.alternatives)
        self._states: WeakKeyDictionary[Pool, _PoolState] = WeakKeyDictionary()
        self._numbers: dict[Hashable, int] = {}
        self._next = count()

    def signature(
        self,
        node: Node,
        pools: Sequence[Pool],
        allocated_devices: AllocatedDevices,
        node_pools: NodePools,
    ) -> tuple[Hashable, Hashable]:
        """Return the signature of a node, and its key.

        Nodes with equal keys have equal signatures, however the devices of shared pools change.
        The key of a node without shared pools is None.
        """
        states: list[Hashable] = []
        key: list[Hashable] = []
        values: list[tuple[Hashable, ...]] = []
        for _ in self.build_in_steps(pools):
            pass
        for pool in pools:
            state = self._states[pool]
            version = node_pools.changes.get(pool.id, 0)
            if state.version != version:
                state.number = self._changed(pool, state, allocated_devices, node_pools)
                state.version = version
            states.append(state.number)
            key.append(pool if pool.is_shared else state.number)
            if pool.selects_nodes_by_device:
                available = tuple(c.is_available_on(node) for c in pool.candidates)
                states.append(available)
                key.append(available)
            if state.values:
                values.append(state.values)
        if len(values) > 1:
            # Pools whose values are equal, or not, must be told apart; one pool has done so itself.
            numbers: dict[Hashable, int] = {}
            numbered = tuple(
                tuple(numbers.setdefault(v, len(numbers)) for v in own) for own in values
            )
            states.append(numbered)
            key.append(numbered)
        shared = any(pool.is_shared for pool in pools)
        return tuple(states), tuple(key) if shared else None

    def build_in_steps(self, pools: Sequence[Pool]) -> Iterator[None]:
        """Compute what is constant of pools, with pauses; ``signature`` then finds it."""
        for pool in pools:
            if pool not in self._states:
                self._states[pool] = yield from self._new_state(pool)

    def _new_state(self, pool: Pool) -> Generator[None, None, _PoolState]:
        numbers: dict[Hashable, int] = {}
        devices: list[Hashable] = []
        done, selectors = 0, self._allocator.matcher.selectors
        for candidate in pool.candidates:
            before = selectors.work
            devices.append(self._device(candidate, numbers))
            done += self._parts(candidate) + (selectors.work - before) // _WORK_OF_PART
            if done >= _PARTS_A_STEP:
                done = 0
                yield
        counters = frozenset(
            (set_name, name, amount)
            for set_name in pool.own_sets
            for name, amount in pool.counters.sets[set_name].items()
        )
        constant = self._number(
            (pool.incomplete, bool(pool.invalid_reason), counters, tuple(devices))
        )
        used = tuple(i for i, device in enumerate(devices) if device is not None)
        return _PoolState(constant, tuple(numbers), used)

    def _parts(self, candidate: DeviceCandidate) -> int:
        """Return how much of a device is compared with the requests."""
        taints, capacities = len(candidate.device.taints), len(candidate.device.capacity)
        return (
            _PARTS_OF_PLAIN_DEVICE
            + self._selector_count
            + self._toleration_count * taints
            + len(self._alternatives) * capacities * 4
        )

    def _device(self, candidate: DeviceCandidate, numbers: dict[Hashable, int]) -> Hashable:
        """Return what is constant of a device; None if the search skips it in any case."""
        selected = [self._selectable(a, candidate) for a in self._alternatives]
        if not candidate.consumed_counters and all(one is False for one in selected):
            return None
        return self._constant(candidate, selected), self._partition(candidate, numbers)

    def _changed(
        self,
        pool: Pool,
        state: _PoolState,
        allocated_devices: AllocatedDevices,
        node_pools: NodePools,
    ) -> int:
        left: Hashable = None
        if pool.shares_counters_with_other_nodes:
            # Otherwise its own devices determine them.
            remaining = RemainingCapacity(allocated_devices, self._features)
            left = remaining.remaining_counters(pool), node_pools.is_overcommitted(pool)
        used = _usage(pool, state.used, allocated_devices)
        return self._number((state.constant, used, left))

    def _number(self, state: Hashable) -> int:
        """Return the same number for equal states; a number is never used again.

        After ``clear`` an old state gets a new number, which costs a search. An old number for a
        new state would return devices of another state: rows and results still have old numbers.
        """
        number = self._numbers.get(state)
        if number is None:
            if len(self._numbers) >= _MAX_STATES:
                self._numbers.clear()
            number = self._numbers[state] = next(self._next)
        return number

    def _partition(self, candidate: DeviceCandidate, numbers: dict[Hashable, int]) -> Hashable:
        """Return constraint values, numbered in the order in which they first occur in the pool."""
        lists = self._features.list_attributes
        number_sets = []
        for name in self._attributes:
            attribute = candidate.attribute(name)
            values = frozenset() if attribute is None else values_of(attribute, lists=lists)
            number_sets.append(
                frozenset(
                    numbers.setdefault((name, value), len(numbers)) for value in sorted(values)
                )
            )
        return tuple(number_sets)

    def _constant(self, candidate: DeviceCandidate, selected: Sequence[Hashable]) -> Hashable:
        """Return the part of the signature that depends on the slice only."""
        device = candidate.device
        consumes = frozenset(
            (set_name, name, amount)
            for set_name, amounts in candidate.consumed_counters.items()
            for name, amount in amounts.items()
        )
        capacity = frozenset((name, str(c.value)) for name, c in device.capacity.items())
        return (
            tuple(selected),
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
            return (tolerates, None)
        if candidate.shareable:
            return (tolerates, frozenset(wanted.items()))
        return (
            tolerates,
            all(n <= Quantity.parse(device.capacity[k].value) for k, n in wanted.items()),
        )

    def _selectable(self, alternative: RequestAlternative, candidate: DeviceCandidate) -> Hashable:
        try:
            return self._allocator.matcher.selected(alternative, candidate)
        except AllocationError:
            return _FAILS


def _usage(pool: Pool, positions: Iterable[int], allocated_devices: AllocatedDevices) -> Hashable:
    """Return position and use of each of these devices that is not free."""
    sharing, consuming = allocated_devices.shared, allocated_devices.consumed
    used: list[Hashable] = []
    for index in positions:
        device = pool.candidates[index].id
        unshared = device in allocated_devices.unshared
        # Usually both are empty, and hashing the device is all that a lookup costs.
        shared = bool(sharing) and device in sharing
        consumed = consuming.get(device) if consuming else None
        if unshared or shared or consumed:
            amounts = frozenset(consumed.items()) if consumed else None
            used.append((index, unshared, shared, amounts))
    return tuple(used)
