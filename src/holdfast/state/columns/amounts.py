"""Allocatable, requested and free amounts of each resource on each node, in base units (int64)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.state.columns.cells import cells
from holdfast.state.columns.interner import CPU, MEMORY, PODS

RequestedAmounts = tuple[tuple[int, int], ...]
"""(resource id, amount) pairs, ascending by id, amounts above zero."""
MAX_AMOUNT = 2**53
"""Larger allocatable amounts are stored as this (8 PiB), so that sums of a thousand fit in int64.

A larger request is stored as MAX_AMOUNT + 1, which fits on no node."""


class NodeAmounts:
    """Allocatable, requested and free amounts per resource and row, always consistent.

    ``divisor`` is allocatable in float64 with 1 in place of 0, so that no division needs a check.
    ``nodes_without[r]`` counts the nodes that have none of resource r. ``nonzero`` is the cpu and
    memory that scoring counts as requested (a container without a request counts a default),
    ``free_times_100`` is 100 * (allocatable - ``nonzero``), and ``requested_float`` has the
    real requests of the two. These are float64: exact below 2^46, and three times as fast. The
    ``*_at`` lists have one memoryview per resource, to read single cells at half the cost.
    """

    __slots__ = (
        "_scored_at", "allocatable", "allocatable_at", "divisor", "divisor_at", "free", "free_at",
        "free_times_100", "free_times_100_at", "nodes_without", "nonzero", "nonzero_at",
        "requested", "requested_at", "requested_float",
    )  # fmt: skip

    def __init__(self, width: int, capacity: int) -> None:
        shape = (width, capacity)
        self.allocatable: NDArray[np.int64] = np.zeros(shape, np.int64)
        self.requested: NDArray[np.int64] = np.zeros(shape, np.int64)
        self.free: NDArray[np.int64] = np.zeros(shape, np.int64)
        self.divisor: NDArray[np.float64] = np.ones(shape, np.float64)
        self.nonzero: NDArray[np.float64] = np.zeros((2, capacity), np.float64)
        self.free_times_100: NDArray[np.float64] = np.zeros((2, capacity), np.float64)
        self.requested_float: NDArray[np.float64] = np.zeros((2, capacity), np.float64)
        self.nodes_without = [0] * width
        self._make_cells()

    def _make_cells(self) -> None:
        self.allocatable_at = [cells(column) for column in self.allocatable]
        self.requested_at = [cells(column) for column in self.requested]
        self.free_at = [cells(column) for column in self.free]
        self.divisor_at = [cells(column) for column in self.divisor]
        self.nonzero_at = (cells(self.nonzero[CPU]), cells(self.nonzero[MEMORY]))
        self.free_times_100_at = (
            cells(self.free_times_100[CPU]),
            cells(self.free_times_100[MEMORY]),
        )
        self._scored_at = [
            (self.nonzero_at[id_], self.free_times_100_at[id_], cells(self.requested_float[id_]),
             self.allocatable_at[id_], self.requested_at[id_])
            for id_ in (CPU, MEMORY)
        ]  # fmt: skip

    @property
    def width(self) -> int:
        """The number of resources that have a column."""
        return len(self.allocatable)

    def free_on(self, row: int, resource: int) -> int:
        """Return the free amount of a resource on a row; 0 for a resource without a column."""
        return self.free_at[resource][row] if resource < len(self.free_at) else 0

    def set_allocatable(self, row: int, amounts: Mapping[int, int]) -> bool:
        """Set what a node has; return whether anything changed."""
        changed = False
        for id_, column in enumerate(self.allocatable_at):
            old, new = column[row], amounts.get(id_, 0)
            if old != new:
                changed = True
                column[row] = new
                self.free_at[id_][row] += new - old
                self.divisor_at[id_][row] = float(new or 1)
                self.nodes_without[id_] += (new == 0) - (old == 0)
                if id_ <= MEMORY:
                    self.free_times_100_at[id_][row] = 100.0 * (new - self.nonzero_at[id_][row])
        return changed

    def add_row(self, row: int) -> None:
        """Start counting a new node, which has nothing yet."""
        for id_ in range(self.width):
            self.nodes_without[id_] += 1

    def remove_row(self, row: int) -> None:
        """Stop counting a node; all its requests must be removed already."""
        self.set_allocatable(row, {})
        for id_ in range(self.width):
            self.nodes_without[id_] -= 1

    def add_request(
        self, row: int, request: Iterable[tuple[int, int]], pod_slots: int, cpu: int, memory: int
    ) -> None:
        """Add a request, pod slots and the non-zero cpu and memory; negative amounts subtract."""
        requested, free = self.requested_at, self.free_at
        for id_, amount in request:
            requested[id_][row] += amount
            free[id_][row] -= amount
        requested[PODS][row] += pod_slots
        free[PODS][row] -= pod_slots
        both = zip((cpu, memory), self._scored_at, strict=True)
        for more, (nonzero, spare, taken, have, asked) in both:
            used = nonzero[row] = nonzero[row] + more
            spare[row] = 100.0 * (have[row] - used)
            taken[row] = asked[row]

    def remove_request(
        self, row: int, request: Iterable[tuple[int, int]], pod_slots: int, cpu: int, memory: int
    ) -> None:
        """Subtract a request again."""
        self.add_request(
            row, [(id_, -amount) for id_, amount in request], -pod_slots, -cpu, -memory
        )

    @staticmethod
    def cpu_memory(columns: NDArray[Any], rows: NDArray[np.intp] | slice) -> NDArray[Any]:
        """Return cpu and memory of these rows: [2, rows].

        ``take`` is five times faster than indexing here.
        """
        both = columns[:2]
        return both[:, rows] if isinstance(rows, slice) else both.take(rows, axis=1)

    def resized(self, width: int, capacity: int) -> NodeAmounts:
        """Return a copy with space for more resources and rows."""
        copy = NodeAmounts(width, capacity)
        old_width, old_capacity = self.allocatable.shape
        for name in ("allocatable", "requested", "free", "divisor"):
            getattr(copy, name)[:old_width, :old_capacity] = getattr(self, name)
        copy.nonzero[:, :old_capacity] = self.nonzero
        copy.free_times_100[:, :old_capacity] = self.free_times_100
        copy.requested_float[:, :old_capacity] = self.requested_float
        nodes_without_new = max(self.nodes_without, default=0)
        copy.nodes_without = [*self.nodes_without, *[nodes_without_new] * (width - old_width)]
        return copy
