"""Counted devices of each node: free ones for a plain request, and all of a class for scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.api.devices import DeviceClass
from holdfast.api.node import Node
from holdfast.columns.node_table import NodeTable
from holdfast.devices.allocator import Allocator
from holdfast.devices.errors import AllocationError
from holdfast.devices.matching import Matcher, tolerated
from holdfast.devices.node_pools import PoolValues
from holdfast.devices.pools import Pool
from holdfast.devices.requests import EXACT_COUNT, RequestAlternative
from holdfast.devices.row_table import RowTable

if TYPE_CHECKING:
    from holdfast.devices.inventory import Inventory

INEXACT = -1
"""Stands for a count where the devices share counters or capacity, or an error is possible."""


class FreeDeviceCounts(RowTable):
    """Free matching devices of each node for a plain request, or INEXACT."""

    def __init__(
        self,
        inventory: Inventory,
        nodes: NodeTable,
        allocator: Allocator,
        alternative: RequestAlternative,
    ) -> None:
        super().__init__(inventory, nodes)
        self._allocator = allocator
        self._alternative = alternative
        self._by_pool = PoolValues(inventory.node_pools, self._count)
        self.free: NDArray[np.int32] = np.zeros(0, np.int32)

    def _resize(self, capacity: int) -> None:
        self.free = np.full(capacity, 0, np.int32)

    def _evaluate(self, row: int, node: Node) -> Iterator[None]:
        try:
            counts = [self._by_pool.of(pool, node) for pool in self._inventory.node_pools.of(node)]
        except AllocationError:
            counts = [INEXACT]
        self.free[row] = INEXACT if INEXACT in counts else sum(counts)
        return iter(())

    def _count(self, pool: Pool, node: Node) -> int:
        matcher, alternative = self._allocator.matcher, self._alternative
        allocated = self._inventory.allocated_devices.unshared
        taints, free = self._allocator.features.device_taints, 0
        if pool.invalid_reason:
            return INEXACT
        for candidate in pool.candidates:
            if candidate.consumed_counters or candidate.shareable:
                return INEXACT
            if candidate.id not in allocated and matcher.selectable(alternative, candidate, node):
                device = candidate.device
                free += not taints or tolerated(device.taints, alternative.tolerations)
        return free


class DeviceCounts(RowTable):
    """Devices of a class on each node, and how many are allocated; call ``refresh`` before reading.

    A node on which a selector fails counts as having none.
    """

    def __init__(self, inventory: Inventory, nodes: NodeTable, device_class: DeviceClass) -> None:
        super().__init__(inventory, nodes)
        self._matcher = Matcher((), inventory.selectors, inventory.features)
        self._alternative = RequestAlternative(
            index=0, claim=0, position=0, request_name="", subrequest_name="",
            device_class=device_class, allocation_mode=EXACT_COUNT, count=1, selectors=(),
            tolerations=(), capacity={}, admin_access=False,
        )  # fmt: skip
        self._by_pool = PoolValues(inventory.node_pools, self._count)
        self.total: NDArray[np.int64] = np.zeros(0, np.int64)
        self.allocated: NDArray[np.int64] = np.zeros(0, np.int64)

    def _resize(self, capacity: int) -> None:
        self.total = np.zeros(capacity, np.int64)
        self.allocated = np.zeros(capacity, np.int64)

    def _evaluate(self, row: int, node: Node) -> Iterator[None]:
        try:
            counts = [self._by_pool.of(pool, node) for pool in self._inventory.node_pools.of(node)]
        except AllocationError:
            counts = []
        self.total[row] = sum(total for total, _ in counts)
        self.allocated[row] = sum(allocated for _, allocated in counts)
        return iter(())

    def _count(self, pool: Pool, node: Node) -> tuple[int, int]:
        """Return the devices of the class in a pool, and how many of them are allocated."""
        is_allocated = self._inventory.allocated_devices.is_allocated
        matching = [
            candidate.id
            for candidate in pool.candidates
            if self._matcher.selectable(self._alternative, candidate, node)
        ]
        return len(matching), sum(map(is_allocated, matching))
