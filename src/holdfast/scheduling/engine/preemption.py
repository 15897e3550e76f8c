"""The rules of all preemptions: which pods may preempt, the order and cost of victims, tiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api.pod import Pod
from holdfast.scheduling.engine.plugin_results import PreFilterOutcome
from holdfast.scheduling.framework.plan import Tiers
from holdfast.scheduling.framework.plugin import Candidate, FilterPair, PreemptionRules
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.preemption_rules import rules_of
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

TierNumbers = NDArray[np.int64]
SHIFT = 2**31
"""Added to priorities, which may be negative: an additional victim must never lower the sum."""
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
VICTIM_TERMINATING = "preemption: not eligible due to a terminating pod on the nominated node."


class PreemptionCost(NamedTuple):
    """The cost of a row's victims, compared field by field; smaller is better.

    Violated budgets, the highest priority, the sum of priorities, the number of victims, the rank
    of the row's tier, and minus the earliest start among the victims of highest priority: a later
    start is better. All but the tier are upstream's, in its order; without tiers it is 0. The tier
    comes before the start because start times differ almost always: after them it would decide
    nothing (decision 0029).
    """

    violations: int
    highest: int
    total: int
    victims: int
    tier: int
    minus_start: float


LOWEST_COST = PreemptionCost(0, -SHIFT, 0, 0, 0, -math.inf)
"""No victims cost less than this."""


def cost_of(candidate: Candidate, now: float, tier: int = 0) -> PreemptionCost:
    """Return the cost of a candidate in a tier."""
    victims = candidate.victims
    highest = max((v.priority for v in victims), default=-SHIFT)
    starts = (v.start_time_or(now) for v in victims if v.priority == highest)
    return PreemptionCost(
        candidate.violations, highest, sum(v.priority + SHIFT for v in victims), len(victims),
        tier, -min(starts, default=now),
    )  # fmt: skip


def importance_key(pod: PodInfo, now: float) -> tuple[int, float]:
    """Return a sort key, smaller for higher priority, then for an earlier start."""
    return (-pod.priority, pod.start_time_or(now))


def preemption_refusal(rejection: Rejection) -> str | None:
    """Return why the rejected pod may never preempt, maybe ""; None if it may."""
    pod = rejection.pod
    refusing = [
        rules_of(plan)
        for _, plan in rejection.filters
        if overrides(plan, PreemptionRules.preemption_refusal)
    ]
    if pod.is_reserve_pod and not refusing:
        return ""
    for rules in refusing:
        forbidden = rules.preemption_refusal(rejection)
        if forbidden is not None:
            return forbidden
    return None if may_preempt(pod) else NEVER


def may_preempt(pod: PodInfo) -> bool:
    """Return whether the pod's policy allows preemption."""
    return pod.pod.spec.preemption_policy != "Never"


def protection_by(filters: Iterable[FilterPair], pod: PodInfo) -> Callable[[PodInfo], bool] | None:
    """Return which pods must not be evicted for a pod, if one of these filters says so."""
    for _, plan in filters:
        rule = rules_of(plan).protected_victims(pod)
        if rule is not None:
            return rule
    return None


def is_preempted(pod: Pod) -> bool:
    """Return whether a pod terminates because a scheduler preempted it."""
    return pod.terminating and any(
        c.type == "DisruptionTarget" and c.status == "True" and c.reason == "PreemptionByScheduler"
        for c in pod.status.conditions
    )


def active_tiers(outcomes: Iterable[PreFilterOutcome]) -> tuple[Tiers, ...]:
    """Return the plans that divide the rows into tiers for this pod."""
    return tuple([p.plan for p in outcomes if p.tiers])


def row_tiers(plans: Sequence[Tiers], nodes: NodeTable) -> TierNumbers | None:
    """Return the rank of each row's tier, from 0; None if all nodes are in one tier.

    If there are several plugins, the first one decides, as in a placement. Rows without a node have
    the last rank.
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
