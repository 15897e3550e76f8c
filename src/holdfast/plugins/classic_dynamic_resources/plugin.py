"""The extension points of ClassicDynamicResources."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from holdfast.api.classic import PodSchedulingSpec
from holdfast.api.classic_annotation import InvalidEntries
from holdfast.api.classic_claims import classic_entries
from holdfast.api.classic_names import OWN_GROUP
from holdfast.api.classic_shadows import missing_shadow, shadow_names
from holdfast.classic_dra.claim_state import ClaimState, state_of
from holdfast.classic_dra.ledger import ClassicLedger
from holdfast.classic_dra.pod_claims import ClaimNotReady, PodClaim
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.events import QueueingStrategy
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
from holdfast.plugins.classic_dynamic_resources import queueing_hints as hints
from holdfast.plugins.classic_dynamic_resources.arguments import read_args
from holdfast.plugins.classic_dynamic_resources.claim_writes import ClassicWrites, held_for_others
from holdfast.plugins.classic_dynamic_resources.explanation import explain_rows
from holdfast.plugins.classic_dynamic_resources.plan import (
    Negotiation,
    potential_nodes,
    reservation,
)
from holdfast.plugins.classic_dynamic_resources.shadow_writes import write_shadows
from holdfast.plugins.classic_dynamic_resources.state import ClassicState, reason_to_wait

NOT_SERVED = "the API server does not serve classic resource claims: install deploy/crds"
RELEASED = "deallocation of ResourceClaim requested"
NOT_SCHEDULABLE = "still not schedulable"


class ClassicDynamicResources:
    """Negotiates with resource drivers about the nodes of pods with classic claims."""

    name: ClassVar[str] = "ClassicDynamicResources"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.CLUSTER,
        post_filter_without_plan=True,
        events_to_register={
            hints.CLAIM: ("Add", "Update"),
            hints.CLASS: ("Add", "Update"),
            hints.NEGOTIATION: (),
            "Node": hints.NODE_ACTIONS,
            "UnschedulablePod": ("Update",),
        },
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return a key of this pod alone."""
        return pod.uid

    def pre_enqueue(self, pod: PodInfo, view: View) -> Reject | None:
        """Reject the pod until all of its claims exist and are its own."""
        ledger: ClassicLedger = view.world.classic
        if pod.is_reserve_pod or ledger.resources is None:
            return None  # PreFilter has a message for them
        try:
            ledger.claims_of(pod.pod)
        except ClaimNotReady as not_ready:
            if held_for_others(ledger.held_by(pod.pod), pod.uid):
                return None  # PostFilter gives them back
            return Reject(Code.UNRESOLVABLE, (not_ready.message,))
        except InvalidEntries:
            return None
        return None

    def pre_filter(self, pod: PodInfo, view: View) -> ClassicState | Skip | Reject:
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
            # A kubelet knows only the shadows: without one it starts the pod at once.
            is_real = ledger.resources.claims.group == OWN_GROUP
            if is_real and (reason := missing_shadow(pod.pod, entries)):
                return Reject(Code.UNRESOLVABLE, (reason,))
            claims = ledger.claims_of(pod.pod)
        except ClaimNotReady as not_ready:
            return Reject(Code.UNRESOLVABLE, (not_ready.message,))
        except InvalidEntries as invalid:
            return Reject(Code.UNRESOLVABLE, (str(invalid),))
        negotiation = ledger.negotiation_of(pod.pod)
        state = ClassicState(pod, ledger, view.nodes, claims, negotiation)
        return reason_to_wait(state, view.now) or state

    def filter(self, state: ClassicState, rows: Rows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Reject nodes where a claim is not available, or cannot be allocated."""
        return state.verdicts(rows)

    def depends_on_pods(self, _state: ClassicState) -> None:
        """Return None: evicting pods allocates nothing."""

    def reasons(
        self, state: ClassicState, row: int, change: PodChange = NO_CHANGE
    ) -> tuple[str, ...]:
        """Return why the row is rejected."""
        return (state.reason(row),)

    def count_reasons(self, state: ClassicState, rows: Rows) -> Mapping[str, int]:
        """Count the rejection reasons over rows."""
        return state.count_reasons(rows)

    def explain(self, state: ClassicState, rows: Rows) -> Mapping[str, Any]:
        """Return what drivers said about each claim and node, as JSON data."""
        return explain_rows(state, rows)

    def post_filter(
        self, state: ClassicState | None, rejection: Rejection, view: View
    ) -> PostFilterResult:
        """Give back claims that other pods may use, and release one that is on a wrong node.

        Only one claim of a pod is released at a time, and no pod is evicted meanwhile.
        """
        pod, ledger = rejection.pod, view.world.classic
        claims = state.claims if state is not None else _claims(pod, ledger)
        # Nothing else helps a pod that waits for its claims, whatever the node.
        by = rejection.pre_filter_reject
        mine = by is not None and by[0] == self.name
        code = Code.UNRESOLVABLE if mine else Code.UNSCHEDULABLE
        if not claims:
            return PostFilterResult(self.name, code=code)
        writes = ClassicWrites(pod.pod, ledger)
        held = held_for_others(claims, pod.uid)
        candidates = [] if state is None else state.releasable(self._rejected_rows(rejection))
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

    def pre_score(self, state: ClassicState, feasible: Rows) -> Skip | None:
        """Remember the rows that drivers are asked about; score only if they are asked."""
        state.fitting = feasible
        return None if state.pending else Skip()

    def score(self, state: ClassicState, rows: Rows) -> RawScores:
        """Count the other pods that wait for an allocation on each node."""
        counts: RawScores = state.ledger.selected_nodes.column()[rows]
        own = state.own_negotiation
        selected = None if own is None else state.nodes.row_of.get(own.spec.selected_node)
        return counts if selected is None else counts - (rows == selected)

    def normalize_score(self, state: ClassicState, rows: Rows, raw: RawScores) -> RawScores:
        """Prefer nodes that few pods wait for: they do not take the last device from another."""
        highest = raw.max(initial=0)
        return np.floor(100 - raw * 100 / highest) if highest > 0 else np.zeros(len(raw))

    def reserve(self, state: ClassicState, placement: Placement) -> Reject | None:
        """Decide what to ask drivers; or, if all claims are allocated, reserve them in flight."""
        if state.pending:
            state.plan = Negotiation(self._spec(state, placement))
            return None
        state.plan = reservation([of_pod.claim for of_pod in state.claims], state.pod.uid)
        for claim in state.plan.claims:
            state.ledger.add_in_flight(claim, state.pod.uid)
            state.ledger.consumers_in_flight.add(claim.uid, state.pod.pod)
            state.reserved.append(claim)
        return None

    @staticmethod
    def _spec(state: ClassicState, placement: Placement) -> PodSchedulingSpec:
        found = state.own_negotiation
        before = PodSchedulingSpec() if found is None else found.spec
        fitting = np.array([placement.row], np.intp) if state.fitting is None else state.fitting
        kept = () if state.has_excluded(before.potential_nodes) else before.potential_nodes
        nodes = potential_nodes(state.nodes, fitting, kept, state.pod.uid)
        pending = [of_pod.entry.name for of_pod in state.pending]
        selected = ""
        if len(pending) == 1 or state.unsuitable_nodes.keys() >= set(pending):
            # Drivers may be allocating for the node of before.
            row = state.nodes.row_of.get(before.selected_node)
            stays = row is not None and bool((fitting == row).any())
            selected = before.selected_node if stays else placement.node
        return PodSchedulingSpec(selected, nodes)

    def unreserve(self, state: ClassicState, placement: Placement) -> None:
        """End the reservations in flight."""
        while state.reserved:
            state.ledger.remove_in_flight(state.reserved.pop(), state.pod.uid)

    def pre_bind_pre_flight(self, state: ClassicState, placement: Placement) -> bool:
        """Return whether drivers are asked, a claim is not reserved yet, or there are shadows."""
        if isinstance(state.plan, Negotiation) or shadow_names(state.pod.pod):
            return True
        return bool(state.plan and state.plan.claims)

    def may_end_pending(self, state: ClassicState, placement: Placement) -> bool:
        """Return whether the pod has to wait for drivers."""
        return isinstance(state.plan, Negotiation)

    def pre_bind(self, state: ClassicState, placement: Placement) -> PreBindCalls:
        """Ask the drivers and wait for their answer, or reserve the claims."""
        writes, plan = ClassicWrites(state.pod.pod, state.ledger), state.plan
        assert plan is not None, "Reserve comes first"
        if not isinstance(plan, Negotiation):
            yield from writes.reserve(plan.claims)
            yield from write_shadows(state.pod.pod, state.claims)
            return None
        yield from writes.unreserve(held_for_others(state.claims, state.pod.uid))
        yield from writes.negotiate(plan.spec)
        return Reject(Code.PENDING, (plan.message,))

    def undo_pre_bind(self, state: ClassicState, placement: Placement) -> ApiCalls:
        """Remove the pod from the consumers of its claims."""
        claims = {of_pod.claim.uid: of_pod.claim for of_pod in state.claims}
        yield from ClassicWrites(state.pod.pod, state.ledger).unreserve(claims.values())

    def post_bind(self, state: ClassicState, placement: Placement) -> ApiCalls:
        """Delete the PodScheduling: drivers need not look at the pod any more."""
        yield from ClassicWrites(state.pod.pod, state.ledger).end_negotiation()

    def pod_keys(self, pod: PodInfo) -> Collection[Hashable]:
        """Return the keys of the pod's claims and of its PodScheduling."""
        return hints.pod_keys(pod.pod)

    def event_keys(self, event: ClusterEvent) -> Collection[Hashable] | None:
        """Return the keys of the pods that the event concerns; None: any pod."""
        return hints.event_keys(event)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> QueueingStrategy:
        """Return whether the event may make the pod schedulable, and how soon."""
        ledger = view.world.classic
        match event.resource:
            case hints.CLAIM:
                return hints.after_claim(event, pod.pod)
            case hints.NEGOTIATION:
                return hints.after_negotiation(event, pod.pod, ledger)
            case hints.CLASS:
                return hints.after_class(event, pod.pod, ledger)
            case "UnschedulablePod":
                return hints.after_pod_change(event, pod.pod)
            case "Node" if event.action in hints.NODE_ACTIONS:
                return QueueingStrategy.AFTER_BACKOFF
        return QueueingStrategy.SKIP


def _claims(pod: PodInfo, ledger: ClassicLedger) -> tuple[PodClaim, ...]:
    if ledger.resources is None or pod.is_reserve_pod:
        return ()
    return ledger.ready_claims_of(pod.pod) or ledger.held_by(pod.pod)
