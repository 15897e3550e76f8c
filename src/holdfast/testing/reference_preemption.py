"""Simple, slow preemption for comparison: one node at a time and one pod at a time.

It filters one row at a time with pods removed, without caches and for all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.labels import from_selector
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.scheduling.engine.nominated_pods import has_row_sets
from holdfast.scheduling.engine.preemption import row_tiers
from holdfast.scheduling.framework.plugin import Code, PodChange
from holdfast.scheduling.framework.rejection import Rejection, fit_error_message
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.pod_info import PodInfo

_SHIFT = 2**31
IsProtected = Callable[[PodInfo], bool]


@dataclass(frozen=True, slots=True)
class ExpectedPreemption:
    """The message, or the best nodes and the victims on every node."""

    message: str
    best: tuple[str, ...] = ()
    victims: Mapping[str, tuple[tuple[str, ...], int]] | None = None
    """The names of the victims, most important first, and the PDB violations, by node."""


def preempt(
    rejection: Rejection, view: View, is_protected: IsProtected = lambda _: False
) -> ExpectedPreemption:
    """Dry-run preemption on every node where it may help; protected pods are never victims."""
    tiers = row_tiers(rejection.tiers, view.nodes)
    victims: dict[str, tuple[tuple[str, ...], int]] = {}
    costs: dict[str, tuple[float, ...]] = {}
    counts: Counter[str] = Counter()
    errors: list[str] = []
    for row in view.nodes.rows.tolist():
        if rejection.codes[row] != Code.UNSCHEDULABLE:
            counts["Preemption is not helpful for scheduling"] += 1
            continue
        code, reasons, victims_here, violations = _dry_run(rejection, view, row, is_protected)
        if code is Code.PASS:
            name = view.nodes.names[row]
            victims[name] = (tuple(pod.name for pod in victims_here), violations)
            tier = 0 if tiers is None else int(tiers[row])
            costs[name] = _cost(victims_here, violations, tier, view.now)
        elif code is Code.ERROR:
            errors.extend(reasons)
        else:
            counts.update(reasons)
    if victims:
        least = min(costs.values())
        best = tuple(name for name, cost in costs.items() if cost == least)
        return ExpectedPreemption("", best, victims)
    if errors:
        unique = list(dict.fromkeys(errors))
        listed = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
        return ExpectedPreemption(f"preemption: {listed}")
    return ExpectedPreemption(f"preemption: {fit_error_message(rejection.nodes, counts)}")


def _dry_run(
    rejection: Rejection, view: View, row: int, is_protected: IsProtected
) -> tuple[Code, Sequence[str], list[PodInfo], int]:
    priority = view.pod.priority
    lower = [
        pod for pod in view.nodes.pods_on(row).values()
        if pod.priority < priority and not (pod.is_reserve_pod or is_protected(pod))
    ]  # fmt: skip
    if not lower:
        return Code.UNRESOLVABLE, ("No preemption victims found for incoming pod",), [], 0
    code, reasons = _verdict(rejection, view, row, lower)
    if code is not Code.PASS:
        return code, reasons, [], 0
    lower.sort(key=lambda pod: (-pod.priority, pod.start_time_or(view.now)))
    violating = _violating(lower, view.world.budgets.values())
    order = [p for p in lower if p.uid in violating] + [p for p in lower if p.uid not in violating]
    victims_here = list(order)
    for pod in order:
        without = [other for other in victims_here if other is not pod]
        if _verdict(rejection, view, row, without)[0] is Code.PASS:
            victims_here = without
    if not victims_here:
        node = view.nodes.names[row]
        return Code.ERROR, (f'expected at least one victim pod on node "{node}"',), [], 0
    victims_here.sort(key=lambda pod: (-pod.priority, pod.start_time_or(view.now)))
    return Code.PASS, (), victims_here, sum(pod.uid in violating for pod in victims_here)


def _verdict(
    rejection: Rejection, view: View, row: int, victims_here: Sequence[PodInfo]
) -> tuple[Code, Sequence[str]]:
    """Filter a row without some pods, with its nominated pods added and then without them."""
    nominated = {
        at: [
            pod
            for pod in view.world.nominations.on(name).values()
            if pod.uid != view.pod.uid and pod.priority >= view.pod.priority
        ]
        for name, at in view.nodes.row_of.items()
    }
    for here, everywhere in (({row: nominated[row]}, nominated), ({}, {})):
        for _, plan in rejection.filters:
            added = everywhere if has_row_sets(plan) else here
            change = PodChange(added, {row: victims_here})
            code = Code(int(plan.filter(np.array([row], np.intp), change)[0]))
            if code is not Code.PASS:
                return code, plan.reasons(row, change)
    return Code.PASS, ()


def _violating(victims: Iterable[PodInfo], budgets: Iterable[PodDisruptionBudget]) -> set[str]:
    left = {budget.key: budget.status.disruptions_allowed for budget in budgets}
    violating: set[str] = set()
    for victim in victims:
        for budget in budgets:
            selector = from_selector(budget.spec.selector)
            if (
                budget.namespace == victim.namespace
                and victim.labels
                and selector.requirements
                and selector.matches(victim.labels)
                and victim.name not in budget.status.disrupted_pods
            ):
                left[budget.key] -= 1
                if left[budget.key] < 0:
                    violating.add(victim.uid)
    return violating


def _cost(victims: Sequence[PodInfo], violations: int, tier: int, now: float) -> tuple[float, ...]:
    highest = max((pod.priority for pod in victims), default=-_SHIFT)
    starts = [pod.start_time_or(now) for pod in victims if pod.priority == highest]
    total = sum(pod.priority + _SHIFT for pod in victims)
    return (violations, highest, total, len(victims), tier, -min(starts, default=now))
