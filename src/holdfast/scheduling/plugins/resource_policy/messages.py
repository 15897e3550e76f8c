"""The messages about units in a pod's condition, in its events and in ``holdfast why``."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api import durations
from holdfast.api import resource_policy as names
from holdfast.api.quantity import BINARY_SI, MILLI, Quantity
from holdfast.scheduling.plugins.resource_policy.pod_units import PodUnits, UnitStates
from holdfast.state.columns.interner import CPU, EPHEMERAL, MEMORY
from holdfast.state.resource_policies.unit_totals import Combination


def reasons_of(units: PodUnits, combination: Combination, states: UnitStates) -> tuple[str, ...]:
    """Return why nodes of these units are rejected."""
    if not combination and units.policy.strict:
        return (f"node matches no unit of ResourcePolicy {units.policy.key}",)
    priority = units.priority(combination)
    if states.waits(priority):
        return tuple(_waited_for(units, priority, states))
    return tuple([full_unit(units, i, states.totals[i]) for i in combination if states.full[i]])


def full_unit(units: PodUnits, unit: int, used: list[int]) -> str:
    """Return the message that a unit is full, with its use and its cap."""
    parts = []
    cap = units.policy.units[unit].max_count
    if cap is not None and used[0] >= cap:
        parts.append(f"{used[0]}/{cap}")
    for position, most in units.shortages(unit, used):
        amount = units.amounts[position]
        asked = _amount(units, position, amount)
        parts.append(f"{_share(units, position, used[1 + position], most)}, {asked} requested")
    return f"unit {units.policy.units[unit].name} is full ({'; '.join(parts)})"


def _waited_for(units: PodUnits, priority: int, states: UnitStates) -> Iterator[str]:
    """Name the units of higher priority that a node must wait for."""
    rule = units.policy.next_units
    for i, unit in enumerate(units.policy.units):
        used = states.totals[i]
        if unit.priority <= priority or unit.priority not in states.waits_for:
            continue
        if rule == names.LACK_RESOURCE_AND_NO_TERMINATING:
            if used[-1]:
                pods = "1 terminating pod" if used[-1] == 1 else f"{used[-1]} terminating pods"
                yield f"waiting for {pods} in {_name(units, i)}"
        elif not states.full[i] and (unit.capped or rule == names.TIMEOUT_OR_EXCEED_MAX):
            limit = ""
            if rule == names.TIMEOUT_OR_EXCEED_MAX:
                length = durations.format_nanoseconds(round(units.policy.timeout * 10**9))
                limit = f" up to {length}"
            usage = _used(units, i, used)
            yield f"waiting{limit} for {_name(units, i)}, which is not full ({usage})"


def _used(units: PodUnits, unit: int, used: list[int]) -> str:
    cap = units.policy.units[unit].max_count
    pods = "1 pod" if used[0] == 1 else f"{used[0]} pods"
    parts = [pods if cap is None else f"{used[0]}/{cap}"]
    parts += [_share(units, i, used[1 + i], most) for i, most in units.caps(unit)]
    return "; ".join(parts)


def _name(units: PodUnits, unit: int) -> str:
    return f"unit {units.policy.units[unit].name} of ResourcePolicy {units.policy.key}"


def _share(units: PodUnits, position: int, used: int, most: int) -> str:
    name = units.nodes.resources[units.usage.resources[position]]
    return f"{name} {_amount(units, position, used)}/{_amount(units, position, most)}"


def _amount(units: PodUnits, position: int, amount: int) -> str:
    resource = units.usage.resources[position]
    if resource == CPU:
        return str(Quantity(amount, MILLI))
    if resource in (MEMORY, EPHEMERAL):
        return str(Quantity(amount, format=BINARY_SI))
    return str(Quantity(amount))
