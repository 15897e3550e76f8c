"""Queueing hints: which events may let a policy accept a pod that it rejected.

The world already contains the change. The previous states of the units are computed from the old
objects, and a pod is requeued if some node got a better verdict, so that pods of other groups and
unrelated updates of nodes requeue nothing.

Two things are not in the totals that are compared. Nominated pods are not in them, so a pod that
they kept out of a unit was not requeued when a bound pod left it. And a pod counts from its
assumption on, for which there is no event. Where one of them matters, the totals are not compared
and the pod is requeued: a needless attempt costs little, but after a missed event the pod would
wait for five minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.api import resource_policy as names
from holdfast.api.node import Node
from holdfast.api.pod import Pod
from holdfast.api.reservation_names import RESERVE_POD
from holdfast.api.resource_policy import ResourcePolicy
from holdfast.runtime.errors import HoldfastError
from holdfast.scheduling.framework.plugin import ClusterEvent
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.resource_policy.pod_units import PodUnits, UnitStates
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.resource_policies.policies import Policy, compile_policy
from holdfast.state.resource_policies.unit_totals import Combination, minus, plus

UnitAmounts = Iterable[int]
TotalsStep = tuple[Callable[[list[int], UnitAmounts], list[int]], Combination, UnitAmounts]
"""Amounts that are added to, or subtracted from, the totals of some units."""


def policy_may_help(event: ClusterEvent, pod: PodInfo) -> bool:
    """Return whether a policy that selects the pod was added, deleted or given another spec."""
    old: ResourcePolicy | None = event.old
    new: ResourcePolicy | None = event.new
    some = new or old
    if some is None or some.namespace != pod.namespace:
        return False
    if old is not None and new is not None and old.spec == new.spec:
        return False
    return any(obj is not None and _selects(obj, pod) for obj in (old, new))


def own_update_may_help(event: ClusterEvent, pod: PodInfo, policies: Iterable[Policy]) -> bool:
    """Return whether the pod's own change makes a difference to the policies of its namespace."""
    old: Pod | None = event.old
    new: Pod | None = event.new
    if new is None or new.uid != pod.pod.uid:
        return False
    if old is None or old.spec != new.spec:
        return True
    before, after = old.metadata.labels, new.metadata.labels
    if before == after:
        return False
    return any(
        policy.selector.matches(before) != policy.selector.matches(after)
        or policy.group_key(before) != policy.group_key(after)
        for policy in policies
    )


def node_may_help(event: ClusterEvent, units: PodUnits, view: View) -> bool:
    """Return whether a node that was added, deleted or relabelled gives some node a better verdict.

    A deleted node's pods are not known any more: any of them may have been counted. The pods of a
    node that was added count from now on, and may fill a unit that others wait for.
    """
    old: Node | None = event.old
    new: Node | None = event.new
    before = () if old is None else units.policy.units_of(old.metadata.labels)
    after = () if new is None else units.policy.units_of(new.metadata.labels)
    if new is None:
        return bool(before) and 0 in _present(units, units.states())
    row = units.nodes.row_of.get(new.name)
    if row is None or (old is not None and before == after):
        return False
    there = units.usage.values_at(row)
    was = _with(units, [(minus, after, there), (plus, before, there)])
    if old is None:
        return units.code(after, units.states()) == 0 or _improved(units, was)
    if view.world.nominations:
        return True
    return units.code(after, units.states()) < units.code(before, was) or _improved(units, was)


def is_about_group(event: ClusterEvent, policy: Policy, pod: PodInfo) -> bool:
    """Return whether the pod of an event is, or was, counted together with a waiting pod."""
    wanted = policy.group_key(pod.labels)
    for obj in (event.old, event.new):
        if obj is not None and policy.selects(obj.metadata.namespace, obj.metadata.labels):
            labels = obj.metadata.labels
            if all(labels.get(key) == value for key, value in wanted):
                return True
    return False


def pod_may_help(event: ClusterEvent, units: PodUnits, view: View) -> bool:
    """Return whether an assigned pod that was added, deleted or changed gives a better verdict.

    A pod counts from its assumption on, for which there is no event. So a pod that was added helps
    if its unit is full now and nodes of lower priority may have waited for that.

    Nominated pods may have filled the unit for this pod, and the totals do not contain them: while
    there are any, every pod that leaves helps.
    """
    old, new = _in_group(event.old, units, view), _in_group(event.new, units, view)
    if old is None and new is None:
        return False
    row = units.nodes.row_of.get((new or old or view.pod).pod.spec.node_name)
    combination: Combination = () if row is None else units.usage.units.units_at(row)
    if not combination:
        return False
    if event.old is None and new is not None:
        waits = units.policy.next_units in (names.EXCEED_MAX, names.TIMEOUT_OR_EXCEED_MAX)
        is_full = any(units.states().full[unit] for unit in combination)
        return units.policy.is_previous(new.pod) or (waits and is_full)
    gone = None if old is None else units.usage.measure(old)
    here = None if new is None else units.usage.measure(new)
    if gone == here:
        return False  # such as a new annotation
    if gone is not None and view.world.nominations:
        return True
    steps: list[TotalsStep] = [] if gone is None else [(plus, combination, gone)]
    steps += [] if here is None else [(minus, combination, here)]
    return _improved(units, _with(units, steps))


def _in_group(pod: Pod | None, units: PodUnits, view: View) -> PodInfo | None:
    """Return a pod of an event if it belongs to the group; reserve pods belong to none."""
    if pod is None or RESERVE_POD in pod.metadata.annotations:
        return None
    if not units.policy.selects(pod.metadata.namespace, pod.metadata.labels):
        return None
    pod_info = view.world.pod_info(pod)
    return pod_info if units.usage.counts(pod_info) else None


def _with(units: PodUnits, steps: Iterable[TotalsStep]) -> UnitStates:
    """Return the states of the units with some amounts added or subtracted."""
    totals = list(units.states().totals)
    for step, combination, amounts in steps:
        for unit in combination:
            totals[unit] = step(totals[unit], amounts)
    return units.states_of(totals)


def _improved(units: PodUnits, was: UnitStates) -> bool:
    """Return whether the verdict of some node is better than it was."""
    now = _present(units, units.states())
    return any(a < b for a, b in zip(now, _present(units, was), strict=True))


def _present(units: PodUnits, states: UnitStates) -> list[int]:
    """Return the verdicts of the combinations of units that nodes have."""
    return [units.code(combination, states) for combination in units.present_combinations]


def _selects(obj: ResourcePolicy, pod: PodInfo) -> bool:
    """Return whether a policy selects a pod; one that cannot be compiled may have selected it."""
    try:
        return compile_policy(obj).selector.matches(pod.labels)
    except HoldfastError:
        return True
