"""DynamicResources: which pods wait for their claims, and what helps those that were rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.api import durations
from holdfast.api.devices import MAX_CONSUMERS, ResourceClaim
from holdfast.api.field_errors import invalid
from holdfast.api.pod import Pod
from holdfast.api.strict_decode import Seconds
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    ClusterEvent,
    Code,
    Plugin,
    PostFilterResult,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.plugins.dynamic_resources import claim_writes
from holdfast.scheduling.plugins.dynamic_resources.device_preemption import DevicePreemption
from holdfast.scheduling.plugins.dynamic_resources.device_search import Limits, device_backed_names
from holdfast.scheduling.plugins.dynamic_resources.freeable_claims import rank_users_in_steps
from holdfast.scheduling.plugins.dynamic_resources.plan import ClaimAllocation
from holdfast.scheduling.plugins.dynamic_resources.queueing_hints import (
    had_devices_in_flight,
    is_extended_claim_of,
    may_be_evicted,
    may_be_freed,
    quota_may_have_room,
)
from holdfast.state.columns.consumers_in_flight import too_many_consumers
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.devices.claims import ClaimNotReady, claims_of_pod, has_room_for
from holdfast.state.devices.inventory import Inventory
from holdfast.state.devices.row_table import NO_ROW

_STEPS_A_SECOND = 100_000
"""The time limit is counted in search steps of about ten microseconds: there is no clock here."""
NOT_SCHEDULABLE = "still not schedulable"
RETRY_SECONDS = 1.0
"""When a pod whose claim has too many consumers in flight is tried again."""
NO_RESERVED_CLAIMS = "reservations of ResourceClaims are not supported: remove resourceClaims"
_NODE_EVENTS = (
    ActionType.ADD,
    ActionType.UPDATE_NODE_LABEL,
    ActionType.UPDATE_NODE_TAINT,
    ActionType.UPDATE_NODE_ALLOCATABLE,
)


class _Args(PluginArgs, frozen=True):
    filter_timeout: Seconds = Seconds(10)
    binding_timeout: Seconds = Seconds(600)
    preempt_devices: bool = True
    """Ours: evict pods of lower priority for their devices."""


def _go(seconds: float) -> str:
    return durations.format_nanoseconds(round(seconds * durations.SECOND))


class DynamicResources(Plugin):
    """Allocates devices for claims, and for extended resources that a device class serves."""

    name = "DynamicResources"
    traits = Traits(
        scope=Scope.CLUSTER,
        events_to_register={
            EventResource.RESOURCE_CLAIM: (),
            EventResource.RESOURCE_SLICE: (ActionType.ADD, ActionType.UPDATE),
            EventResource.DEVICE_CLASS: (ActionType.ADD, ActionType.UPDATE),
            EventResource.NODE: _NODE_EVENTS,
            EventResource.POD: (ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,),
            EventResource.ASSIGNED_POD: (ActionType.ADD, ActionType.DELETE),
            EventResource.RESOURCE_QUOTA: (),
        },
    )
    plan_classes = (ClaimAllocation,)

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
        self._prepared: _PreparedPlan | None = None

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Reject the pod until all of its claims exist; PreFilter rejects reservations."""
        return None if pod.is_reserve_pod else self._claims_not_ready(pod.pod, view)

    def prepare(self, pod: PodInfo, view: View, rows: Callable[[], Rows]) -> Iterator[None] | None:
        """Search devices in short steps; ``filter`` and ``post_filter`` then find the results."""
        plan = self.pre_filter(pod, view)
        if isinstance(plan, Skip) and not pod.pod.spec.resource_claims:
            return None  # whether its resources are devices depends on device classes only
        return (
            self._search(pod, view, rows, plan) if isinstance(plan, ClaimAllocation) else iter(())
        )

    def _search(
        self, pod: PodInfo, view: View, rows: Callable[[], Rows], plan: ClaimAllocation
    ) -> Iterator[None]:
        prepared = _PreparedPlan.of(pod, view, plan)
        yield from plan.search_in_steps(rows)
        if not self._may_preempt(pod, view):
            self._prepared = prepared
            return
        yield from plan.search_in_steps(rows)  # what changed in the pauses
        if plan.filter(rows()).all():
            yield from rank_users_in_steps(pod, view.nodes, plan.inventory)

    def pre_filter(self, pod: PodInfo, view: View) -> ClaimAllocation | Skip | Reject:
        """Find the pod's claims and those that are not allocated yet."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared.is_valid(pod, view):
            prepared.plan.now = view.now
            return prepared.plan
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
        return ClaimAllocation(
            pod, inventory, view.nodes, view.now, limits, claims, extended, old_claim,
            _nominated_row(pod, view),
            scores=any([r.first_available for c in claims for r in c.spec.devices.requests]),
            respects_nominated=self._preempt_devices,
        )  # fmt: skip

    def post_filter(self, rejection: Rejection, view: View) -> PostFilterResult:
        """Free what the pod needs: one of its own claims, or devices of less important pods.

        One of its own claims that no node can use is deallocated; an old extended resource claim is
        deleted. If there is none, pods of lower priority are evicted for their devices.
        """
        plan = rejection.plans.get(self.name)
        if not isinstance(plan, ClaimAllocation):
            return PostFilterResult(self.name, "no new claims to deallocate")
        unused = plan.unused_claims()
        if unused:
            rng = rejection.rng if len(unused) > 1 else None
            claim = unused[0 if rng is None else int(rng.random() * len(unused))]
            return PostFilterResult(
                self.name,
                "deallocation of ResourceClaim completed",
                calls=(claim_writes.deallocation(claim),),
            )
        if plan.old_extended_claim is not None:
            calls = claim_writes.deletion(plan.old_extended_claim, plan.pod)
            return PostFilterResult(self.name, "deletion of ResourceClaim completed", calls=calls)
        # Undoing an earlier attempt may have failed: its claim is gone, the pod still names it.
        removal = claim_writes.pod_status_removal(plan.pod)
        result = PostFilterResult(self.name, NOT_SCHEDULABLE, calls=removal)
        if not self._may_preempt(plan.pod, view):
            return result
        preemption = DevicePreemption(self.name, plan, rejection, view)
        preemption_result = preemption.result()
        if preemption_result is None and preemption.users_are_binding:
            # Another plugin may have rejected the pod first; its hints ignore devices.
            return replace(result, requeueing_plugins=frozenset({self.name}))
        return result if preemption_result is None else replace(preemption_result, calls=removal)

    def _may_preempt(self, pod: PodInfo, view: View) -> bool:
        """Return False in the common case: no pod may be evicted, no claim needs to be read."""
        return self._preempt_devices and bool(
            view.world.nominations.node_of(pod.uid) or view.nodes.has_pods_below(pod.priority)
        )

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Return whether the event may make the pod schedulable."""
        match event.resource:
            case EventResource.RESOURCE_CLAIM:
                return self._claim_may_help(event, pod, view)
            case EventResource.UNSCHEDULABLE_POD:
                own = event.new is not None and event.new.uid == pod.pod.uid
                return own and self._claims_not_ready(event.new, view) is None
            case EventResource.ASSIGNED_POD if event.action == ActionType.DELETE:
                return had_devices_in_flight(event.old, view)
            case EventResource.ASSIGNED_POD:
                return self._preempt_devices and may_be_evicted(event.new, pod, view)
            case EventResource.NODE:
                return event.action in _NODE_EVENTS
            case EventResource.RESOURCE_QUOTA:
                return quota_may_have_room(event, pod, view)
            case EventResource.DEVICE_CLASS | EventResource.RESOURCE_SLICE:
                return event.action in (ActionType.ADD, ActionType.UPDATE)
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


