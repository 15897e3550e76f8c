"""The pools that nodes share, as a column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Node
from holdfast.columns.node_table import NodeTable
from holdfast.devices.row_table import RowTable
from holdfast.devices.slices import PoolId

if TYPE_CHECKING:
    from holdfast.devices.inventory import Inventory


class SharedPools(RowTable):
    """Which pools with devices for several nodes each row has: ``pools[group[row]]``."""

    def __init__(self, inventory: Inventory, nodes: NodeTable) -> None:
        super().__init__(inventory, nodes)
        self._numbers: dict[tuple[PoolId, ...], int] = {}
        self.group: NDArray[np.int32] = np.zeros(0, np.int32)

    @property
    def pools(self) -> list[tuple[PoolId, ...]]:
        """The pools of each group."""
        return [*self._numbers]

    def _resize(self, capacity: int) -> None:
        self._numbers.clear()
        self.group = np.zeros(capacity, np.int32)

    def _evaluate(self, row: int, node: Node) -> Iterator[None]:
        shared = self._inventory.node_pools.by_sharing(node)[1]
        pools = tuple(pool.id for pool in shared)
        self.group[row] = self._numbers.setdefault(pools, len(self._numbers))
        yield from ()

    def _copy(self, row: int, rows: NDArray[np.intp]) -> None:
        raise AssertionError("no row has a key: the groups do not depend on allocations")
