"""ClassicDynamicResources: which pods wait, and what helps those that were rejected."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

from holdfast.api.classic_dra.claims import classic_entries, readable_entries
from holdfast.api.classic_dra.names import OWN_GROUP
from holdfast.api.classic_dra.shadows import missing_shadow
from holdfast.api.classic_dra.types import (
    ClassicClaim,
    ClassicClass,
    PodScheduling,
    PodSchedulingStatus,
)
from holdfast.api.meta import Object
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries
from holdfast.runtime.settings import ClassicClaimSettings
from holdfast.scheduling.framework.arguments import Arguments, PluginArgs
from holdfast.scheduling.framework.events import ActionType, EventResource, QueueingStrategy
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
from holdfast.scheduling.plugins.classic_dynamic_resources.claim_reservation import ClaimReservation
from holdfast.scheduling.plugins.classic_dynamic_resources.claim_writes import (
    ClassicWrites,
    held_for_others,
)
from holdfast.scheduling.plugins.classic_dynamic_resources.negotiation import Negotiation
from holdfast.scheduling.plugins.classic_dynamic_resources.plan import ClassicClaims, reason_to_wait
from holdfast.state.classic_dra.claim_state import ClaimState, state_of
from holdfast.state.classic_dra.ledger import ClassicLedger, is_owned
from holdfast.state.classic_dra.pod_claims import ClassicClaimNotReady, ClassicPodClaim, unusable
from holdfast.state.columns.pod_info import PodInfo

NODE_ACTIONS = (ActionType.ADD, ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT)
SKIP = QueueingStrategy.SKIP
IMMEDIATELY = QueueingStrategy.IMMEDIATELY
AFTER_BACKOFF = QueueingStrategy.AFTER_BACKOFF
NOT_SERVED = "the API server does not serve classic resource claims: install deploy/crds"
RELEASED = "deallocation of ResourceClaim requested"
NOT_SCHEDULABLE = "still not schedulable"


class ClassicDynamicResourcesArgs(PluginArgs, frozen=True):
    """The arguments of the plugin, which the claim controller reads.

    ``deallocate_unused``: a claim that waits for its first consumer is deallocated after its last
    one, as in Kubernetes 1.28 to 1.31; else it stays allocated, as the KEP says.
    """

    deallocate_unused: bool = False


class ClassicDynamicResources(Plugin):
    """Negotiates with resource drivers about the nodes of pods with classic claims."""

    name = "ClassicDynamicResources"
    traits = Traits(
        scope=Scope.CLUSTER,
        post_filter_without_plan=True,
        events_to_register={
            EventResource.CLASSIC_RESOURCE_CLAIM: (ActionType.ADD, ActionType.UPDATE),
            EventResource.CLASSIC_RESOURCE_CLASS: (ActionType.ADD, ActionType.UPDATE),
            EventResource.POD_SCHEDULING: (),
            EventResource.NODE: NODE_ACTIONS,
            EventResource.UNSCHEDULABLE_POD: (ActionType.UPDATE,),
        },
    )
    plan_classes = (Negotiation, ClaimReservation)

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        wrong = Arguments(self.name)
        self.args = wrong.read(ClassicDynamicResourcesArgs, args or {})
        wrong.refuse_if_wrong()

    @property
    def controller_settings(self) -> ClassicClaimSettings:
        """The settings of the claim controller."""
        return ClassicClaimSettings(self.args.deallocate_unused)

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Reject the pod until all of its claims exist and are its own."""
        ledger: ClassicLedger = view.world.classic
        if pod.is_reserve_pod or ledger.resources is None:
            return None  # PreFilter has a message for them
        try:
            ledger.claims_of(pod.pod)
        except ClassicClaimNotReady as not_ready:
            if held_for_others(ledger.held_by(pod.pod), pod.uid):
                return None  # PostFilter gives them back
            return Reject(Code.UNRESOLVABLE, (not_ready.message,))
        except InvalidEntries:
            return None
        return None

    def pre_filter(self, pod: PodInfo, view: View) -> ClassicClaims | Skip | Reject:
        """Find the pod's claims; reject it if one has to change first, whatever the node."""
        ledger: ClassicLedger = view.world.classic
        try:
            entries = classic_entries(pod.pod)
            if not entries:
                return Skip()
            if ledger.resources is None:
                return Reject(Code.UNRESOLVABLE, (NOT_SERVED,))
            if pod.is_reserve_pod:
                reason = "reservations of classic claims are not supported: remove resourceClaims"
                return Reject(Code.UNRESOLVABLE, (reason,))
            # A kubelet sees only the shadows: without one it starts the pod at once.
            is_real = ledger.resources.claims.group == OWN_GROUP
            if is_real and (reason := missing_shadow(pod.pod, entries)):
                return Reject(Code.UNRESOLVABLE, (reason,))
            claims = ledger.claims_of(pod.pod)
        except ClassicClaimNotReady as not_ready:
            return Reject(Code.UNRESOLVABLE, (not_ready.message,))
        except InvalidEntries as invalid:
            return Reject(Code.UNRESOLVABLE, (str(invalid),))
        if reject := reason_to_wait(claims, ledger, pod.uid, view.now):
            return reject
        pending = any(of_pod.is_pending for of_pod in claims)
        plan = Negotiation if pending else ClaimReservation
        return plan(pod, ledger, view.nodes, claims, ledger.negotiation_of(pod.pod))

    def post_filter(self, rejection: Rejection, view: View) -> PostFilterResult:
        """Give back claims that other pods may use, and release one that is on a wrong node.

        Only one claim of a pod is released at a time, and no pod is evicted in that time.
        """
        pod, ledger = rejection.pod, view.world.classic
        plan = rejection.plans.get(self.name)
        mine = plan if isinstance(plan, ClassicClaims) else None
        claims = _claims(pod, ledger) if mine is None else mine.claims
        # Nothing else helps a pod that waits for its claims, whatever the node.
        by = rejection.pre_filter_reject
        waits = by is not None and by[0] == self.name
        code = Code.UNRESOLVABLE if waits else Code.UNSCHEDULABLE
        if not claims:
            return PostFilterResult(self.name, code=code)
        writes = ClassicWrites(pod.pod, ledger)
        held = held_for_others(claims, pod.uid)
        candidates = [] if mine is None else mine.releasable(self._rejected_rows(rejection))
        if any(state_of(of_pod.claim) is ClaimState.RELEASING for of_pod in claims):
            candidates = []
        if not candidates:
            calls = tuple(map(writes.unreservation, held))
            return PostFilterResult(self.name, NOT_SCHEDULABLE, calls=calls, code=code)
        rng = rejection.rng if len(candidates) > 1 else None
        chosen = candidates[0 if rng is None else int(rng.random() * len(candidates))]
        others = [writes.unreservation(claim) for claim in held if claim.uid != chosen.uid]
        calls = (*writes.clear_selected_node(), writes.release(chosen), *others)
        return PostFilterResult(self.name, RELEASED, calls=calls, code=Code.UNRESOLVABLE)

    def _rejected_rows(self, rejection: Rejection) -> Rows:
        """Return the rows that pass all filters before this one."""
        mine = [i for i, (plugin, _) in enumerate(rejection.filters) if plugin.name == self.name]
        rows: Rows = (rejection.plugin_of == (mine[0] if mine else -1)).nonzero()[0]
        return rows if mine else rows[:0]

    def pod_keys(self, pod: PodInfo) -> Collection[Hashable]:
        """Return the keys of the pod's claims and of its PodScheduling."""
        return keys_of_pod(pod.pod)

    def event_keys(self, event: ClusterEvent) -> Collection[Hashable] | None:
        """Return the keys of the pods that the event concerns; None: any pod."""
        return keys_of_event(event)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> QueueingStrategy:
        """Return whether the event may make the pod schedulable, and how soon."""
        ledger = view.world.classic
        match event.resource:
            case EventResource.CLASSIC_RESOURCE_CLAIM:
                return after_claim(event, pod.pod)
            case EventResource.POD_SCHEDULING:
                return after_negotiation(event, pod.pod, ledger)
            case EventResource.CLASSIC_RESOURCE_CLASS:
                return after_class(event, pod.pod, ledger)
            case EventResource.UNSCHEDULABLE_POD:
                return after_pod_change(event, pod.pod)
            case EventResource.NODE if event.action in NODE_ACTIONS:
                return AFTER_BACKOFF
        return SKIP


