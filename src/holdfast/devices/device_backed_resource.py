"""Allocatable and used amounts of an extended resource that devices serve, for scoring.

A node with allocatable amounts of the resource (from a device plugin) counts those. Any other node
counts its devices of the class, and how many of them are allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.devices.device_counts import DeviceCounts


class DeviceBackedResource:
    """Allocatable and used amounts of one resource by row, devices included."""

    __slots__ = ("_counts", "_nodes", "_resource")

    def __init__(self, nodes: NodeTable, resource: int, counts: DeviceCounts) -> None:
        self._nodes = nodes
        self._resource = resource
        self._counts = counts

    def count_in_steps(self) -> Iterator[None]:
        """Count the devices of changed rows, with pauses in which the world may change."""
        return self._counts.refresh_in_steps(lambda: self._nodes.rows)

    def many(self, rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return allocatable and used amounts of rows (an array or a slice)."""
        counts = self._counts.refreshed()
        amounts = self._nodes.amounts
        allocatable, used = (
            amounts.allocatable[self._resource][rows],
            amounts.requested[self._resource],
        )
        devices = counts.total[rows]
        from_devices = (allocatable == 0) & (devices > 0)
        return (
            np.where(from_devices, devices, allocatable),
            np.where(from_devices, counts.allocated[rows], used[rows]),
        )

    def one(self, row: int) -> tuple[int, int]:
        """Return allocatable and used amount of one row."""
        counts = self._counts.refreshed()
        amounts = self._nodes.amounts
        allocatable = amounts.allocatable_at[self._resource][row]
        devices = int(counts.total[row])
        if allocatable == 0 and devices > 0:
            return devices, int(counts.allocated[row])
        return allocatable, amounts.requested_at[self._resource][row]
