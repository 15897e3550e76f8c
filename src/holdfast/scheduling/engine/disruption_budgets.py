"""Find out which of several victims would violate a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector, selector_or_nothing
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.columns.ranked_pods import RankedPods, ReadValue
from holdfast.state.columns.request_fit import SomeRows

Bools = NDArray[np.bool_]
_MAX_KNOWN = 65536
_MANY_CHANGED = 8


class BudgetStatus(NamedTuple):
    """The status of a budget: allowed disruptions, and names of pods being disrupted."""

    allowed: int
    disrupted: frozenset[str]


class DisruptionBudgets:
    """The budgets that select any pods, and the budgets that apply to each pod.

    Budgets with an empty or invalid selector are ignored, and so are pods without labels; a pod
    that is already being disrupted violates nothing. ``version`` moves when the selectors change;
    ``statuses`` are those of the budgets, in order.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen = -1
        self._selectors: list[tuple[str, Selector]] = []
        self._keys: tuple[str, ...] = ()
        self._sets: list[tuple[int, ...]] = [()]
        self._set_of: dict[tuple[str | None, ...], int] = {}
        self.statuses: tuple[BudgetStatus, ...] = ()
        self.version = 0

    def refresh(self) -> None:
        """Read the budgets again if any of them changed."""
        epoch = self._world.nodes.epochs[Epoch.BUDGETS]
        if self._seen == epoch:
            return
        self._seen = epoch
        usable = [
            (budget, selector)
            for budget in self._world.budgets.values()
            if (selector := selector_or_nothing(budget.spec.selector))
            and not _selects_nothing(selector)
        ]
        selectors = [(budget.namespace, selector) for budget, selector in usable]
        if selectors != self._selectors:
            self._selectors = selectors
            self._keys = tuple(sorted({key for _, s in selectors for key in s.keys}))
            self._world.nodes.add_selector_keys(frozenset(self._keys))
            self._sets, self._set_of = [()], {}
            self.version += 1
        self.statuses = tuple(_status(budget) for budget, _ in usable)

    def read_in_steps(self, ranked: RankedPods) -> Iterator[None]:
        """Find the budgets of all pods, with pauses in which the world may change."""
        self.refresh()
        if self.statuses:
            yield from ranked.values_in_steps(*self._sets_of_pods)

    @property
    def _sets_of_pods(self) -> tuple[str, ReadValue, int]:
        """The arguments of ``RankedPods.values_of`` for the set of budgets of each pod."""
        return "budgets", self._set, self.version

    def violating(self, pods: Sequence[PodInfo], begin: int = 0) -> set[int]:
        """Return the ranks of pods that violate a budget if all from ``begin`` on are evicted in
        order.

        Ranks are relative to ``begin``.
        """
        violating: set[int] = set()
        if not self.statuses:
            return violating
        left = [status.allowed for status in self.statuses]
        for rank, victim in enumerate(pods[begin:]):
            for i in self._sets[self._set(victim)]:
                if victim.name not in self.statuses[i].disrupted:
                    left[i] -= 1
                    if left[i] < 0:
                        violating.add(rank)
        return violating

    def violating_columns(self, ranked: RankedPods, rows: SomeRows, lower: Bools) -> Bools | None:
        """Return the same for many rows: [rank, row]; None if no pod violates a budget.

        The loop is over ranks, so that the number of budgets does not matter.
        """
        if not self.statuses:
            return None
        sets = ranked.values_of(*self._sets_of_pods).columns()[: len(lower), rows]
        no_budget = len(self.statuses)
        allowed = np.array([s.allowed for s in self.statuses] + [2**31], np.int64)
        counts = np.zeros((lower.shape[1], no_budget + 1), np.int32)
        at = np.arange(lower.shape[1])
        violating = np.zeros_like(lower)
        memberships = self._memberships(no_budget)
        any_disrupted = any(s.disrupted for s in self.statuses)
        for rank in range(len(lower)):
            for budget_of in memberships:
                budget = budget_of[sets[rank]]
                counted = lower[rank] & (budget < no_budget)
                if any_disrupted:
                    self._skip_disrupted(ranked, rows, rank, budget, counted)
                count = counts[at, budget] + counted
                counts[at, budget] = count
                violating[rank] |= counted & (count > allowed[budget])
        return violating if violating.any() else None

    def _memberships(self, no_budget: int) -> NDArray[np.intp]:
        """Return the budgets of each set: [position in the set, set], padded."""
        most = max(map(len, self._sets))
        padded = [members + (no_budget,) * (most - len(members)) for members in self._sets]
        return np.array(padded, np.intp).T

    def changed_rows(self, before: Sequence[BudgetStatus], ranked: RankedPods, size: int) -> Bools:
        """Return the rows where other pods than ``before`` may violate a budget."""
        changed = sum(old != new for old, new in zip(before, self.statuses, strict=True))
        if changed > _MANY_CHANGED:
            return np.ones(size, np.bool_)
        sets = ranked.values_of(*self._sets_of_pods).columns()[:, :size]
        affected = np.zeros(size, np.bool_)
        for i, (old, new) in enumerate(zip(before, self.statuses, strict=True)):
            if old == new:
                continue
            there = np.count_nonzero(_table(self._sets, i)[sets], axis=0)
            disrupted_changed = old.disrupted != new.disrupted
            affected |= there > (0 if disrupted_changed else min(old.allowed, new.allowed))
        return affected

    def _skip_disrupted(
        self,
        ranked: RankedPods,
        rows: SomeRows,
        rank: int,
        budget: NDArray[np.intp],
        counted: Bools,
    ) -> None:
        """Leave out pods that are already being disrupted."""
        numbers = np.arange(len(counted)) if isinstance(rows, slice) else rows
        for at in counted.nonzero()[0].tolist():
            disrupted = self.statuses[budget[at]].disrupted
            if disrupted and ranked.pods[numbers[at]][rank].name in disrupted:
                counted[at] = False

    def _set(self, pod: PodInfo) -> int:
        """Return the number of the set of budgets that apply to a pod."""
        if not pod.labels:
            return 0
        key = (pod.namespace, *map(pod.labels.get, self._keys))
        number = self._set_of.get(key)
        if number is None:
            members = tuple(
                i
                for i, (namespace, selector) in enumerate(self._selectors)
                if namespace == pod.namespace and selector.matches(pod.labels)
            )
            if members not in self._sets:
                self._sets.append(members)
            if len(self._set_of) >= _MAX_KNOWN:
                self._set_of.clear()
            number = self._set_of[key] = self._sets.index(members)
        return number


def _table(sets: Sequence[tuple[int, ...]], budget: int) -> Bools:
    """Return for each set whether the budget is in it."""
    return np.array([budget in members for members in sets], np.bool_)


def _status(budget: PodDisruptionBudget) -> BudgetStatus:
    status = budget.status
    return BudgetStatus(status.disruptions_allowed, frozenset(status.disrupted_pods))


def _selects_nothing(selector: Selector) -> bool:
    return selector.everything or selector.requirements is None
