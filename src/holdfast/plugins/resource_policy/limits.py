"""Full units as pod limits: how much must leave a node before the pod fits into its units.

So preemption evaluates all nodes at once. Which nodes wait for units of higher priority, evicting
pods of a node cannot change.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import PodChange, PodLimit, PodLimits
from holdfast.framework.preemption_rules import ALWAYS, NEVER
from holdfast.plugins.resource_policy.state import PolicyState, UnitStates


def pod_limits(state: PolicyState, change: PodChange) -> PodLimits:
    """Return a limit on the number of pods of the group, and one on each limited resource.

    The pods of ``change`` count in the units, but nothing is said about its own rows.
    """
    states, plain = state.units(change), state.units()
    limits = tuple(
        PodLimit(
            _key(state, position),
            _remaining(state, position, (states, plain)),
            _count(state, position),
        )
        for position in range(1 + len(state.usage.resources))
    )
    unknown: NDArray[np.bool_] | None = None
    if change:
        unknown = np.zeros(state.nodes.capacity, np.bool_)
        unknown[[*change.added, *change.removed]] = True
    return PodLimits(limits, unknown)


def _remaining(
    state: PolicyState, position: int, states: tuple[UnitStates, UnitStates]
) -> NDArray[np.int64]:
    """Return how much more each row accepts at a position of the totals; 0 is the count."""
    units = state.usage.units
    table = []
    for combination in units.combinations:
        priority = state.priority(combination)
        closed = not combination and state.policy.strict
        if closed or any(found.waits(priority) for found in states):
            table.append(NEVER)
            continue
        left = [state.room(unit, position, states[0].totals[unit]) for unit in combination]
        table.append(min([room for room in left if room is not None], default=ALWAYS))
    remaining: NDArray[np.int64] = np.array(table, np.int64)[units.of_row]
    return remaining


def _count(state: PolicyState, position: int) -> Callable[[PodInfo], int]:
    usage = state.usage
    return lambda pod: usage.measure(pod)[position] if usage.counts(pod) else 0


def _key(state: PolicyState, position: int) -> tuple[object, ...]:
    """Return everything that decides how much a pod counts."""
    usage, policy = state.usage, state.policy
    what = usage.resources[position - 1] if position else "pods"
    counted = (policy.counts_terminating, policy.counts_since)
    return ("resourcepolicy", policy.object.namespace, usage.group, *counted, what)