def _claims(pod: PodInfo, ledger: ClassicLedger) -> tuple[ClassicPodClaim, ...]:
    if ledger.resources is None or pod.is_reserve_pod:
        return ()
    return ledger.ready_claims_of(pod.pod) or ledger.held_by(pod.pod)


def keys_of_pod(pod: Pod) -> Collection[Hashable]:
    """Return the keys of a pod's claims and of its PodScheduling."""
    claims = [
        (EventResource.CLASSIC_RESOURCE_CLAIM, f"{pod.namespace}/{entry.claim_name}")
        for entry in readable_entries(pod)
    ]
    return [*claims, (EventResource.POD_SCHEDULING, pod.key)]


def keys_of_event(event: ClusterEvent) -> Collection[Hashable] | None:
    """Return the keys of the pods that an event concerns; None: any pod."""
    obj: Any = event.new if event.new is not None else event.old
    match event.resource:
        case EventResource.CLASSIC_RESOURCE_CLAIM | EventResource.POD_SCHEDULING:
            return [(event.resource, obj.key)]
        case EventResource.UNSCHEDULABLE_POD:
            return [(EventResource.POD_SCHEDULING, obj.key)]
    return None


def after_claim(event: ClusterEvent, pod: Pod) -> QueueingStrategy:
    """Return what to do after a claim was added, changed or deleted."""
    old: ClassicClaim | None = event.old
    new: ClassicClaim | None = event.new
    if new is None or new.namespace != pod.namespace:
        return SKIP
    entries = [entry for entry in readable_entries(pod) if entry.claim_name == new.name]
    for entry in entries:
        if _must_be_given_back(new, pod) and not (old and _must_be_given_back(old, pod)):
            return IMMEDIATELY
        if unusable(pod, entry, new):
            continue
        if old is None or old.uid != new.uid or unusable(pod, entry, old):
            return IMMEDIATELY
        if _for_pod(old, pod) != _for_pod(new, pod) and not new.status.deallocation_requested:
            return IMMEDIATELY
    return SKIP


