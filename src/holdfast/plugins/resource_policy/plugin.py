"""The plugin itself: it passes each extension point on to the state, messages, writes and hints."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.policies import Policy
from holdfast.capacity.unit_totals import (
    DEVICE_EPOCHS,
    UnitTotalsCache,
    amounts_of,
    limited_resources,
    minus,
)
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ApiCalls,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    PodLimits,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins.resource_policy import hints, limits, messages, writes
from holdfast.plugins.resource_policy.arguments import read_args
from holdfast.plugins.resource_policy.state import (
    NO_UNIT,
    PolicyState,
    timeout_end,
    timeouts_passed,
)

UNIT_FULL = "ResourcePolicyUnitFull"
"""The reason of events and conditions of pods that full units rejected."""


class ResourcePolicyPlugin:
    """Fills the units of a policy by priority and never beyond their caps."""

    name: ClassVar[str] = "resourcepolicy"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.DOMAIN,
        epochs=("policies", "nodes", "labels", "counters", *DEVICE_EPOCHS),
        events_to_register={
            "ResourcePolicy": (),
            "Node": ("Add", "Delete", "UpdateNodeLabel"),
            "AssignedPod": ("Add", "Delete", "Update"),
            "UnschedulablePod": (),
        },
        reads_outside_spec=True,
        accepts_slices=True,
        bounded_scores=True,
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})
        self._reservations_first = self.args.reservations_first

    # --- which policy -----------------------------------------------------------------------

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the policies that select the pod, its group in each, and what else decides."""
        policies = view.world.policies
        if not policies:
            return None
        return tuple(
            [
                (
                    policy.uid,
                    policy.group_selector(pod.labels),
                    _amounts(policy, pod, view),
                    self._requested(pod),
                    *self._outside(policy, pod, view),
                )
                for policy in policies.governing(pod)
            ]
        )

    def key_outside_spec(self, pod: PodInfo, view: View) -> Hashable:
        """Return what decides outside the spec: time-outs, claims, and the pod's reservations."""
        policies = view.world.policies
        # Asked for every pod: all but a few leave here.
        if not (self._reservations_first or pod.namespace in policies.timeout_namespaces):
            return self._claimed(pod, view)
        keys: list[tuple[Hashable, ...]] = [
            self._outside(policy, pod, view) for policy in policies.governing(pod)
        ]
        keys.append((self._claimed(pod, view),))
        return tuple(keys) if any(any(key) for key in keys) else None

    def _claimed(self, pod: PodInfo, view: View) -> Hashable:
        """Return what the claims of a pod add to capped devices; None if no policy caps devices."""
        policies = view.world.policies
        if not pod.pod.spec.resource_claims or pod.namespace not in policies.device_namespaces:
            return None
        return tuple([_amounts(policy, pod, view) for policy in policies.governing(pod)])

    def _outside(self, policy: Policy, pod: PodInfo, view: View) -> tuple[int, Hashable]:
        reserved = view.reserved_key if self._reservations_first else None
        return timeouts_passed(policy, pod, view.now), reserved

    def _requested(self, pod: PodInfo) -> tuple[int, ...]:
        """Return the resources of which a reservation must hold any to come first."""
        return tuple([resource for resource, _ in pod.request]) if self._reservations_first else ()

    def pre_filter(self, pod: PodInfo, view: View) -> PolicyState | Skip | Reject:
        """Find the one policy that selects the pod; two are a conflict."""
        found = view.world.policies.governing(pod) if view.world.policies else []
        if not found:
            return Skip()
        if len(found) > 1:
            keys = ", ".join(policy.key for policy in found)
            message = f"pod is matched by more than one ResourcePolicy: {keys}"
            return Reject(Code.UNRESOLVABLE, (message,))
        (policy,) = found
        if message := self._missing_keys(policy, pod):
            return Reject(Code.UNRESOLVABLE, (message,))
        return self._state(policy, pod, view)

    def _missing_keys(self, policy: Policy, pod: PodInfo) -> str:
        if not self.args.rejects_missing_keys:
            return ""
        missing = ", ".join(policy.missing_keys(pod.labels))
        where = f"matchLabelKeys of ResourcePolicy {policy.key}"
        return f"pod lacks labels that are {where}: {missing}" if missing else ""

    def _state(self, policy: Policy, pod: PodInfo, view: View) -> PolicyState:
        usage = _usages(view.world).of(policy, pod.labels)
        first = self._reservations_first
        return PolicyState(
            view.nodes,
            policy,
            usage,
            usage.amounts_of(pod),
            selectors=view.world.selectors,
            ordered=self.args.strict_order,
            timeouts=timeouts_passed(policy, pod, view.now),
            reserved=view.reserved_for_pod if first else None,
            requested=self._requested(pod),
        )

    # --- filter -----------------------------------------------------------------------------

    def filter(self, state: PolicyState, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes of full units, nodes that must wait for a unit, and nodes of no unit.

        Nodes of no unit pass with the strategy `prefer`.
        """
        return state.verdicts(rows, change)

    def filter_row(self, state: PolicyState, row: int, change: PodChange) -> int:
        """Return the verdict of one row under a change."""
        states = state.units(change)
        return state.code(state.usage.units.units_at(row), states)

    def depends_on_pods(self, state: PolicyState) -> NDArray[np.bool_]:
        """Return the rows with pods of the group: evicting them makes place in the unit."""
        found: NDArray[np.bool_] = state.usage.counter.all > 0
        return found

    def pod_limits(self, state: PolicyState) -> PodLimits:
        """Return how much of each unit is left, as limits of its rows."""
        return limits.pod_limits(state, NO_CHANGE)

    def pod_limits_in_sets(self, state: PolicyState, change: PodChange) -> PodLimits:
        """Return the same with the pods of a change in their units."""
        return limits.pod_limits(state, change)

    def row_sets(self, state: PolicyState) -> NDArray[np.bool_]:
        """Return the rows of each unit whose usage matters, and those that wait for the unit."""
        return state.row_sets()

    def retry_at(self, state: PolicyState, pod: PodInfo, rows: Rows) -> float | None:
        """Return when the next time-out is over that rejected nodes wait for."""
        waits = state.shortest_wait(rows)
        return timeout_end(state.policy, pod, waits) if waits else None

    def reasons(
        self, state: PolicyState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Name the full units or those that are waited for, or say that the node is in none."""
        states = state.units(change)
        return messages.reasons_of(state, state.usage.units.units_at(row), states)

    def count_reasons(self, state: PolicyState, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of many rows by their combinations of units."""
        return messages.count_reasons(state, rows)

    def reason_groups(self, state: PolicyState, rows: AnyRows) -> NDArray[np.int64]:
        """Group rows by their combinations of units."""
        return state.combination_numbers(rows).astype(np.int64)

    def condition_reason(self, state: PolicyState, _rows: Rows) -> str:
        """Return ResourcePolicyUnitFull if more nodes could not help: every unit is full.

        A unit that has room, but no nodes, is a reason to add nodes.
        """
        states = state.units()
        if not states.full or not all(states.full):
            return ""
        combinations = state.present_combinations  # all nodes are rejected
        waits = any(states.waits(state.priority(units)) for units in combinations if units)
        return UNIT_FULL if any(combinations) and not waits else ""

    # --- score ------------------------------------------------------------------------------

    def score(self, state: PolicyState, rows: AnyRows) -> RawScores:
        """Score 20 for each step of priority; 0 for nodes of no unit."""
        found: RawScores = 20.0 * np.maximum(state.priorities(rows), 0)
        return found

    def normalize_score(self, state: PolicyState, rows: AnyRows, raw: RawScores) -> RawScores:
        """Scale the best to 100; a unit of priority 0 stays above nodes of no unit, if any."""
        highest = raw.max(initial=0.0)
        scores = np.floor(100.0 * raw / highest) if highest > 0 else raw.copy()
        if state.has_nodes_outside and not state.policy.strict:
            scores[(scores == 0) & (state.priorities(rows) != NO_UNIT)] = 1.0
        return scores

    def tier(self, state: PolicyState, rows: Rows) -> NDArray[np.int32]:
        """Rank units by priority, the highest first; nodes of no unit are last."""
        return state.tiers(rows) if state.ordered else np.zeros(len(rows), np.int32)

    def tier_rows(self, state: PolicyState) -> list[Rows] | None:
        """Return the rows that pass, by priority, the highest first."""
        return state.tier_rows() if state.ordered else None

    def preempts_before_next_tier(self, state: PolicyState) -> bool:
        """Return whether the policy prefers preemption to nodes of lower priority."""
        return state.ordered and state.policy.preempts_before_next_unit

    # --- placed -----------------------------------------------------------------------------

    def reserve(self, state: PolicyState, placement: Placement) -> Reject | None:
        """Check the caps with this pod counted, and note the full units of higher priority."""
        states = state.units()
        here = state.usage.units.units_at(placement.row)
        for unit in here:
            if state.exceeded(unit, states.totals[unit]):
                others = minus(states.totals[unit], state.usage.measure(placement.pod))
                full = messages.full_unit(state, unit, others)
                return Reject(Code.UNSCHEDULABLE, (full,))
        priority = state.priority(here)
        for i, unit_of_policy in enumerate(state.policy.units):
            if states.full[i] and unit_of_policy.priority > priority:
                message = messages.full_unit(state, i, states.totals[i])
                placement.events.append((UNIT_FULL, message))
        writes.annotate(state, placement)
        return None

    def unreserve(self, _state: PolicyState, _placement: Placement) -> None:
        """Do nothing: the pod counts only while it is in the node table."""

    def pre_bind_pre_flight(self, state: PolicyState, placement: Placement) -> bool:
        """Return whether labels of the unit are to be written."""
        return bool(writes.labels_to_write(state, placement))

    def pre_bind(self, state: PolicyState, placement: Placement) -> ApiCalls:
        """Write the labels of the unit on the pod."""
        yield from writes.write_labels(state, placement)

    def undo_pre_bind(self, state: PolicyState, placement: Placement) -> ApiCalls:
        """Restore the pod's labels."""
        yield from writes.restore_labels(state, placement)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue if a unit gets room, a node joins a unit that has room, or a policy changes."""
        policies = view.world.policies
        if event.resource == "ResourcePolicy":
            return hints.policy_may_help(event, pod)
        if event.resource == "UnschedulablePod":
            return hints.own_update_may_help(event, pod, policies.in_namespace(pod.namespace))
        if event.resource not in ("Node", "AssignedPod") or not self.traits.registers(event):
            return False
        found = policies.governing(pod)
        if len(found) != 1 or self._missing_keys(found[0], pod):
            # If no policy selects the pod any more, the change of the policy or pod requeued it.
            return False
        if event.resource == "AssignedPod" and not hints.is_about_group(event, found[0], pod):
            return False  # before a state is made: many pods of other groups may wait
        state = self._state(found[0], pod, view)
        if event.resource == "Node":
            return hints.node_may_help(event, state, view)
        return hints.pod_may_help(event, state, view)


def _usages(world: World) -> UnitTotalsCache:
    found = world.caches.get(UnitTotalsCache)
    if found is None:
        found = world.caches[UnitTotalsCache] = UnitTotalsCache(world.nodes, world.devices)
    assert isinstance(found, UnitTotalsCache)
    return found


def _amounts(policy: Policy, pod: PodInfo, view: View) -> tuple[int, ...]:
    if pod.pod.spec.resource_claims and policy.caps_devices:
        return _usages(view.world).of(policy, pod.labels).amounts_of(pod)
    return amounts_of(pod, limited_resources(policy, view.nodes.resources))
