"""What a pod's condition, its events and ``holdfast why`` say about units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from holdfast.api import durations
from holdfast.api import resource_policy as names
from holdfast.api.quantity import BINARY_SI, MILLI, Quantity
from holdfast.capacity.unit_totals import Combination
from holdfast.columns.interner import CPU, EPHEMERAL, MEMORY
from holdfast.framework.plugin import Rows
from holdfast.plugins.resource_policy.state import PolicyState, UnitStates


def reasons_of(state: PolicyState, units: Combination, states: UnitStates) -> tuple[str, ...]:
    """Return why nodes of these units are rejected."""
    if not units and state.policy.strict:
        return (f"node matches no unit of ResourcePolicy {state.policy.key}",)
    priority = state.priority(units)
    if states.waits(priority):
        return tuple(_waited_for(state, priority, states))
    return tuple([full_unit(state, i, states.totals[i]) for i in units if states.full[i]])


def count_reasons(state: PolicyState, rows: Rows) -> Mapping[str, int]:
    """Return the number of rows per reason."""
    states, counts = state.units(), Counter[str]()
    for number, count in enumerate(np.bincount(state.combination_numbers(rows)).tolist()):
        for reason in reasons_of(state, state.usage.units.combinations[number], states):
            counts[reason] += count
    return {reason: count for reason, count in counts.items() if count}


def full_unit(state: PolicyState, unit: int, used: list[int]) -> str:
    """Say that a unit is full, with what it has and what it may have."""
    parts = []
    cap = state.policy.units[unit].max_count
    if cap is not None and used[0] >= cap:
        parts.append(f"{used[0]}/{cap}")
    for position, most in state.shortages(unit, used):
        amount = state.amounts[position]
        asked = _amount(state, position, amount)
        parts.append(f"{_share(state, position, used[1 + position], most)}, {asked} requested")
    return f"unit {state.policy.units[unit].name} is full ({'; '.join(parts)})"


def _waited_for(state: PolicyState, priority: int, states: UnitStates) -> Iterator[str]:
    """Name the units of higher priority that a node must wait for."""
    rule = state.policy.next_units
    for i, unit in enumerate(state.policy.units):
        used = states.totals[i]
        if unit.priority <= priority or unit.priority not in states.waits_for:
            continue
        if rule == names.LACK_RESOURCE_AND_NO_TERMINATING:
            if used[-1]:
                pods = "1 terminating pod" if used[-1] == 1 else f"{used[-1]} terminating pods"
                yield f"waiting for {pods} in {_name(state, i)}"
        elif not states.full[i] and (unit.capped or rule == names.TIMEOUT_OR_EXCEED_MAX):
            limit = ""
            if rule == names.TIMEOUT_OR_EXCEED_MAX:
                length = durations.format_nanoseconds(round(state.policy.timeout * 10**9))
                limit = f" up to {length}"
            usage = _used(state, i, used)
            yield f"waiting{limit} for {_name(state, i)}, which is not full ({usage})"


def _used(state: PolicyState, unit: int, used: list[int]) -> str:
    cap = state.policy.units[unit].max_count
    pods = "1 pod" if used[0] == 1 else f"{used[0]} pods"
    parts = [pods if cap is None else f"{used[0]}/{cap}"]
    parts += [_share(state, i, used[1 + i], most) for i, most in state.caps(unit)]
    return "; ".join(parts)


def _name(state: PolicyState, unit: int) -> str:
    return f"unit {state.policy.units[unit].name} of ResourcePolicy {state.policy.key}"


def _share(state: PolicyState, position: int, used: int, most: int) -> str:
    name = state.nodes.resources[state.usage.resources[position]]
    return f"{name} {_amount(state, position, used)}/{_amount(state, position, most)}"


def _amount(state: PolicyState, position: int, amount: int) -> str:
    resource = state.usage.resources[position]
    if resource == CPU:
        return str(Quantity(amount, MILLI))
    if resource in (MEMORY, EPHEMERAL):
        return str(Quantity(amount, format=BINARY_SI))
    return str(Quantity(amount))