class _PreparedPlan(msgspec.Struct, frozen=True):
    """The plan that ``prepare`` has made, for the scheduling cycle that follows.

    It is valid until the world changes. Changes of claims are counted, classes have an epoch. An
    allocation in flight also changes the node of its pod, which is in the journal.
    """

    pod: PodInfo
    plan: ClaimAllocation
    version: tuple[int, int, int]

    @classmethod
    def of(cls, pod: PodInfo, view: View, plan: ClaimAllocation) -> _PreparedPlan:
        """Return the plan that ``pre_filter`` has made in this view."""
        return cls(pod, plan, _version(view))

    def is_valid(self, pod: PodInfo, view: View) -> bool:
        """Return whether ``pre_filter`` would find the same for this pod in this view."""
        return (
            self.pod is pod
            and self.plan.nodes is view.nodes
            and self.version == _version(view)
            and self.plan.nominated_row == _nominated_row(pod, view)
        )


def _nominated_row(pod: PodInfo, view: View) -> int:
    """Return the row that the pod is nominated to, or NO_ROW."""
    node = view.world.nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name
    return view.nodes.row_of.get(node, NO_ROW)


def _version(view: View) -> tuple[int, int, int]:
    return view.nodes.epochs.stamp, view.nodes.journal.seq, view.world.devices.claim_changes


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
