"""Tiers of all rows, for preemption: which rows are better than others whatever their scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.engine.plugin_results import PreFilterOutcome
from holdfast.framework.plugin import State, TierPlugin

TierPair = tuple[TierPlugin, State]
Tiers = NDArray[np.int64]


def active_tiers(outcomes: Iterable[PreFilterOutcome]) -> tuple[TierPair, ...]:
    """Return the plugins that divide the rows into tiers for this pod, with their states."""
    return tuple([(p.plugin, p.state) for p in outcomes if p.tiers])


def row_tiers(pairs: Sequence[TierPair], nodes: NodeTable) -> Tiers | None:
    """Return the rank of each row's tier, from 0; None if all nodes are in one tier.

    Of several plugins the first decides, as in a placement. Rows without a node have the last rank.
    """
    rows = nodes.rows
    ranks: Tiers = np.zeros(len(rows), np.int64)
    for plugin, state in pairs:
        of_plugin = _ranks(plugin.tier(state, rows).astype(np.int64))
        ranks = _ranks(ranks * (len(rows) + 1) + of_plugin)
    last = int(ranks.max(initial=0))
    if last == 0:
        return None
    tiers: Tiers = np.full(nodes.size, last, np.int64)
    tiers[rows] = ranks
    return tiers


def _ranks(values: Tiers) -> Tiers:
    """Return the rank of each value among the distinct ones.

    >>> _ranks(np.array([7, 5, 7, -10**9]))
    array([2, 1, 2, 0])
    """
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low > len(values):
        return np.unique(values, return_inverse=True)[1]
    # Few distinct numbers are ranked ten times as fast without sorting.
    ranks: Tiers = (np.bincount(values - low) > 0).cumsum() - 1
    return ranks[values - low]