def _must_be_given_back(claim: ClassicClaim, pod: Pod) -> bool:
    """Return whether a claim's deletion waits for a pod that has no node."""
    return claim.is_deleted and claim.is_reserved_for(pod.uid)


def _for_pod(claim: ClassicClaim, pod: Pod) -> tuple[object, ...]:
    """Return the part of a claim's status that matters to a pod, without the pod's reservation.

    The pod reserves claims and gives them back itself.
    """
    status = claim.status
    others = [consumer.uid for consumer in status.reserved_for if consumer.uid != pod.uid]
    return status.allocation, status.deallocation_requested, others


def after_negotiation(event: ClusterEvent, pod: Pod, ledger: ClassicLedger) -> QueueingStrategy:
    """Return what to do after drivers have answered in the PodScheduling of the pod.

    If it was deleted, drivers have to be asked again.
    """
    new: PodScheduling | None = event.new
    if new is None:
        return AFTER_BACKOFF if event.old is not None and is_owned(event.old, pod) else SKIP
    if not is_owned(new, pod):
        return SKIP
    before = PodSchedulingStatus() if event.old is None else event.old.status
    if before == new.status:
        return SKIP
    pending = {of_pod.entry.name for of_pod in ledger.ready_claims_of(pod) if of_pod.is_pending}
    if not pending or not pending <= _answered(new.status):
        return SKIP
    if not pending <= _answered(before):
        return IMMEDIATELY
    rejected = any(
        new.spec.selected_node in answer.unsuitable_nodes
        for answer in new.status.claims
        if answer.pod_resource_claim_name in pending
    )
    return IMMEDIATELY if rejected else AFTER_BACKOFF


def _answered(status: PodSchedulingStatus) -> set[str]:
    return {answer.pod_resource_claim_name for answer in status.claims}


def after_class(event: ClusterEvent, pod: Pod, ledger: ClassicLedger) -> QueueingStrategy:
    """Return what to do after a class was added or changed."""
    new: ClassicClass | None = event.new
    if new is None:
        return SKIP
    waits = any(
        of_pod.is_pending and of_pod.claim.spec.resource_class_name == new.name
        for of_pod in ledger.ready_claims_of(pod)
    )
    return AFTER_BACKOFF if waits else SKIP


def after_pod_change(event: ClusterEvent, pod: Pod) -> QueueingStrategy:
    """Return what to do after a change of the waiting pod itself: its annotation may be right."""
    own: Object | None = event.new
    if own is None or own.uid != pod.uid or not isinstance(event.old, Pod):
        return SKIP
    return AFTER_BACKOFF if readable_entries(event.old) != readable_entries(event.new) else SKIP
