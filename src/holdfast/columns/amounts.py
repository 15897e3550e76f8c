"""What each node has, what is taken of it, what is left: int64 ledgers in base units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.cells import cells
from holdfast.columns.interner import CPU, MEMORY, PODS

RequestedAmounts = tuple[tuple[int, int], ...]
"""(resource id, amount) pairs, ascending by id, amounts above zero."""
MOST = 2**53
"""More than this of a resource nobody has (8 PiB): a thousand such amounts still fit a cell.

What asks for more asks for MOST + 1, which fits nowhere.
"""


class Amounts:
    """Allocatable, requested and free per resource and row, kept in step.

    ``divisor`` is allocatable in float64 with 1 in place of 0, so that shares can be computed
    without asking; ``zeros[r]`` counts the nodes that have none of resource r. ``nonzero`` is what
    scoring counts as requested of CPU and MEMORY, where asking for nothing counts a little, and
    ``spare`` a hundred times what is then left of them, below zero where they are overdrawn;
    ``taken`` is what is really requested of the two. Scores work in float64 because that is exact
    below 2^46 and three times as fast. The ``*_at`` lists hold a memoryview a resource: reading one
    cell through it costs half of what an array costs.
    """

    __slots__ = (
        "_scored_at", "allocatable", "allocatable_at", "divisor", "divisor_at", "free", "free_at",
        "nonzero", "nonzero_at", "requested", "requested_at", "spare", "spare_at", "taken", "zeros",
    )  # fmt: skip

    def __init__(self, width: int, capacity: int) -> None:
        shape = (width, capacity)
        self.allocatable: NDArray[np.int64] = np.zeros(shape, np.int64)
        self.requested: NDArray[np.int64] = np.zeros(shape, np.int64)
        self.free: NDArray[np.int64] = np.zeros(shape, np.int64)
        self.divisor: NDArray[np.float64] = np.ones(shape, np.float64)
        self.nonzero: NDArray[np.float64] = np.zeros((2, capacity), np.float64)
        self.spare: NDArray[np.float64] = np.zeros((2, capacity), np.float64)
        self.taken: NDArray[np.float64] = np.zeros((2, capacity), np.float64)
        self.zeros = [0] * width
        self._look()

    def _look(self) -> None:
        self.allocatable_at = [cells(column) for column in self.allocatable]
        self.requested_at = [cells(column) for column in self.requested]
        self.free_at = [cells(column) for column in self.free]
        self.divisor_at = [cells(column) for column in self.divisor]
        self.nonzero_at = (cells(self.nonzero[CPU]), cells(self.nonzero[MEMORY]))
        self.spare_at = (cells(self.spare[CPU]), cells(self.spare[MEMORY]))
        self._scored_at = [
            (self.nonzero_at[id_], self.spare_at[id_], cells(self.taken[id_]),
             self.allocatable_at[id_], self.requested_at[id_])
            for id_ in (CPU, MEMORY)
        ]  # fmt: skip

    @property
    def width(self) -> int:
        """How many resources there is room for."""
        return len(self.allocatable)

    def free_on(self, row: int, resource: int) -> int:
        """What a row has left of a resource; nothing of one that no column counts."""
        return self.free_at[resource][row] if resource < len(self.free_at) else 0

    def provide(self, row: int, amounts: Mapping[int, int]) -> bool:
        """Set what the node has; tell whether that is news."""
        news = False
        for id_, column in enumerate(self.allocatable_at):
            old, new = column[row], amounts.get(id_, 0)
            if old != new:
                news = True
                column[row] = new
                self.free_at[id_][row] += new - old
                self.divisor_at[id_][row] = float(new or 1)
                self.zeros[id_] += (new == 0) - (old == 0)
                if id_ <= MEMORY:
                    self.spare_at[id_][row] = 100.0 * (new - self.nonzero_at[id_][row])
        return news

    def open(self, row: int) -> None:
        """Begin a row for a new node, which has nothing yet."""
        for id_ in range(self.width):
            self.zeros[id_] += 1

    def close(self, row: int) -> None:
        """End a node's row; whatever stood there must be gone."""
        self.provide(row, {})
        for id_ in range(self.width):
            self.zeros[id_] -= 1

    def take(
        self, row: int, request: Iterable[tuple[int, int]], slots: int, cpu: int, memory: int
    ) -> None:
        """Count a request (negative amounts give back) with its non-zero cpu and memory."""
        requested, free = self.requested_at, self.free_at
        for id_, amount in request:
            requested[id_][row] += amount
            free[id_][row] -= amount
        requested[PODS][row] += slots
        free[PODS][row] -= slots
        both = zip((cpu, memory), self._scored_at, strict=True)
        for more, (nonzero, spare, taken, have, asked) in both:
            used = nonzero[row] = nonzero[row] + more
            spare[row] = 100.0 * (have[row] - used)
            taken[row] = asked[row]

    def give(
        self, row: int, request: Iterable[tuple[int, int]], slots: int, cpu: int, memory: int
    ) -> None:
        """Take a request back."""
        self.take(row, [(id_, -amount) for id_, amount in request], -slots, -cpu, -memory)

    @staticmethod
    def cpu_memory(columns: NDArray[Any], rows: NDArray[np.intp] | slice) -> NDArray[Any]:
        """Cpu and memory of these rows: [2, rows]. Indexing would cost five times ``take``."""
        both = columns[:2]
        return both[:, rows] if isinstance(rows, slice) else both.take(rows, axis=1)

    def resized(self, width: int, capacity: int) -> Amounts:
        """A copy with room for more resources and rows."""
        copy = Amounts(width, capacity)
        old_width, old_capacity = self.allocatable.shape
        for name in ("allocatable", "requested", "free", "divisor"):
            getattr(copy, name)[:old_width, :old_capacity] = getattr(self, name)
        copy.nonzero[:, :old_capacity] = self.nonzero
        copy.spare[:, :old_capacity] = self.spare
        copy.taken[:, :old_capacity] = self.taken
        nodes_without_new = max(self.zeros, default=0)
        copy.zeros = [*self.zeros, *[nodes_without_new] * (width - old_width)]
        return copy
