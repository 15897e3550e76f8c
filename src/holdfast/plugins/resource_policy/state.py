"""The state of a pod that a policy governs: which units are full, and which rows must wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.api import resource_policy as names
from holdfast.capacity.policies import Policy, creation_time
from holdfast.capacity.reserved_resources import ReservedForPod
from holdfast.capacity.unit_totals import Combination, Totals, UnitTotals, minus, plus
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import NO_CHANGE, AnyRows, Code, PodChange, Rows, Verdicts
from holdfast.framework.workload_selectors import WorkloadSelectors

NO_UNIT = -1
"""The priority of nodes of no unit: below that of every unit."""


@dataclass(frozen=True, slots=True)
class UnitStates:
    """What follows from the usage of the units.

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


class PolicyState:
    """A policy, and what the pods of one group use of its units.

    ``amounts`` is what the pod to be placed requests of the limited resources, ``timeouts`` how
    many time-outs of whenTryNextUnits it has waited for. If ``ordered``, priorities are tiers;
    nodes where ``reserved`` holds any of the ``requested`` resources come before all others.
    ``selectors`` are those of the workloads that control pods.
    Pods that agree in all of this share the state.
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
        ordered: bool = True,
        reserved: ReservedForPod | None = None,
        requested: tuple[int, ...] = (),
    ) -> None:
        self.nodes = nodes
        self.policy = policy
        self.usage = usage
        self.amounts = amounts
        self.selectors = selectors
        self.timeouts = timeouts
        self.ordered = ordered
        self._reserved = reserved
        self._requested = requested
        resources = nodes.resources
        self._caps = [
            [
                (i, unit.max_resources[resources[r]])
                for i, r in enumerate(usage.resources)
                if resources[r] in unit.max_resources
            ]
            for unit in policy.units
        ]
        self._seen = (-1, -1)
        self._units: UnitStates | None = None
        self._codes: list[int] = []
        self._verdicts: Verdicts = np.zeros(0, np.int8)
        self._first_rows: Verdicts = self._verdicts
        self._priorities: NDArray[np.int64] = np.zeros(0, np.int64)
        self._priorities_seen = -1
        self._has_nodes_outside = False
        self._tiers: tuple[int, list[Rows]] | None = None
        self._present: tuple[int, list[Combination]] = (-1, [])
        self._known_rows: dict[tuple[int, ...], Rows] = {}

    # --- units ------------------------------------------------------------------------------

    def units(self, change: PodChange = NO_CHANGE) -> UnitStates:
        """Return the states of the units, under a change."""
        if change:
            self.usage.refresh()
            return self.states_of(self._changed(change))
        self._refresh()
        assert self._units is not None
        return self._units

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
        """Return whether a unit has more than it may, with this pod among the counted ones."""
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
            found = {u.priority for u, f in zip(units, full, strict=True) if u.capped and not f}
        elif rule == names.TIMEOUT_OR_EXCEED_MAX:
            found = {u.priority for u, f in zip(units, full, strict=True) if not f}
        elif rule == names.LACK_RESOURCE_AND_NO_TERMINATING:
            found = {u.priority for u, used in zip(units, totals, strict=True) if used[-1]}
        else:
            return ()
        return tuple(sorted(found))

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

    # --- rows -------------------------------------------------------------------------------

    def priority(self, units: Combination) -> int:
        """Return the highest priority of some units, ``NO_UNIT`` for none."""
        return max([self.policy.units[i].priority for i in units], default=NO_UNIT)

    def code(self, units: Combination, states: UnitStates) -> int:
        """Return the verdict of nodes that belong to these units.

        That a node waits for units of higher priority cannot be changed by evicting its pods.
        """
        if not units and self.policy.strict:
            return Code.UNRESOLVABLE
        if states.waits_for and states.waits(self.priority(units)):
            return Code.UNRESOLVABLE
        return Code.UNSCHEDULABLE if any([states.full[i] for i in units]) else Code.PASS

    def codes(self, states: UnitStates) -> list[int]:
        """Return the verdict of each combination of units."""
        return [self.code(units, states) for units in self.usage.units.combinations]

    def verdicts(self, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Return the verdicts of rows; the same array for the same slice if nothing changed."""
        if change:
            codes = np.array(self.codes(self.units(change)), np.int8)
            changed: Verdicts = codes[self.usage.units.of_row[rows]]
            return changed
        self._refresh()
        if not isinstance(rows, slice):
            return self._verdicts[rows]
        if len(self._first_rows) != rows.stop or rows.start:
            self._first_rows = self._verdicts[rows]
        return self._first_rows

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

    def priorities(self, rows: AnyRows) -> NDArray[np.int64]:
        """Return the highest priority among each row's units; ``NO_UNIT`` for rows in none."""
        self._refresh_priorities()
        found: NDArray[np.int64] = self._priorities[rows]
        return found

    @property
    def has_nodes_outside(self) -> bool:
        """Whether any node belongs to no unit."""
        self._refresh_priorities()
        return self._has_nodes_outside

    def _refresh_priorities(self) -> None:
        units, seq = self.usage.units, self.nodes.node_journal.seq
        units.refresh()
        if self._priorities_seen != seq:  # a new node of no unit does not change the units
            self._priorities_seen = seq
            table = np.array([self.priority(c) for c in units.combinations], np.int64)
            self._priorities = table[units.of_row]
            self._has_nodes_outside = bool((units.of_row[self.nodes.rows] == 0).any())

    def shortest_wait(self, rows: Rows) -> int:
        """Return the lowest number of time-outs that any of the rows waits for, 0 for none."""
        if self.policy.next_units != names.TIMEOUT_OR_EXCEED_MAX:
            return 0
        states, combinations = self.units(), self.combinations_among(rows)
        if self.policy.strict:
            combinations = [found for found in combinations if found]
        waits = [states.waits(self.priority(found)) for found in combinations]
        return min([count for count in waits if count], default=0)

    def row_sets(self) -> NDArray[np.bool_]:
        """Return a mask (sets, rows): a pod on a row of a set may change verdicts in all of it.

        A set is a unit that can be full. If nodes wait for units of higher priority, the nodes of
        lower priority belong to its set, and every unit has one.
        """
        units, waits = self.usage.units, self.policy.next_units != names.LACK_RESOURCE_OR_EXCEED_MAX
        units.refresh()
        sets = []
        for i, unit in enumerate(self.policy.units):
            if unit.capped or waits:
                inside = [
                    i in found or (waits and self.priority(found) < unit.priority)
                    for found in units.combinations
                ]
                sets.append(np.array(inside, np.bool_)[units.of_row])
        return np.stack(sets) if sets else np.zeros((0, self.nodes.capacity), np.bool_)

    def tiers(self, rows: Rows) -> NDArray[np.int32]:
        """Return the tier of each row: the number of priorities that are higher."""
        descending = np.array(self.policy.priorities[::-1], np.int64)
        ascending = -descending
        found = ascending.searchsorted(-self.priorities(rows)).astype(np.int32)
        if self._reserved is not None:
            positions, matched = self._reserved.among(rows)
            held = np.zeros(len(matched), np.bool_)
            for resource in self._requested if len(matched) else ():
                held |= self._reserved.many(resource, matched) > 0
            found[positions[held]] -= len(descending) + 1
        return found

    def tier_rows(self) -> list[Rows] | None:
        """Return the rows of each tier that pass the filter; None unless only priorities count.

        A tier is the open combinations of one priority. Its array stays until a node changes, and
        then if its rows are the same.
        """
        if self._reserved is not None:
            return None
        self._refresh()
        if self._tiers is None or self._tiers[0] != self.nodes.node_journal.seq:
            open_ones: dict[int, list[int]] = {}
            for number, units in enumerate(self.usage.units.combinations):
                if not self._codes[number]:
                    open_ones.setdefault(self.priority(units), []).append(number)
            rows = [self._rows_of(tuple(open_ones[p])) for p in sorted(open_ones, reverse=True)]
            self._tiers = (self.nodes.node_journal.seq, rows)
        return self._tiers[1]

    def _rows_of(self, combinations: tuple[int, ...]) -> Rows:
        """Return the rows of some combinations; the same array as before if it is equal."""
        rows = self.nodes.rows
        found: Rows = rows[np.isin(self.usage.units.of_row[rows], combinations)]
        known = self._known_rows.get(combinations)
        if known is not None and np.array_equal(known, found):
            return known
        if len(self._known_rows) > 2 * len(self.usage.units.combinations):
            self._known_rows.clear()
        self._known_rows[combinations] = found
        return found

    def _refresh(self) -> None:
        usage, units = self.usage, self.usage.units
        usage.refresh()
        if self._seen == (usage.version, units.version):
            return
        moved, before = self._seen[1] != units.version, self._units
        self._seen = (usage.version, units.version)
        self._units = self.states_of(list(usage.totals))
        if moved or before is None or not self._units.is_open_as(before):
            self._codes = self.codes(self._units)
            self._verdicts = np.array(self._codes, np.int8)[units.of_row]
            self._first_rows = self._verdicts[:0]
            self._tiers = None


def timeouts_passed(policy: Policy, pod: PodInfo, now: float) -> int:
    """Return how many time-outs of whenTryNextUnits have passed since a pod was created.

    More than there are priorities make no difference.
    """
    if policy.next_units != names.TIMEOUT_OR_EXCEED_MAX:
        return 0
    return sum(1 for n in range(len(policy.priorities)) if timeout_end(policy, pod, n + 1) <= now)


def timeout_end(policy: Policy, pod: PodInfo, number: int) -> float:
    """Return when a number of time-outs of whenTryNextUnits are over for a pod."""
    return creation_time(pod.pod) + number * policy.timeout
