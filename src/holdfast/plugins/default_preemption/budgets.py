"""Disruption budgets: which of several victims would break one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.api.labels import Selector, from_selector
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.columns.pod_facts import PodFacts


def violating(victims: Sequence[PodFacts], budgets: Iterable[PodDisruptionBudget]) -> set[str]:
    """Uids of the victims that go beyond a budget, were all of them evicted in this order.

    An empty selector matches nothing here, and a pod already being disrupted is paid for.
    """
    left = [
        (budget, selector, [budget.status.disruptions_allowed])
        for budget in budgets
        if (selector := from_selector(budget.spec.selector)) and not _chooses_nobody(selector)
    ]
    beyond: set[str] = set()
    for victim in victims:
        if not victim.labels:
            continue
        for budget, selector, allowed in left:
            if budget.namespace != victim.namespace or not selector.matches(victim.labels):
                continue
            if victim.name in budget.status.disrupted_pods:
                continue
            allowed[0] -= 1
            if allowed[0] < 0:
                beyond.add(victim.uid)
    return beyond


def _chooses_nobody(selector: Selector) -> bool:
    return selector.everything or selector.requirements is None
