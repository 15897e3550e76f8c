"""Disruption budgets: which of several victims would break one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.api.labels import Selector, selector_or_nothing
from holdfast.api.workloads import PodDisruptionBudget
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.ranked_pods import RankedPods
from holdfast.columns.request_fit import SomeRows
from holdfast.framework.world import World

Bools = NDArray[np.bool_]
_MOST_KNOWN = 65536
_MANY = 8


class BudgetStatus(NamedTuple):
    """What of a budget moves: how many may still go, and who is already on the way."""

    allowed: int
    disrupted: frozenset[str]


class DisruptionBudgets:
    """The budgets that choose anybody, and which of them each pod is under.

    An empty selector matches nothing here, nor does one that cannot be read; a pod without labels
    is under no budget, and one that is already being disrupted is paid for. ``version`` moves when
    other pods are chosen; ``standings`` are those of the budgets now, in order.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen = -1
        self._chosen: list[tuple[str, Selector]] = []
        self._keys: tuple[str, ...] = ()
        self._sets: list[tuple[int, ...]] = [()]
        self._set_of: dict[tuple[str | None, ...], int] = {}
        self.statuses: tuple[BudgetStatus, ...] = ()
        self.version = 0

    def refresh(self) -> None:
        """Read the budgets again if any of them moved."""
        epoch = self._world.nodes.epochs["budgets"]
        if self._seen == epoch:
            return
        self._seen = epoch
        usable = [
            (budget, selector)
            for budget in self._world.budgets.values()
            if (selector := selector_or_nothing(budget.spec.selector))
            and not _chooses_nobody(selector)
        ]
        chosen = [(budget.namespace, selector) for budget, selector in usable]
        if chosen != self._chosen:
            self._chosen = chosen
            self._keys = tuple(sorted({key for _, s in chosen for key in s.keys}))
            self._world.nodes.add_selector_keys(frozenset(self._keys))
            self._sets, self._set_of = [()], {}
            self.version += 1
        self.statuses = tuple(_status(budget) for budget, _ in usable)

    def violating(self, pods: Sequence[PodInfo], begin: int = 0) -> set[int]:
        """Places of pods beyond a budget, were all from ``begin`` on evicted in this order.

        They are counted from ``begin``.
        """
        beyond: set[int] = set()
        if not self.statuses:
            return beyond
        left = [status.allowed for status in self.statuses]
        for place, victim in enumerate(pods[begin:]):
            for i in self._sets[self._set(victim)]:
                if victim.name not in self.statuses[i].disrupted:
                    left[i] -= 1
                    if left[i] < 0:
                        beyond.add(place)
        return beyond

    def violating_columns(self, ranked: RankedPods, rows: SomeRows, lower: Bools) -> Bools | None:
        """The same for whole columns of victims: [place, row]; None if nobody is beyond.

        Place by place, so that it costs the same for ten budgets and for a thousand.
        """
        if not self.statuses:
            return None
        sets = ranked.values_of("budgets", self._set, self.version).columns()[: len(lower), rows]
        nowhere = len(self.statuses)
        allowed = np.array([s.allowed for s in self.statuses] + [2**31], np.int64)
        counts = np.zeros((lower.shape[1], nowhere + 1), np.int32)
        at = np.arange(lower.shape[1])
        found = np.zeros_like(lower)
        memberships = self._memberships(nowhere)
        sparing = any(s.disrupted for s in self.statuses)
        for place in range(len(lower)):
            for budget_of in memberships:
                budget = budget_of[sets[place]]
                counted = lower[place] & (budget < nowhere)
                if sparing:
                    self._spare(ranked, rows, place, budget, counted)
                count = counts[at, budget] + counted
                counts[at, budget] = count
                found[place] |= counted & (count > allowed[budget])
        return found if found.any() else None

    def _memberships(self, nowhere: int) -> NDArray[np.intp]:
        """The budgets of each set, one after the other: [which, set], padded."""
        most = max(map(len, self._sets))
        padded = [members + (nowhere,) * (most - len(members)) for members in self._sets]
        return np.array(padded, np.intp).T

    def changed_rows(self, before: Sequence[BudgetStatus], ranked: RankedPods, size: int) -> Bools:
        """Rows where somebody may be beyond a budget now and was not, or the reverse."""
        changed = sum(old != new for old, new in zip(before, self.statuses, strict=True))
        if changed > _MANY:
            return np.ones(size, np.bool_)
        sets = ranked.values_of("budgets", self._set, self.version).columns()[:, :size]
        found = np.zeros(size, np.bool_)
        for i, (old, new) in enumerate(zip(before, self.statuses, strict=True)):
            if old == new:
                continue
            there = np.count_nonzero(_table(self._sets, i)[sets], axis=0)
            spared = old.disrupted != new.disrupted
            found |= there > (0 if spared else min(old.allowed, new.allowed))
        return found

    def _spare(
        self,
        ranked: RankedPods,
        rows: SomeRows,
        place: int,
        budget: NDArray[np.intp],
        counted: Bools,
    ) -> None:
        """Leave out pods that are already being disrupted."""
        numbers = np.arange(len(counted)) if isinstance(rows, slice) else rows
        for at in counted.nonzero()[0].tolist():
            disrupted = self.statuses[budget[at]].disrupted
            if disrupted and ranked.pods[numbers[at]][place].name in disrupted:
                counted[at] = False

    def _set(self, pod: PodInfo) -> int:
        """Which budgets a pod is under, as a number."""
        if not pod.labels:
            return 0
        key = (pod.namespace, *map(pod.labels.get, self._keys))
        found = self._set_of.get(key)
        if found is None:
            members = tuple(
                i
                for i, (namespace, selector) in enumerate(self._chosen)
                if namespace == pod.namespace and selector.matches(pod.labels)
            )
            if members not in self._sets:
                self._sets.append(members)
            if len(self._set_of) >= _MOST_KNOWN:
                self._set_of.clear()
            found = self._set_of[key] = self._sets.index(members)
        return found


def _table(sets: Sequence[tuple[int, ...]], budget: int) -> Bools:
    """Tell for each set whether the budget is in it."""
    return np.array([budget in members for members in sets], np.bool_)


def _status(budget: PodDisruptionBudget) -> BudgetStatus:
    status = budget.status
    return BudgetStatus(status.disruptions_allowed, frozenset(status.disrupted_pods))


def _chooses_nobody(selector: Selector) -> bool:
    return selector.everything or selector.requirements is None
