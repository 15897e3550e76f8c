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
        _, of_plugin = np.unique(plugin.tier(state, rows), return_inverse=True)
        ranks = ranks * (len(rows) + 1) + of_plugin
        ranks = np.unique(ranks, return_inverse=True)[1]
    last = int(ranks.max(initial=0))
    if last == 0:
        return None
    tiers: Tiers = np.full(nodes.size, last, np.int64)
    tiers[rows] = ranks
    return tiers
