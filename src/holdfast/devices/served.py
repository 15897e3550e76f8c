"""An extended resource that devices serve, as scores see it: what each node has, what is used.

A node that has some of the resource itself (from a device plugin) is counted by its ledger; one
that has none, by its devices of the class: how many there are and how many of them are held.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.devices.tables import DeviceCounts


class DeviceBackedResource:
    """What nodes have of one resource and what of it is used, devices included."""

    __slots__ = ("_counts", "_nodes", "_resource")

    def __init__(self, nodes: NodeTable, resource: int, counts: DeviceCounts) -> None:
        self._nodes = nodes
        self._resource = resource
        self._counts = counts

    def many(self, rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What rows (an array or a slice) have and what of it is used."""
        self._counts.refresh()
        amounts = self._nodes.amounts
        have, used = amounts.allocatable[self._resource][rows], amounts.requested[self._resource]
        devices = self._counts.have[rows]
        instead = (have == 0) & (devices > 0)
        return (
            np.where(instead, devices, have),
            np.where(instead, self._counts.held[rows], used[rows]),
        )

    def one(self, row: int) -> tuple[int, int]:
        """The same for one row."""
        self._counts.refresh()
        amounts = self._nodes.amounts
        have = amounts.allocatable_at[self._resource][row]
        devices = int(self._counts.have[row])
        if have == 0 and devices > 0:
            return devices, int(self._counts.held[row])
        return have, amounts.requested_at[self._resource][row]
