"""The plugin itself: what each extension point answers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from holdfast.api import durations
from holdfast.api.causes import invalid
from holdfast.api.devices import ResourceClaim
from holdfast.api.mistakes import Seconds
from holdfast.api.pod import Pod
from holdfast.columns.pod_info import PodInfo
from holdfast.devices.claims import EXTENDED_CLAIM, ClaimUnmet, claims_of, controller_of
from holdfast.devices.failures import AllocationError
from holdfast.devices.inventory import Inventory
from holdfast.framework.arguments import Arguments, PluginArgs
from holdfast.framework.plugin import (
    NO_CHANGE,
    ApiCalls,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    PostFilterResult,
    PreFilterState,
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
from holdfast.plugins.dynamic_resources import writing
from holdfast.plugins.dynamic_resources.demand import ClaimDemand, with_allocation

_FIRST_OTHER_RESOURCE = 4
_STEPS_A_SECOND = 100_000
"""The search has no clock: the time limit is kept in steps, at about ten microseconds each."""
_NODE_NEWS = ("Add", "UpdateNodeLabel", "UpdateNodeTaint", "UpdateNodeAllocatable")


class _Args(PluginArgs, frozen=True):
    filter_timeout: Seconds = Seconds(10)
    binding_timeout: Seconds = Seconds(600)


def _go(seconds: float) -> str:
    return durations.format_nanoseconds(round(seconds * durations.SECOND))


class DynamicResources:
    """Finds devices for claims and for extended resources that a device class serves."""

    name: ClassVar[str] = "DynamicResources"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.CLUSTER,
        events_to_register={
            "ResourceClaim": (),
            "ResourceSlice": ("Add", "Update"),
            "DeviceClass": ("Add", "Update"),
            "Node": _NODE_NEWS,
            "Pod": ("UpdatePodGeneratedResourceClaim",),
        },
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        wrong = Arguments(self.name)
        given = wrong.read(_Args, args or {})
        timeout = given.filter_timeout
        if timeout < 0:
            wrong.append(invalid("filterTimeout", _go(timeout), "must be zero or positive"))
        if given.binding_timeout < 1:
            words = "must be at least 1 second"
            wrong.append(invalid("bindingTimeout", _go(given.binding_timeout), words))
        wrong.refuse_if_wrong()
        self._steps = max(1, int(timeout * _STEPS_A_SECOND)) if timeout else 0

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Nothing is kept between pods here: ``devices.tables`` does that, by claim."""
        return pod.uid

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Keep the pod out until all its claims are there."""
        return self._unmet(pod.pod, view)

    def pre_filter(self, pod: PodInfo, view: View) -> ClaimDemand | PreFilterState | Skip | Reject:
        """Find the pod's claims and what of them is still to be allocated."""
        inventory: Inventory | None = view.world.devices
        claimed = bool(pod.pod.spec.resource_claims)
        extended = self._extended(pod, view) if inventory is not None else ()
        if not claimed and not extended:
            return Skip()
        if inventory is None:
            return Reject(Code.UNRESOLVABLE, ("no devices are known to this scheduler",))
        if pod.stands_in:
            return Reject(Code.UNRESOLVABLE, ("reservations that hold devices are not built yet",))
        try:
            claims = claims_of(pod.pod, inventory.claims)
        except ClaimUnmet as unmet:
            return Reject(Code.UNRESOLVABLE, (unmet.message,))
        if not claims and not extended:
            return Skip()
        if reason := next(filter(None, (_obstacle(c, inventory) for c in claims)), ""):
            return Reject(Code.UNRESOLVABLE, (reason,))
        leftover = inventory.claims.special_of(pod.pod) if extended else None
        demand = ClaimDemand(
            pod, inventory, view.nodes, view.now, self._steps, claims, extended, leftover
        )
        alternatives = any(r.first_available for c in claims for r in c.spec.devices.requests)
        return demand if alternatives else PreFilterState(demand, scores=False)

    def filter(self, state: ClaimDemand, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Ask each row for the devices; pods that come or go do not change the answer."""
        return state.verdicts(rows)

    def depends_on_pods(self, _state: ClaimDemand) -> None:
        """Nowhere: a device is free only once its claim is deallocated."""

    def reasons(
        self, state: ClaimDemand, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Say why the row will not do."""
        return (state.words(row),)

    def count_reasons(self, state: ClaimDemand, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of many rows at once."""
        return state.count_reasons(rows)

    def score(self, state: ClaimDemand, rows: Rows) -> RawScores:
        """Prefer nodes where earlier alternatives can be had."""
        return state.scores(rows)

    def normalize_score(self, state: ClaimDemand, rows: Rows, raw: RawScores) -> RawScores:
        """Bring the best to 100."""
        highest = raw.max(initial=0)
        return np.floor(raw * 100 / highest) if highest > 0 else np.zeros(len(raw))

    def post_filter(
        self, state: ClaimDemand | None, rejection: Rejection, view: View
    ) -> PostFilterResult:
        """Free a claim that keeps its pod from every node, or delete an old special claim."""
        if state is None:
            return PostFilterResult(self.name, "no new claims to deallocate")
        for number in sorted(state.unavailable):
            claim = state.claims[number]
            if {consumer.uid for consumer in claim.status.reserved_for} <= {state.pod.uid}:
                return PostFilterResult(
                    self.name,
                    "deallocation of ResourceClaim completed",
                    calls=(writing.deallocation(claim),),
                )
        if state.leftover is not None:
            calls = writing.deletion(state.leftover)
            return PostFilterResult(self.name, "deletion of ResourceClaim completed", calls=calls)
        return PostFilterResult(self.name, "still not schedulable")

    def reserve(self, state: ClaimDemand, placement: Placement) -> Reject | None:
        """Search the chosen node and promise the devices found, before anything is written."""
        variant = state.variant_at(placement.row)
        if variant.allocator is None:
            return None
        node = state.nodes.nodes[placement.row]
        assert node is not None, f"{placement.node} is a node"
        inventory = state.inventory
        try:
            found = variant.allocator.solve(
                node, inventory.pools_of(node), inventory.holdings, self._steps
            )
        except AllocationError as failure:
            return Reject(Code.ERROR, (failure.message,))
        if found is None:
            return Reject(Code.UNRESOLVABLE, ("cannot allocate all claims",))
        allocations = variant.allocator.write(found, node.name)
        for claim, allocation in zip(variant.claims, allocations, strict=True):
            promised = with_allocation(claim, allocation)
            state.written.promises.append(promised)
            inventory.claims.promise(promised)
        return None

    def unreserve(self, state: ClaimDemand, placement: Placement) -> None:
        """Withdraw the promises, unless somebody else has promised the claim devices since."""
        claims = state.inventory.claims
        while state.written.promises:
            mine = state.written.promises.pop()
            if claims.promised(mine.uid) is mine:
                claims.withdraw(mine.uid)

    def pre_bind(self, state: ClaimDemand, placement: Placement) -> ApiCalls:
        """Write allocations and reservations."""
        yield from writing.bind_claims(state, state.variant_at(placement.row))

    def undo_pre_bind(self, state: ClaimDemand, placement: Placement) -> ApiCalls:
        """Take the reservations back and delete the special claim."""
        yield from writing.undo(state)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Tell whether the event can bring devices, claims or classes the pod waits for."""
        match event.resource:
            case "ResourceClaim":
                return self._claim_news(event, pod, view)
            case "UnschedulablePod":
                own = event.new is not None and event.new.uid == pod.pod.uid
                return own and self._unmet(event.new, view) is None
            case "Node":
                return event.action in _NODE_NEWS
            case "DeviceClass" | "ResourceSlice":
                return event.action in ("Add", "Update")
        return False

    def _claim_news(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        old: ResourceClaim | None = event.old
        new: ResourceClaim | None = event.new
        if self._unmet(pod.pod, view) is not None:
            return False
        was_held = old is not None and old.status.allocation is not None
        if was_held and (new is None or new.status.allocation is None):
            return True
        if old is not None and _is_special_of(old, pod.pod):
            return new is None
        if new is None:
            return False
        mine = {claim.uid for claim in claims_of(pod.pod, view.world.devices.claims)}
        return new.uid in mine and (old is None or old.status != new.status)

    def _unmet(self, pod: Pod, view: View) -> Reject | None:
        if not pod.spec.resource_claims:
            return None
        inventory: Inventory | None = view.world.devices
        try:
            if inventory is not None:
                claims_of(pod, inventory.claims)
        except ClaimUnmet as unmet:
            return Reject(Code.UNRESOLVABLE, (unmet.message,))
        return None

    @staticmethod
    def _extended(pod: PodInfo, view: View) -> tuple[str, ...]:
        """The pod's resources that a device class serves, by name."""
        others = [r for r, amount in pod.request if r >= _FIRST_OTHER_RESOURCE and amount]
        if not others:
            return ()
        names = (view.nodes.resources[r] for r in others)
        inventory: Inventory = view.world.devices
        return tuple(sorted(n for n in names if inventory.class_for(n) is not None))


def _obstacle(claim: ResourceClaim, inventory: Inventory) -> str:
    """Why a claim cannot be allocated on any node, or ""."""
    if claim.status.allocation is not None:
        return ""
    if inventory.claims.promised(claim.uid) is not None:
        return f"resource claim {claim.key} is in the process of being allocated"
    for request in claim.spec.devices.requests:
        where = f"resource claim {claim.key}, request {request.name}"
        if request.first_available and not inventory.features.prioritized_list:
            return f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
        if request.exactly is None and not request.first_available:
            return f"{where}: unknown request type"
        asked = {f"{request.name}/{s.name}": s.device_class_name for s in request.first_available}
        if request.exactly is not None:
            asked = {request.name: request.exactly.device_class_name}
        for name, device_class in asked.items():
            if device_class not in inventory.classes.by_name:
                return f"request {name}: device class {device_class} does not exist"
    return ""


def _is_special_of(claim: ResourceClaim, pod: Pod) -> bool:
    return claim.metadata.annotations.get(EXTENDED_CLAIM) == "true" and controller_of(claim, pod)
