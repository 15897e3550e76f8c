"""Tiers of all rows, for preemption: which rows are better than others whatever their scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.node_table import NodeTable
from holdfast.engine.plugin_results import PreFilterOutcome
from holdfast.framework.plan import Tiers

TierNumbers = NDArray[np.int64]


def active_tiers(outcomes: Iterable[PreFilterOutcome]) -> tuple[Tiers, ...]:
    """Return the plans that divide the rows into tiers for this pod."""
    return tuple([p.plan for p in outcomes if p.tiers])


def row_tiers(plans: Sequence[Tiers], nodes: NodeTable) -> TierNumbers | None:
    """Return the rank of each row's tier, from 0; None if all nodes are in one tier.

    Of several plugins the first decides, as in a placement. Rows without a node have the last rank.
    """
    rows = nodes.rows
    ranks: TierNumbers = np.zeros(len(rows), np.int64)
    for plan in plans:
        ranks = _ranks(ranks * (len(rows) + 1) + _ranks(plan.tier(rows).astype(np.int64)))
    last = int(ranks.max(initial=0))
    if last == 0:
        return None
    tiers: TierNumbers = np.full(nodes.size, last, np.int64)
    tiers[rows] = ranks
    return tiers


def _ranks(values: TierNumbers) -> TierNumbers:
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
    ranks: TierNumbers = (np.bincount(values - low) > 0).cumsum() - 1
    return ranks[values - low]
