"""The plugin itself: it passes each extension point on to the code for the kind of pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api import reservation_names as names
from holdfast.api.node_selection import required_nodes
from holdfast.capacity.matching import (
    ReservationMatch,
    ReservationRequirements,
    ignores_reservations,
)
from holdfast.capacity.operating_pods import ACTING_POLICY, owners_mistake
from holdfast.capacity.reservation_info import ReservationInfo
from holdfast.capacity.reserved_resources import NOTHING_FREED, freed_capacity
from holdfast.columns.epochs import Epoch
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.selection import required_selected
from holdfast.errors import BadRequest
from holdfast.framework.events import ActionType, EventResource
from holdfast.framework.former_contract import PreFilterResult, PreFilterState
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ApiCall,
    ApiCalls,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    PostFilterResult,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
)
from holdfast.framework.rejection import Rejection
from holdfast.framework.reservation_options import ReservationOptions
from holdfast.framework.view import View
from holdfast.framework.world import World
from holdfast.plugins.reservation import diagnosis, eviction_rules, pre_allocation
from holdfast.plugins.reservation.arguments import read_args
from holdfast.plugins.reservation.current_owner import (
    INVALID_OWNERS,
    NOT_ACTING,
    clear_current_owner,
    write_current_owner,
)
from holdfast.plugins.reservation.nomination import (
    allocation_annotations,
    nominate_assumed,
    split_request,
    why_none_nominated,
)
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.owner_results import results_of
from holdfast.plugins.reservation.pre_allocation import PreAllocationState, prepare_pre_allocation
from holdfast.plugins.reservation.preemptors import reservation_for_preemptor
from holdfast.plugins.reservation.reserve_pods import (
    ReserveState,
    UnrelatedState,
    advice,
    bind_reservation,
    filter_reserve_pod,
    placement_key,
)
from holdfast.plugins.reservation.row_fit import fit_row
from holdfast.plugins.reservation.row_reasons import NO_MATCH, count_reasons, owner_reasons

AnyState = OwnerState | ReserveState | PreAllocationState | UnrelatedState


class ReservationPlugin:
    """Keeps reserved resources for owners."""

    name: ClassVar[str] = "Reservation"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.DOMAIN,
        epochs=(Epoch.RESERVATIONS, Epoch.NODES, Epoch.CLASSES),
        events_to_register={
            EventResource.NODE: (
                ActionType.ADD,
                ActionType.UPDATE_NODE_ALLOCATABLE,
                ActionType.UPDATE_NODE_LABEL,
            ),
            EventResource.ASSIGNED_POD: (
                ActionType.ADD,
                ActionType.DELETE,
                ActionType.UPDATE_POD_LABEL,
                ActionType.UPDATE_POD_SCALE_DOWN,
            ),
            EventResource.UNSCHEDULABLE_POD: (),
            EventResource.RESERVATION: (),
        },
        reads_outside_spec=True,
        comparable_plans=True,
        accepts_slices=True,
        allocates_reservations=True,
        post_filter_without_plan=True,
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return what decides: the matched reservations, the request and the annotations."""
        annotations = pod.pod.metadata.annotations
        if pod.is_reserve_pod:
            return placement_key(pod, view)
        matched, mistake = view.matched_reservations, owners_mistake(pod.pod)
        if matched is None and not annotations and mistake is None:
            return None
        affinity = annotations.get(names.AFFINITY)
        if matched is None:
            # The requirements of pods that ignore reservations are not read.
            exact = annotations.get(names.EXACT_MATCH)
            if affinity is None and exact is None and mistake is None:
                return None
            return (affinity, exact, ignores_reservations(pod), mistake)
        where = None if affinity is None else required_nodes(pod.pod)
        return (matched.key, pod.request, affinity, pod.host_ports, where)

    def pre_filter(
        self, pod: PodInfo, view: View
    ) -> AnyState | PreFilterState | PreFilterResult | Skip | Reject:
        """Prepare the state of a reserve pod, of an owner, or of a pod that is neither."""
        if pod.is_reserve_pod:
            return prepare_pre_allocation(pod, view, self.args.pre_allocation_config)
        try:
            affinity = (
                None if ignores_reservations(pod) else ReservationRequirements.of(pod).affinity
            )
        except BadRequest as wrong:
            return Reject(Code.ERROR, (str(wrong),))
        matched = view.matched_reservations
        if not isinstance(matched, ReservationMatch):
            if affinity is not None:
                return Reject(Code.UNRESOLVABLE, (NO_MATCH,))
            mistake = owners_mistake(pod.pod)
            if mistake == "":
                return ReserveState(view.nodes, view.world.reservations, "", ACTING_POLICY)
            return UnrelatedState(view.nodes) if mistake else Skip()
        resources = view.nodes.resources
        # Resources that the configuration leaves to another scheduler are not compared.
        request = tuple(
            [x for x in pod.request if not view.world.ignores_resource(resources[x[0]])]
        )
        ignored = frozenset(r for r, _ in pod.request if self.args.ignores(resources[r]))
        state = OwnerState(
            view.nodes, view.world.reservations, matched, request,
            requires_reservation=affinity is not None,
            named=affinity is not None and bool(affinity.name), ports=pod.host_ports,
            device_backed=view.world.devices.device_backed(pod.request),
            falls_back=self.args.falls_back, ignored=ignored, nominations=view.world.nominations,
        )  # fmt: skip
        # With order labels, the lowest one of the whole cluster decides.
        part = PreFilterState(state, row_scope=not state.ordered)
        if affinity is None:
            return part
        # Reservations on nodes that the node affinity excludes do not count.
        rows = matched.rows
        rows = rows[required_selected(view.nodes, required_nodes(pod.pod), rows)]
        return PreFilterResult(part, rows) if len(rows) else Reject(Code.UNRESOLVABLE, (NO_MATCH,))

    def with_options(self, state: AnyState, options: ReservationOptions) -> AnyState:
        """Consider what other plugins say about an owner's reservations, or pods to take over."""
        if isinstance(state, PreAllocationState):
            return state.with_options(options)
        if isinstance(state, OwnerState) and not state.ignores_reservations:
            return state.with_options(options)
        return state

    def filter(self, state: AnyState, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Filter reserve pods by node name and policy, owners by free and reserved resources."""
        if isinstance(state, UnrelatedState):
            anywhere: Verdicts = np.zeros(state.nodes.capacity, np.int8)[rows]
            return anywhere
        if isinstance(state, ReserveState):
            return filter_reserve_pod(state, rows)
        if isinstance(state, PreAllocationState):
            return pre_allocation.verdicts(state, rows, change)
        verdicts = results_of(state).verdicts[rows]
        if change:
            verdicts = verdicts.copy()
            for position, row in change.positions_in(rows):
                verdicts[position] = self.filter_row(state, row, change)
        return verdicts

    def filter_row(self, state: AnyState, row: int, change: PodChange) -> int:
        """Return the verdict of one row under a change."""
        if not isinstance(state, OwnerState):
            return int(self.filter(state, np.array([row], np.intp), change)[0])
        freed = freed_capacity(state.reservations, change) if change else NOTHING_FREED
        found = fit_row(state, row, freed, change)
        return (
            Code.PASS
            if found is None
            else found.code(requires_reservation=state.requires_reservation)
        )

    def depends_on_pods(self, state: AnyState) -> NDArray[np.bool_]:
        """Return the rows with a matched reservation; all rows for pre-allocation."""
        offered = np.full(state.nodes.capacity, isinstance(state, PreAllocationState), np.bool_)
        if isinstance(state, OwnerState):
            offered[state.match.rows] = True
        return offered

    def reasons(self, state: AnyState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Return what is short on the node, or inside the reservation."""
        assert not isinstance(state, UnrelatedState), "it passes everywhere"
        if isinstance(state, ReserveState):
            return (state.rejection_reason(row),)
        if isinstance(state, PreAllocationState):
            return pre_allocation.reasons(state, row, change)
        return owner_reasons(state, row, change)

    def count_reasons(self, state: AnyState, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of many rows."""
        if isinstance(state, OwnerState):
            return count_reasons(state, rows)
        return Counter(word for row in rows.tolist() for word in self.reasons(state, row))

    def score(self, state: AnyState, rows: AnyRows) -> RawScores:
        """Prefer rows whose reservation the pod fills best, and the lowest order label to all."""
        if isinstance(state, PreAllocationState):
            pre_allocating: RawScores = state.row_results().scores[rows]
            return pre_allocating
        if isinstance(state, ReserveState | UnrelatedState) or state.ignores_reservations:
            nothing: RawScores = np.zeros(state.nodes.capacity)[rows]
            return nothing
        return results_of(state).scores(rows)

    def filter_and_score_row(self, state: AnyState, row: int) -> tuple[int, float]:
        """Return verdict and score of one row."""
        if isinstance(state, OwnerState) and not (state.ordered or state.ignores_reservations):
            return results_of(state).at(row)
        alone = np.array([row], np.intp)
        return int(self.filter(state, alone)[0]), float(self.score(state, alone)[0])

    def normalize_by_range(self, state: Any, raw: Any, low: float, high: float) -> Any:
        """Scale the best row to 100; pre-allocation has its own scale."""
        if isinstance(state, PreAllocationState):
            return pre_allocation.scaled(raw, low)
        if high <= 0:
            return raw
        scaled = raw * 100.0
        scaled /= high
        return np.floor(scaled)

    def post_filter(
        self, _state: AnyState | None, rejection: Rejection, view: View
    ) -> PostFilterResult:
        """Sum up why the pod's reservations do not fit; no pod is evicted here."""
        pod = view.pod
        if pod.is_reserve_pod:
            return PostFilterResult(self.name, advice(pod, view, rejection))
        counts = diagnosis.count_reservations(view.world.reservations, pod, view.nodes)
        requires_reservation = (
            names.AFFINITY in pod.pod.metadata.annotations and not ignores_reservations(pod)
        )
        summary = diagnosis.summary(
            counts,
            diagnosis.reasons_by_row(rejection, counts),
            requires_reservation=requires_reservation,
        )
        if not summary:
            return PostFilterResult(self.name)
        return PostFilterResult(
            self.name,
            ", ".join(summary),
            events=_event(summary, rejection) if requires_reservation else (),
        )

    def preemption_refusal(self, rejection: Rejection) -> str | None:
        """Forbid preemption for reservations unless enabled, and for owners that need only wait."""
        return eviction_rules.why_no_eviction(rejection, enabled=self.args.enable_preemption)

    def protected_victims(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """Spare the pods that are protected from preemption by reservations."""
        return eviction_rules.is_protected if pod.is_reserve_pod else None

    def calls_before_eviction(
        self, pod: PodInfo, node: str, world: World, now: float
    ) -> Sequence[ApiCall]:
        """Create a reservation for a preempting pod on the node it will be nominated to."""
        enabled = self.args.reserves_for_preemptors
        return reservation_for_preemptor(pod, node, world, now) if enabled else ()

    def reserve(self, state: AnyState, placement: Placement) -> Reject | None:
        """Allocate the owner's request from its reservations; mark a reserve pod as being bound."""
        if mistake := owners_mistake(placement.pod.pod):
            placement.events.append((INVALID_OWNERS, f"{mistake}: {NOT_ACTING}"))
        if isinstance(state, PreAllocationState):
            result = state.decide(placement.row)
            if result.shortfall and state.awaits_binding(placement.row, placement.pod.uid):
                state.reservations.awaiting_binds[placement.pod.uid] = placement.node
                return Reject(Code.UNSCHEDULABLE, (pre_allocation.PODS_BEING_BOUND,))
            state.reservations.awaiting_binds.pop(placement.pod.uid, None)
            state.reservations.pre_allocate(result.pods, placement.pod.uid, placement.node)
            placement.pre_allocated = result.pods
            state = state.reserve_state
        if isinstance(state, ReserveState):
            uid, default = placement.pod.uid, state.policy == ""
            state.reservations.being_bound[uid] = (placement.row, default)
            return None
        if isinstance(state, UnrelatedState) or state.ignores_reservations:
            return None
        chosen, others = nominate_assumed(state, placement.pod, placement.row)
        if chosen is None:
            if state.requires_reservation:
                return Reject(Code.UNSCHEDULABLE, (why_none_nominated(state, placement.row),))
            return None
        identified = state.identified(placement.row) if others else frozenset[int]()
        allocations = split_request(placement.pod, chosen, others, identified)
        state.reservations.allocate(placement.pod.uid, allocations)
        placement.annotations.update(
            allocation_annotations(state, placement.pod, chosen, allocations)
        )
        placement.reservation = chosen.uid
        return None

    def unreserve(self, state: AnyState, placement: Placement) -> None:
        """Release the allocation, unless the pod is confirmed on a node.

        What a confirmed pod allocates was read from its annotations.
        """
        uid = placement.pod.uid
        if isinstance(state, UnrelatedState):
            return
        if isinstance(state, ReserveState | PreAllocationState):
            state.reservations.being_bound.pop(uid, None)
            state.reservations.cancel_pre_allocation(uid)
        elif state.nodes.is_assumed(uid) or state.nodes.pod(uid) is None:
            state.reservations.deallocate(uid)

    def pre_bind_pre_flight(self, state: AnyState, placement: Placement) -> bool:
        """Return whether a pod acts as the reservation: then its current owner is written."""
        return _acting_pod(state, placement) is not None

    def pre_bind(self, state: AnyState, placement: Placement) -> ApiCalls:
        """Write the pod as current owner on the one that acts as its reservation."""
        acting = _acting_pod(state, placement)
        if acting is not None:
            yield from write_current_owner(acting, placement.pod)

    def undo_pre_bind(self, state: AnyState, placement: Placement) -> ApiCalls:
        """Remove the current owner again."""
        acting = _acting_pod(state, placement)
        if acting is not None:
            yield from clear_current_owner(acting, placement.pod)

    def bind(self, state: AnyState | None, placement: Placement) -> ApiCalls | Skip:
        """Bind reserve pods by writing their status; other pods are left to the next binder."""
        if not placement.pod.is_reserve_pod:
            return Skip()
        result = state.chosen if isinstance(state, PreAllocationState) else None
        return bind_reservation(placement, result)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Requeue when resources become free, or the pod, a reservation or a node changes.

        A pre-allocating reserve pod is also requeued when a pre-allocatable pod is bound.
        """
        if event.resource == EventResource.UNSCHEDULABLE_POD:
            return event.new is not None and bool(event.new.uid == pod.uid)
        if event.resource == EventResource.ASSIGNED_POD and event.action in (
            ActionType.ADD,
            ActionType.UPDATE_POD_LABEL,
        ):
            config = self.args.pre_allocation_config
            return pre_allocation.may_be_pre_allocated(pod, event, view, config)
        return self.traits.registers(event)


def _acting_pod(state: AnyState, placement: Placement) -> ReservationInfo | None:
    if not placement.reservation or not isinstance(state, OwnerState):
        return None
    info = state.reservations.by_uid.get(placement.reservation)
    return info if info is not None and info.reservation.is_pod else None


def _event(summary: list[str], rejection: Rejection) -> tuple[tuple[str, str], ...]:
    histogram = rejection.histogram() if rejection.pre_filter_reject is None else {}
    return ((diagnosis.EVENT, diagnosis.event_message(summary, histogram)),)
