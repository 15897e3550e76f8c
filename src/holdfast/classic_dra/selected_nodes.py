"""How many pods wait for drivers to allocate their claims on each node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable


class SelectedNodes:
    """Counts of PodSchedulings by ``selectedNode``, as a column.

    Such pods use no resources of the node yet, so scores cannot tell that it is wanted.
    """

    __slots__ = ("_at", "_column", "_counts", "_nodes")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._counts: dict[str, int] = {}
        self._column = np.zeros(0)
        self._at = (-1, -1)

    def change(self, old: str, new: str) -> None:
        """Move the count of a PodScheduling from one node to another; "" is no node."""
        if old == new:
            return
        for name, step in ((old, -1), (new, 1)):
            if not name:
                continue
            count = self._counts.pop(name, 0) + step
            if count:
                self._counts[name] = count
            row = self._nodes.row_of.get(name)
            if row is not None and row < len(self._column):
                self._column[row] = count

    def column(self) -> NDArray[np.float64]:
        """Return the counts of all rows; the array is shared."""
        now = (self._nodes.node_journal.seq, self._nodes.size)
        if self._at != now:
            self._at = now
            self._column = np.zeros(self._nodes.size)
            for name, count in self._counts.items():
                if (row := self._nodes.row_of.get(name)) is not None:
                    self._column[row] = count
        return self._column
