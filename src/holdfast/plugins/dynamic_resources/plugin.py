"""The extension points of DynamicResources."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from holdfast.api import durations
from holdfast.api.devices import MAX_CONSUMERS, ResourceClaim
from holdfast.api.field_errors import invalid
from holdfast.api.pod import Pod
from holdfast.api.strict_decode import Seconds
from holdfast.columns.consumers_in_flight import too_many_consumers
from holdfast.columns.pod_info import PodInfo
from holdfast.devices.claims import ClaimNotReady, claims_of_pod, has_room_for
from holdfast.devices.errors import AllocationError, NotBindable
from holdfast.devices.inventory import Inventory
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.framework.former_contract import PreFilterState
from holdfast.framework.plugin import (
    NO_CHANGE,
    ApiCalls,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    PostFilterResult,
    PreBindCalls,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.plugins.dynamic_resources import claim_writes
from holdfast.plugins.dynamic_resources.binding_conditions import wait_until_prepared
from holdfast.plugins.dynamic_resources.device_preemption import DevicePreemption
from holdfast.plugins.dynamic_resources.explanation import explain_rows
from holdfast.plugins.dynamic_resources.freeable_claims import rank_users_in_steps
from holdfast.plugins.dynamic_resources.nominated_claims import can_allocate_beside
from holdfast.plugins.dynamic_resources.prepared_state import PreparedState, nominated_row
from holdfast.plugins.dynamic_resources.queueing_hints import (
    had_devices_in_flight,
    is_extended_claim_of,
    may_be_evicted,
    may_be_freed,
    quota_may_have_room,
)
from holdfast.plugins.dynamic_resources.state import (
    CANNOT_ALLOCATE,
    DynamicResourcesState,
    Limits,
    device_backed_names,
    with_allocation,
)

_STEPS_A_SECOND = 100_000
"""The time limit is counted in search steps of about ten microseconds: there is no clock here."""
NOT_SCHEDULABLE = "still not schedulable"
RETRY_SECONDS = 1.0
"""When a pod is tried again that finds too many consumers of its claim in flight."""
RETRY_REFUSED_SECONDS = 60.0
"""When a pod is tried again that a quota, or stored consumers, kept from being bound: an event may
have come before it began to wait for one."""
NO_RESERVED_CLAIMS = "reservations of ResourceClaims are not supported: remove resourceClaims"
_NODE_EVENTS = ("Add", "UpdateNodeLabel", "UpdateNodeTaint", "UpdateNodeAllocatable")


class _Args(PluginArgs, frozen=True):
    filter_timeout: Seconds = Seconds(10)
    binding_timeout: Seconds = Seconds(600)
    preempt_devices: bool = True
    """Ours: evict pods of lower priority for their devices."""


def _go(seconds: float) -> str:
    return durations.format_nanoseconds(round(seconds * durations.SECOND))


class DynamicResources:
    """Allocates devices for claims, and for extended resources that a device class serves."""

    name: ClassVar[str] = "DynamicResources"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.CLUSTER,
        events_to_register={
            "ResourceClaim": (),
            "ResourceSlice": ("Add", "Update"),
            "DeviceClass": ("Add", "Update"),
            "Node": _NODE_EVENTS,
            "Pod": ("UpdatePodGeneratedResourceClaim",),
            "AssignedPod": ("Add", "Delete"),
            "ResourceQuota": (),
        },
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        arguments = Arguments(self.name)
        parsed = arguments.read(_Args, args or {})
        timeout = parsed.filter_timeout
        if timeout < 0:
            arguments.append(invalid("filterTimeout", _go(timeout), "must be zero or positive"))
        if parsed.binding_timeout < 1:
            message = "must be at least 1 second"
            arguments.append(invalid("bindingTimeout", _go(parsed.binding_timeout), message))
        arguments.refuse_if_wrong()
        steps = max(1, int(timeout * _STEPS_A_SECOND)) if timeout else 0
        self._preempt_devices = parsed.preempt_devices
        self._limits = Limits(steps, parsed.binding_timeout)
        self._prepared: PreparedState | None = None

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return a key of this pod alone: results are cached in ``devices.allocation_cache``."""
        return pod.uid

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Reject the pod until all of its claims exist; PreFilter rejects reservations."""
        return None if pod.is_reserve_pod else self._claims_not_ready(pod.pod, view)

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None]:
        """Search devices in short steps; ``filter`` and ``post_filter`` then find the results."""
        outcome = self.pre_filter(pod, view)
        if not isinstance(outcome, DynamicResourcesState | PreFilterState):
            return
        prepared = PreparedState.of(pod, view, outcome)
        state = prepared.state
        yield from state.search_in_steps(rows)
        if not self._may_preempt(pod, view):
            self._prepared = prepared
            return
        yield from state.search_in_steps(rows)  # what changed in the pauses
        if state.verdicts(rows()).all():
            yield from rank_users_in_steps(pod, view.nodes, state.inventory)

    def pre_filter(
        self, pod: PodInfo, view: View
    ) -> DynamicResourcesState | PreFilterState | Skip | Reject:
        """Find the pod's claims and those that are not allocated yet."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared.is_valid(pod, view):
            prepared.state.now = view.now
            return prepared.outcome
        inventory: Inventory | None = view.world.devices
        claimed = bool(pod.pod.structured_claims)
        extended = () if inventory is None else device_backed_names(pod, view.nodes, inventory)
        if not claimed and not extended:
            return Skip()
        if inventory is None:
            return Reject(Code.UNRESOLVABLE, ("this scheduler does not watch devices",))
        if pod.is_reserve_pod and claimed:
            return Reject(Code.UNRESOLVABLE, (NO_RESERVED_CLAIMS,))
        try:
            claims = claims_of_pod(pod.pod, inventory.claims)
        except ClaimNotReady as not_ready:
            return Reject(Code.UNRESOLVABLE, (not_ready.message,))
        if not claims and not extended:
            return Skip()
        for claim in claims:
            if reject := _unusable(claim, pod, view):
                return reject
        old_claim = inventory.claims.extended_claim_of(pod.pod) if extended else None
        limits = self._limits
        if not inventory.features.filter_timeout:
            limits = replace(limits, steps=0)
        row = nominated_row(pod, view)
        state = DynamicResourcesState(
            pod, inventory, view.nodes, view.now, limits, claims, extended, old_claim, row
        )
        alternatives = any([r.first_available for c in claims for r in c.spec.devices.requests])
        return state if alternatives else PreFilterState(state, scores=False)

    def filter(
        self, state: DynamicResourcesState, rows: Rows, change: PodChange = NO_CHANGE
    ) -> Verdicts:
        """Return a verdict a row; pods that are added must get their devices, too.

        Removed pods do not matter: their claims are deallocated later.
        """
        verdicts = state.verdicts(rows)
        for position, row in change.positions_in(rows) if change.added else ():
            if not verdicts[position] and not self._fits_beside(state, row, change):
                verdicts[position] = Code.UNRESOLVABLE
        return verdicts

    def filter_each(self, state: DynamicResourcesState, rows: Rows) -> Verdicts:
        """Return the same where the error of a row does not end the search on the others."""
        return state.verdicts(rows, all_rows=True)

    def _fits_beside(self, state: DynamicResourcesState, row: int, change: PodChange) -> bool:
        nominated = change.added.get(row, ())
        if not nominated or not self._preempt_devices:
            return True
        return can_allocate_beside(state, row, nominated, state.inventory.allocated_devices)

    def depends_on_pods(self, _state: DynamicResourcesState) -> None:
        """Return None: evicting pods frees no devices until their claims are deallocated."""

    def reasons(
        self, state: DynamicResourcesState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return why the row is rejected."""
        return (state.reason(row) or CANNOT_ALLOCATE,)

    def count_reasons(self, state: DynamicResourcesState, rows: Rows) -> Mapping[str, int]:
        """Count the rejection reasons over rows."""
        return state.count_reasons(rows)

    def explain(self, state: DynamicResourcesState, rows: Rows) -> Mapping[str, Any]:
        """Return what stands in the way of devices on rejected rows, as JSON data."""
        return explain_rows(state, rows)

    def score(self, state: DynamicResourcesState, rows: Rows) -> RawScores:
        """Prefer nodes where earlier subrequests can be allocated."""
        return state.scores(rows)

    def normalize_score(
        self, state: DynamicResourcesState, rows: Rows, raw: RawScores
    ) -> RawScores:
        """Scale the scores so that the highest is 100."""
        highest = raw.max(initial=0)
        return np.floor(raw * 100 / highest) if highest > 0 else np.zeros(len(raw))

    def post_filter(
        self, state: DynamicResourcesState | None, rejection: Rejection, view: View
    ) -> PostFilterResult:
        """Free what the pod needs: one of its own claims, or devices of less important pods.

        A claim of its own that no node can use is deallocated, an old extended resource claim
        deleted. If there is none, pods of lower priority are evicted for their devices.
        """
        if state is None:
            return PostFilterResult(self.name, "no new claims to deallocate")
        unused = state.unused_claims()
        if unused:
            rng = rejection.rng if len(unused) > 1 else None
            claim = unused[0 if rng is None else int(rng.random() * len(unused))]
            return PostFilterResult(
                self.name,
                "deallocation of ResourceClaim completed",
                calls=(claim_writes.deallocation(claim),),
            )
        if state.old_extended_claim is not None:
            calls = claim_writes.deletion(state.old_extended_claim, state.pod)
            return PostFilterResult(self.name, "deletion of ResourceClaim completed", calls=calls)
        # Undoing an earlier attempt may have failed: its claim is gone, the pod still names it.
        removal = claim_writes.pod_status_removal(state.pod)
        result = PostFilterResult(self.name, NOT_SCHEDULABLE, calls=removal)
        if not self._may_preempt(state.pod, view):
            return result
        preemption = DevicePreemption(self.name, state, rejection, view)
        found = preemption.result()
        if found is None and preemption.users_are_binding:
            # Another plugin may have rejected the pod first; its hints ignore devices.
            return replace(result, requeueing_plugins=frozenset({self.name}))
        return result if found is None else replace(found, calls=removal)

    def _may_preempt(self, pod: PodInfo, view: View) -> bool:
        """Return False in the common case: no pod may be evicted, no claim needs to be read."""
        return self._preempt_devices and bool(
            view.world.nominations.node_of(pod.uid) or view.nodes.has_pods_below(pod.priority)
        )

    def reserve(self, state: DynamicResourcesState, placement: Placement) -> Reject | None:
        """Allocate devices on the chosen node; the allocations are in flight until stored."""
        unallocated = state.reserved = state.unallocated_on(placement.row)
        for claim in state.claims:
            state.inventory.claims.consumers_in_flight.add(claim.uid, state.pod.pod)
        if unallocated.allocator is None:
            return None
        inventory = state.inventory
        try:
            found = unallocated.solve(placement.row, inventory, state.nodes, state.limits.steps)
        except AllocationError as failure:
            return Reject(Code.ERROR, (failure.message,))
        if found is None:
            return Reject(Code.UNRESOLVABLE, (CANNOT_ALLOCATE,))
        allocations = unallocated.allocator.write(found, placement.node)
        for claim, allocation in zip(unallocated.claims, allocations, strict=True):
            allocated = with_allocation(claim, allocation)
            state.written.in_flight.append(allocated)
            inventory.claims.add_in_flight(allocated)
        return None

    def unreserve(self, state: DynamicResourcesState, placement: Placement) -> None:
        """End the allocations in flight, except for claims that another attempt allocated since."""
        claims = state.inventory.claims
        for claim in state.claims:
            claims.consumers_in_flight.remove(claim.uid, state.pod.uid)
        while state.written.in_flight:
            mine = state.written.in_flight.pop()
            if claims.in_flight(mine.uid) is mine:
                claims.remove_in_flight(mine.uid)

    def writes_nominated_node(self, state: DynamicResourcesState, placement: Placement) -> bool:
        """Return whether the extended resource claim is the only one: its patch of the pod does."""
        reserved = state.reserved
        return not state.claims and reserved is not None and reserved.extended_claim is not None

    def pre_bind(self, state: DynamicResourcesState, placement: Placement) -> PreBindCalls:
        """Write the allocations, reserve the claims and wait until the devices are prepared."""
        assert state.reserved is not None, "Reserve comes first"
        try:
            yield from claim_writes.bind_claims(state, state.reserved, placement.node)
        except NotBindable as refused:
            retry_at = state.now + RETRY_REFUSED_SECONDS
            return Reject(Code.UNRESOLVABLE, (refused.message,), retry_at)
        if state.inventory.features.binding_conditions:
            yield from wait_until_prepared(
                state.inventory.claims,
                state.reserved_claims(),
                placement,
                self._limits.binding_seconds,
            )
        return None

    def undo_pre_bind(self, state: DynamicResourcesState, placement: Placement) -> ApiCalls:
        """Remove the reservations for the pod and delete the extended resource claim."""
        yield from claim_writes.undo(state, pod_is_deleted=placement.pod_is_deleted)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Return whether the event may make the pod schedulable."""
        match event.resource:
            case "ResourceClaim":
                return self._claim_may_help(event, pod, view)
            case "UnschedulablePod":
                own = event.new is not None and event.new.uid == pod.pod.uid
                return own and self._claims_not_ready(event.new, view) is None
            case "AssignedPod" if event.action == "Delete":
                return had_devices_in_flight(event.old, view)
            case "AssignedPod":
                return self._preempt_devices and may_be_evicted(event.new, pod, view)
            case "Node":
                return event.action in _NODE_EVENTS
            case "ResourceQuota":
                return quota_may_have_room(event, pod, view)
            case "DeviceClass" | "ResourceSlice":
                return event.action in ("Add", "Update")
        return False

    def _claim_may_help(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        old: ResourceClaim | None = event.old
        new: ResourceClaim | None = event.new
        if self._claims_not_ready(pod.pod, view) is not None:
            return False
        was_held = old is not None and old.status.allocation is not None
        if was_held and (new is None or new.status.allocation is None):
            return True
        if old is not None and is_extended_claim_of(old, pod.pod):
            return new is None
        if new is None:
            return False
        if self._preempt_devices and may_be_freed(old, new, pod, view):
            return True
        claims = view.world.devices.claims
        if new.uid not in {claim.uid for claim in claims_of_pod(pod.pod, claims)}:
            return False
        changed = old is None or old.status != new.status
        return changed and claims.is_free_for(new, pod.uid)

    def _claims_not_ready(self, pod: Pod, view: View) -> Reject | None:
        if not pod.structured_claims:
            return None
        inventory: Inventory | None = view.world.devices
        try:
            if inventory is not None:
                claims_of_pod(pod, inventory.claims)
        except ClaimNotReady as not_ready:
            return Reject(Code.UNRESOLVABLE, (not_ready.message,))
        return None


def _unusable(claim: ResourceClaim, pod: PodInfo, view: View) -> Reject | None:
    """Reject a pod if a claim cannot be allocated on any node, or has no room for the pod."""
    inventory: Inventory = view.world.devices
    if reason := _claim_error(claim, inventory):
        return Reject(Code.UNRESOLVABLE, (reason,))
    if inventory.claims.is_free_for(claim, pod.uid):
        return None
    # An attempt in flight that fails is no event.
    retry_at = view.now + RETRY_SECONDS if has_room_for(claim, pod.uid) else None
    return Reject(Code.UNRESOLVABLE, (too_many_consumers(claim.key, MAX_CONSUMERS),), retry_at)


def _claim_error(claim: ResourceClaim, inventory: Inventory) -> str:
    """Return why a claim cannot be allocated on any node, or ""."""
    if claim.status.allocation is not None:
        return ""
    if inventory.claims.in_flight(claim.uid) is not None:
        return f"resource claim {claim.key} is in the process of being allocated"
    for request in claim.spec.devices.requests:
        problem = ""
        if request.exactly is not None:
            asked = {request.name: request.exactly.device_class_name}
        else:
            subrequests = request.first_available
            asked = {f"{request.name}/{s.name}": s.device_class_name for s in subrequests}
            problem = "" if asked else "unknown request type"
        if request.first_available and not inventory.features.prioritized_list:
            problem = "has subrequests, but the DRAPrioritizedList feature is disabled"
        if problem:
            return f"resource claim {claim.key}, request {request.name}: {problem}"
        for name, device_class in asked.items():
            if device_class not in inventory.classes.by_name:
                return f"request {name}: device class {device_class} does not exist"
    return ""
