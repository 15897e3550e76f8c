"""The victims of a row: remove all lower-priority pods, then reprieve those that still fit.

``dry_run`` runs the filters for one row, pod by pod. ``reprieve`` and ``reprieve_columns`` do the
same with amounts only, for one row and for columns of rows. ``DryRunFilters`` has the verdicts and
reasons of the rows for which a search needs no dry run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.scheduling.engine.disruption_budgets import DisruptionBudgets
from holdfast.scheduling.engine.nominated_pods import (
    NominatedInSets,
    has_row_sets,
    run_filter_plugins_with_nominated_pods,
)
from holdfast.scheduling.engine.preemption import importance_key
from holdfast.scheduling.framework.plan import NodeFilter
from holdfast.scheduling.framework.plugin import (
    Candidate,
    Code,
    FilterPair,
    PodChange,
    Rows,
    Scope,
    Verdicts,
)
from holdfast.scheduling.framework.points import overrides
from holdfast.scheduling.framework.preemption_rules import rules_of
from holdfast.scheduling.framework.rejection import Status
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.pod_info import PodInfo

NAME = "DefaultPreemption"
NO_VICTIMS = "No preemption victims found for incoming pod"
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DryRunContext:
    """The inputs of a dry run that are the same for all nodes."""

    view: View
    filters: Sequence[FilterPair]
    budgets: DisruptionBudgets
    protected_victims: Callable[[PodInfo], bool] | None = None
    """Returns whether a pod must not be evicted for this preemptor."""
    in_sets: NominatedInSets | None = None
    """The pods nominated ahead of the preemptor, for filters with row sets."""

    def lower_on(self, row: int) -> list[PodInfo]:
        """Return the pods of lower priority that may be evicted; reserve pods may not."""
        ceiling = self.view.pod.priority
        there = self.view.nodes.pods_on(row).values()
        lower = [pod for pod in there if pod.priority < ceiling and not pod.is_reserve_pod]
        if self.protected_victims is None:
            return lower
        return [pod for pod in lower if not self.protected_victims(pod)]

    def rejection(self, row: int, victims: Sequence[PodInfo]) -> Status | None:
        """Return why the pod does not fit without these pods, or None if it does."""
        beside = self.view.world.nominations.ahead_of(self.view.pod, row)
        return run_filter_plugins_with_nominated_pods(
            self.filters, row, beside, victims, self.in_sets
        )

    def without_node_filters(self) -> DryRunContext:
        """Return the same without filters that depend on the node alone: eviction cannot help."""
        remaining = tuple(
            (plugin, plan) for plugin, plan in self.filters if plugin.traits.scope is not Scope.NODE
        )
        return replace(self, filters=remaining)


def protected_pods(
    protected: Callable[[PodInfo], bool],
) -> tuple[str, Callable[[PodInfo], int], Any]:
    """Return the arguments of ``RankedPods.values_of`` for pods that must not be evicted."""
    return "protected", lambda pod: int(protected(pod)), protected


def dry_run(context: DryRunContext, row: int) -> Candidate | Status:
    """Find the fewest and least important victims on a row, or return why none help."""
    nodes, now = context.view.nodes, context.view.now
    lower = context.lower_on(row)
    if not lower:
        return Status(NAME, Code.UNRESOLVABLE, (NO_VICTIMS,))
    word = context.rejection(row, lower)
    if word is not None:
        return word
    lower.sort(key=lambda pod: importance_key(pod, now))
    violating = {lower[rank].uid for rank in context.budgets.violating(lower)}
    order = [p for p in lower if p.uid in violating] + [p for p in lower if p.uid not in violating]
    victims = list(order)
    context = context.without_node_filters()
    for pod in order:
        without = [p for p in victims if p is not pod]
        if context.rejection(row, without) is None:
            victims = without
    if not victims:
        # No plugin rejects the node: an extender does, and no eviction can change that.
        message = f'expected at least one victim pod on node "{nodes.names[row]}"'
        return Status(NAME, Code.ERROR, (message,))
    ordered = tuple(sorted(victims, key=lambda pod: importance_key(pod, now)))
    return Candidate(nodes.names[row], ordered, sum(p.uid in violating for p in ordered))


def reprieve(
    count: int,
    first: Collection[int],
    asked: Sequence[Sequence[int]],
    left: list[int],
    pod_slots: int,
) -> list[int]:
    """Return which of ``count`` pods must be evicted because they do not fit any more.

    Pods ``first`` are tried before the others. ``asked`` has a list of amounts for each resource;
    ``left`` has the free amount of each.

    >>> reprieve(3, (), [[2, 1, 1]], [3], 9)
    [2]
    """
    order: Sequence[int] = range(count)
    if first:
        order = [*sorted(first), *(rank for rank in order if rank not in first)]
        asked = [[amounts[rank] for rank in order] for amounts in asked]
    # Most pods fit one after the other; only the rest must be tried one by one.
    fitting = min(count, max(0, pod_slots))
    sums = []
    for amounts, rest in zip(asked, left, strict=True):
        total = list(accumulate(amounts))
        sums.append(total)
        fitting = min(fitting, bisect_right(total, rest))
    left = list(left)
    if fitting:
        pod_slots -= fitting
        left = [rest - total[fitting - 1] for rest, total in zip(left, sums, strict=True)]
    victims = []
    for at in range(fitting, count):
        if pod_slots >= 1 and _take(asked, at, left):
            pod_slots -= 1
        else:
            victims.append(order[at])
    victims.sort()
    return victims


def _take(asked: Sequence[Sequence[int]], at: int, left: list[int]) -> bool:
    """Subtract what one pod needs, if there is enough of everything."""
    for amounts, rest in zip(asked, left, strict=True):
        if amounts[at] > rest:
            return False
    for i, amounts in enumerate(asked):
        left[i] -= amounts[at]
    return True


class Balance(NamedTuple):
    """The free amount of one resource on each row, and what each pod needs of it: [rank, row].

    ``taken`` is 0 for pods that are not to be evicted.
    """

    left: Ints
    taken: Ints


def reprieve_columns(removed: Bools, first: Bools | None, balances: Sequence[Balance]) -> Bools:
    """Return the victims over columns of pods, [rank, row]; ``balances`` are changed."""
    victims = removed.copy()
    if first is None:
        begin = _reprieve_all(victims, balances)
        _reprieve_some(victims, removed, balances, begin)
    else:
        _reprieve_some(victims, removed & first, balances)
        _reprieve_some(victims, removed & ~first, balances)
    return victims


def _reprieve_all(victims: Bools, balances: Sequence[Balance]) -> int:
    """Reprieve whole ranks while they fit on every row; return the rank where that ends."""
    for rank in range(len(victims)):
        for i, (left, taken) in enumerate(balances):
            np.subtract(left, taken[rank], out=left)
            if left.min(initial=0) < 0:
                for used, given in balances[: i + 1]:
                    np.add(used, given[rank], out=used)
                return rank
        victims[rank] = False
    return len(victims)


def _reprieve_some(
    victims: Bools, asking: Bools, balances: Sequence[Balance], begin: int = 0
) -> None:
    """Reprieve, rank by rank, the pods in ``asking`` that fit on their row."""
    for rank in range(begin, len(victims)):
        fits = asking[rank].copy()
        for left, taken in balances:
            fits &= left >= taken[rank]
        for left, taken in balances:
            np.subtract(left, taken[rank] * fits, out=left)
        victims[rank] &= ~fits


class DryRunFilters:
    """Calls the filters for one search of candidates, together with nominated pods.

    For a filter with row sets the pods nominated to any row of a set count on all of its rows.
    """

    def __init__(self, view: View, context: DryRunContext) -> None:
        self._view = view
        self._context = context

    def in_sets(self, plan: NodeFilter) -> NominatedInSets | None:
        """Return the pods nominated to all rows, if they count for a filter."""
        return self._context.in_sets if has_row_sets(plan) else None

    def verdicts(self, plan: NodeFilter, rows: Rows) -> Verdicts:
        """Return a filter's verdicts; for one with row sets, also with the nominated pods added."""
        verdicts = plan.filter_each(rows)
        in_sets = self.in_sets(plan)
        if in_sets is not None:
            added = in_sets.verdicts(plan)[rows]
            verdicts = np.where(added != 0, added, verdicts)
        return verdicts

    def verdict(self, plan: NodeFilter, row: int) -> int:
        """Return the same for one row."""
        if overrides(plan, NodeFilter.filter_row) and self.in_sets(plan) is None:
            return plan.filter_row(row)
        return int(self.verdicts(plan, np.array([row], np.intp))[0])

    def reasons(self, plan: NodeFilter, row: int) -> tuple[str, ...]:
        """Return why a row fails with all pods of lower priority removed."""
        in_sets, removed = self.in_sets(plan), {row: self._context.lower_on(row)}
        if in_sets is None:
            beside = self._view.world.nominations.ahead_of(self._view.pod, row)
            return plan.reasons(row, PodChange({row: [*beside.values()]}, removed))
        # It may pass with the nominated pods, and fail without them.
        added = plan.reasons(row, PodChange(in_sets.change.added, removed))
        return added or plan.reasons(row, PodChange(removed=removed))

    def count_reasons(self, plan: NodeFilter, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of rows that a filter rejects, by ``verdicts``."""
        in_sets = self.in_sets(plan)
        if in_sets is None:
            return plan.count_reasons(rows)
        added, change = in_sets.verdicts(plan)[rows] != 0, in_sets.change
        counts = plan.count_reasons(rows[~added])
        return Counter(counts) + Counter(
            reason for row in rows[added].tolist() for reason in plan.reasons(row, change)
        )


def rows_by_reasons(plan: NodeFilter, rows: Rows) -> Rows:
    """Return a number for each row; rows with the same number have the same reasons.

    They depend on the set of a row, and on the pods that leave it.
    """
    depends, numbers = rules_of(plan).depends_on_pods(), rows.copy()
    alike = ~depends[rows] if isinstance(depends, np.ndarray) else np.full(len(rows), not depends)
    groups = plan.reason_groups(rows[alike])
    if groups is not None:
        numbers[alike] = -1 - groups
    return numbers
