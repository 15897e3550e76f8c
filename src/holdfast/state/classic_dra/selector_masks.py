"""Rows that a node selector matches, computed once for all claims with equal selectors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node_selection import compile_selector
from holdfast.api.pod import NodeSelector
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.selection import terms_selected

Bools = NDArray[np.bool_]
_MOST = 1024
"""How many selectors are remembered; an allocation often names a node, so there may be many."""


class SelectorMasks:
    """Masks by selector, over all rows. Invariant: valid while no Node has changed."""

    __slots__ = ("_at", "_masks", "_nodes")

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._masks: dict[NodeSelector | None, Bools] = {}
        self._at = (-1, -1)

    def rows_of(self, selector: NodeSelector | None) -> Bools:
        """Return for each row whether the selector matches; None matches every row.

        The array is shared and read-only.
        """
        now = (self._nodes.node_journal.seq, self._nodes.size)
        if self._at != now or len(self._masks) >= _MOST:
            self._masks.clear()
            self._at = now
        mask = self._masks.get(selector)
        if mask is None:
            mask = self._masks[selector] = self._compute(selector)
            mask.flags.writeable = False
        return mask

    def _compute(self, selector: NodeSelector | None) -> Bools:
        if selector is None:
            return np.ones(self._nodes.size, np.bool_)
        return terms_selected(self._nodes, compile_selector(selector), slice(0, self._nodes.size))


def rows_named(nodes: NodeTable, names: Iterable[str]) -> Bools:
    """Return for each row whether its node is one of these; unknown names do not matter."""
    mask = np.zeros(nodes.size, np.bool_)
    mask[[row for name in names if (row := nodes.row_of.get(name)) is not None]] = True
    return mask
