"""The units of a policy in the view of one pod: which are full, and which nodes must wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api import resource_policy as names
from holdfast.scheduling.framework.plugin import NO_CHANGE, AnyRows, Code, PodChange, Rows
from holdfast.scheduling.framework.workload_selectors import WorkloadSelectors
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.resource_policies.policies import Policy, creation_time
from holdfast.state.resource_policies.unit_totals import (
    Combination,
    Totals,
    UnitTotals,
    minus,
    plus,
)

NO_UNIT = -1
"""The priority of nodes of no unit: below that of every unit."""


@dataclass(frozen=True, slots=True)
class UnitStates:
    """The full units, and the priorities that are waited for.

    ``full`` is per unit. ``waits_for`` are the priorities that nodes of lower priority wait for,
    ascending; a node may be used if it is below at most ``passed_over`` of them.
    """

    totals: Totals
    full: tuple[bool, ...]
    waits_for: tuple[int, ...]
    passed_over: int

    def is_open_as(self, other: UnitStates) -> bool:
        """Return whether the same nodes may be used."""
        return self.full == other.full and self.waits_for == other.waits_for

    def waits(self, priority: int) -> int:
        """Return for how many priorities nodes of this priority wait, 0 if they may be used."""
        above = sum(1 for other in self.waits_for if other > priority)
        return above if above > self.passed_over else 0


class PodUnits:
    """A policy, and what the pods of one group use of its units.

    ``amounts`` is what the pod to be placed requests of the limited resources; ``timeouts`` is how
    many time-outs of whenTryNextUnits it has waited for. ``selectors`` are those of the workloads
    that control pods.
    """

    def __init__(
        self,
        nodes: NodeTable,
        policy: Policy,
        usage: UnitTotals,
        amounts: tuple[int, ...],
        *,
        selectors: WorkloadSelectors,
        timeouts: int = 0,
    ) -> None:
        self.nodes = nodes
        self.policy = policy
        self.usage = usage
        self.amounts = amounts
        self.selectors = selectors
        self.timeouts = timeouts
        resources = nodes.resources
        self._caps = [
            [
                (i, unit.max_resources[resources[r]])
                for i, r in enumerate(usage.resources)
                if resources[r] in unit.max_resources
            ]
            for unit in policy.units
        ]
        self._version = -1
        self._states: UnitStates | None = None
        self._present: tuple[int, list[Combination]] = (-1, [])

    def states(self, change: PodChange = NO_CHANGE) -> UnitStates:
        """Return the states of the units, under a change; the same object while none changes."""
        self.usage.refresh()
        if change:
            return self.states_of(self._changed(change))
        if self._states is None or self._version != self.usage.version:
            self._version = self.usage.version
            self._states = self.states_of(list(self.usage.totals))
        return self._states

    def states_of(self, totals: Totals) -> UnitStates:
        """Return the states of the units with these totals."""
        full = tuple([self._is_full(i, used) for i, used in enumerate(totals)])
        return UnitStates(totals, full, self._waits_for(totals, full), self.timeouts)

    def _is_full(self, unit: int, used: list[int]) -> bool:
        cap = self.policy.units[unit].max_count
        if cap is not None and used[0] >= cap:
            return True
        return any(used[1 + i] + self.amounts[i] > most for i, most in self._caps[unit])

    def room(self, unit: int, position: int, used: list[int]) -> int | None:
        """Return how much of a unit is left with this pod in it; None if that is not limited.

        ``position`` 0 is the number of pods, then the limited resources follow.
        """
        if position == 0:
            cap = self.policy.units[unit].max_count
            return None if cap is None else cap - 1 - used[0]
        for i, most in self._caps[unit]:
            if i == position - 1:
                return most - self.amounts[i] - used[position]
        return None

    def exceeded(self, unit: int, used: list[int]) -> bool:
        """Return whether a unit exceeds a cap, with this pod counted."""
        cap = self.policy.units[unit].max_count
        if cap is not None and used[0] > cap:
            return True
        return any(used[1 + i] > most for i, most in self._caps[unit])

    def caps(self, unit: int) -> list[tuple[int, int]]:
        """Return the limited resources of a unit: (position in the amounts, cap)."""
        return self._caps[unit]

    def shortages(self, unit: int, used: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the limited resources of a unit that do not suffice: (position, cap)."""
        for i, most in self._caps[unit]:
            if used[1 + i] + self.amounts[i] > most:
                yield i, most

    def _waits_for(self, totals: Totals, full: tuple[bool, ...]) -> tuple[int, ...]:
        units, rule = self.policy.units, self.policy.next_units
        if rule == names.EXCEED_MAX:
            priorities = {
                u.priority for u, f in zip(units, full, strict=True) if u.capped and not f
            }
        elif rule == names.TIMEOUT_OR_EXCEED_MAX:
            priorities = {u.priority for u, f in zip(units, full, strict=True) if not f}
        elif rule == names.LACK_RESOURCE_AND_NO_TERMINATING:
            priorities = {u.priority for u, used in zip(units, totals, strict=True) if used[-1]}
        else:
            return ()
        return tuple(sorted(priorities))

    def _changed(self, change: PodChange) -> Totals:
        totals = list(self.usage.totals)
        gone: list[str] = []
        for step, side in ((plus, change.added), (minus, change.removed)):
            for row, pods in side.items():
                units = self.usage.units.units_at(row)
                for pod in pods if units else ():
                    if self.usage.counts(pod):
                        # A claim that removed pods share ends with the last of them.
                        amounts = self.usage.measure(pod, gone)
                        for unit in units:
                            totals[unit] = step(totals[unit], amounts)
                    if step is minus:
                        gone.append(pod.uid)
        return totals

    def priority(self, units: Combination) -> int:
        """Return the highest priority of some units, ``NO_UNIT`` for none."""
        return max([self.policy.units[i].priority for i in units], default=NO_UNIT)

    def code(self, units: Combination, states: UnitStates) -> int:
        """Return the verdict of nodes that belong to these units.

        Evicting a node's pods does not end its wait for units of higher priority.
        """
        if not units and self.policy.strict:
            return Code.UNRESOLVABLE
        if states.waits_for and states.waits(self.priority(units)):
            return Code.UNRESOLVABLE
        return Code.UNSCHEDULABLE if any([states.full[i] for i in units]) else Code.PASS

    def codes(self, states: UnitStates) -> list[int]:
        """Return the verdict of each combination of units."""
        return [self.code(units, states) for units in self.usage.units.combinations]

    def combination_numbers(self, rows: AnyRows) -> NDArray[np.intp]:
        """Return the number of the combination of units that each row belongs to."""
        self.usage.units.refresh()
        numbers: NDArray[np.intp] = self.usage.units.of_row[rows]
        return numbers

    def combinations_among(self, rows: AnyRows) -> list[Combination]:
        """Return the distinct combinations of units that the rows belong to."""
        there = np.bincount(self.combination_numbers(rows)).nonzero()[0].tolist()
        return [self.usage.units.combinations[number] for number in there]

    @property
    def present_combinations(self) -> list[Combination]:
        """The distinct combinations of units that any node belongs to."""
        seq = self.nodes.node_journal.seq
        if self._present[0] != seq:
            self._present = (seq, self.combinations_among(self.nodes.rows))
        return self._present[1]

    def shortest_wait(self, rows: Rows) -> int:
        """Return the lowest number of time-outs that any of the rows waits for, 0 for none."""
        if self.policy.next_units != names.TIMEOUT_OR_EXCEED_MAX:
            return 0
        states, combinations = self.states(), self.combinations_among(rows)
        if self.policy.strict:
            combinations = [combination for combination in combinations if combination]
        waits = [states.waits(self.priority(combination)) for combination in combinations]
        return min([count for count in waits if count], default=0)


def timeouts_passed(policy: Policy, pod: PodInfo, now: float) -> int:
    """Return how many time-outs of whenTryNextUnits have passed since a pod was created.

    At most the number of priorities is returned, because more make no difference.
    """
    if policy.next_units != names.TIMEOUT_OR_EXCEED_MAX:
        return 0
    return sum(1 for n in range(len(policy.priorities)) if timeout_end(policy, pod, n + 1) <= now)


def timeout_end(policy: Policy, pod: PodInfo, number: int) -> float:
    """Return when a number of time-outs of whenTryNextUnits are over for a pod."""
    return creation_time(pod.pod) + number * policy.timeout
