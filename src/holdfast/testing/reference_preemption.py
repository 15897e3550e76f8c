"""Preemption as slow and as obvious as can be: every node by itself, one pod at a time.

The referee of the columns: it asks filters about nothing but one row under a change, remembers
nothing and leaves nothing out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.api.labels import from_selector
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import Code, PodChange
from holdfast.framework.rejection import Rejection, fit_error_message
from holdfast.framework.view import View

_SHIFT = 2**31
Spares = Callable[[PodInfo], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """What came of it: the message, or the nodes that are best and who has to go on each."""

    message: str
    best: tuple[str, ...] = ()
    victims: Mapping[str, tuple[tuple[str, ...], int]] | None = None
    """By node: the names of the victims, most important first, and how many are guarded."""


def preempt(rejection: Rejection, view: View, spares: Spares = lambda _: False) -> Found:
    """Dry-run every node that eviction could help; nobody is evicted who is spared."""
    victims: dict[str, tuple[tuple[str, ...], int]] = {}
    losses: dict[str, tuple[float, ...]] = {}
    words: Counter[str] = Counter()
    errors: list[str] = []
    for row in view.nodes.rows.tolist():
        if rejection.codes[row] != Code.UNSCHEDULABLE:
            words["Preemption is not helpful for scheduling"] += 1
            continue
        code, reasons, gone, guarded = _dry_run(rejection, view, row, spares)
        if code is Code.PASS:
            name = view.nodes.names[row]
            victims[name] = (tuple(pod.name for pod in gone), guarded)
            losses[name] = _loss(gone, guarded, view.now)
        elif code is Code.ERROR:
            errors.extend(reasons)
        else:
            words.update(reasons)
    if victims:
        least = min(losses.values())
        best = tuple(name for name, loss in losses.items() if loss == least)
        return Found("", best, victims)
    if errors:
        told = list(dict.fromkeys(errors))
        listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        return Found(f"preemption: {listed}")
    return Found(f"preemption: {fit_error_message(rejection.nodes, words)}")


def _dry_run(
    rejection: Rejection, view: View, row: int, spares: Spares
) -> tuple[Code, Sequence[str], list[PodInfo], int]:
    ceiling = view.pod.priority
    lower = [
        pod for pod in view.nodes.pods_on(row).values()
        if pod.priority < ceiling and not (pod.is_reserve_pod or spares(pod))
    ]  # fmt: skip
    if not lower:
        return Code.UNRESOLVABLE, ("No preemption victims found for incoming pod",), [], 0
    code, reasons = _verdict(rejection, view, row, lower)
    if code is not Code.PASS:
        return code, reasons, [], 0
    lower.sort(key=lambda pod: (-pod.priority, pod.start_time_or(view.now)))
    beyond = _beyond(lower, view.world.budgets.values())
    order = [p for p in lower if p.uid in beyond] + [p for p in lower if p.uid not in beyond]
    gone = list(order)
    for pod in order:
        without = [other for other in gone if other is not pod]
        if _verdict(rejection, view, row, without)[0] is Code.PASS:
            gone = without
    if not gone:
        node = view.nodes.names[row]
        return Code.ERROR, (f'expected at least one victim pod on node "{node}"',), [], 0
    gone.sort(key=lambda pod: (-pod.priority, pod.start_time_or(view.now)))
    return Code.PASS, (), gone, sum(pod.uid in beyond for pod in gone)


def _verdict(
    rejection: Rejection, view: View, row: int, gone: Sequence[PodInfo]
) -> tuple[Code, Sequence[str]]:
    """What the filters say without some pods: beside those nominated to the row, and as it is."""
    beside = [
        pod for pod in view.world.nominations.on(view.nodes.names[row]).values()
        if pod.uid != view.pod.uid and pod.priority >= view.pod.priority
    ]  # fmt: skip
    changes = [PodChange({row: beside}, {row: gone})] if beside else []
    for change in (*changes, PodChange(removed={row: gone})):
        for plugin, state in rejection.filters:
            code = Code(int(plugin.filter(state, np.array([row], np.intp), change)[0]))
            if code is not Code.PASS:
                return code, plugin.reasons(state, row, change)
    return Code.PASS, ()


def _beyond(victims: Iterable[PodInfo], budgets: Iterable[PodDisruptionBudget]) -> set[str]:
    left = {budget.key: budget.status.disruptions_allowed for budget in budgets}
    beyond: set[str] = set()
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
                    beyond.add(victim.uid)
    return beyond


def _loss(victims: Sequence[PodInfo], guarded: int, now: float) -> tuple[float, ...]:
    highest = max((pod.priority for pod in victims), default=-_SHIFT)
    starts = [pod.start_time_or(now) for pod in victims if pod.priority == highest]
    total = sum(pod.priority + _SHIFT for pod in victims)
    return (guarded, highest, total, len(victims), -min(starts, default=now))
