"""The plugin itself: it chooses the plan for the kind of pod."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from holdfast.api import reservation_names as names
from holdfast.api.node_selection import required_nodes
from holdfast.runtime.errors import BadRequest
from holdfast.runtime.settings import ReservationSettings
from holdfast.scheduling.framework.events import ActionType, EventResource
from holdfast.scheduling.framework.plugin import (
    ApiCall,
    ApiCalls,
    ClusterEvent,
    Code,
    Placement,
    Plugin,
    PostFilterResult,
    Reject,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.rejection import Rejection
from holdfast.scheduling.framework.view import View
from holdfast.scheduling.framework.world import World
from holdfast.scheduling.plugins.reservation import diagnosis
from holdfast.scheduling.plugins.reservation.arguments import read_args
from holdfast.scheduling.plugins.reservation.owner_plan import OwnerPlan, prepare_owner
from holdfast.scheduling.plugins.reservation.pre_allocation import (
    PreAllocationPlan,
    may_be_pre_allocated,
    prepare_pre_allocation,
)
from holdfast.scheduling.plugins.reservation.preemptors import reservation_for_preemptor
from holdfast.scheduling.plugins.reservation.reserve_pods import (
    ActingPodPlan,
    InvalidOwnersEvent,
    ReservePodPlan,
    advice,
    bind_reservation,
    placement_key,
)
from holdfast.scheduling.plugins.reservation.row_reasons import NO_MATCH
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.reservations.matching import (
    ReservationMatch,
    ReservationRequirements,
    ignores_reservations,
)
from holdfast.state.reservations.operating_pods import ACTING_POLICY, owners_mistake


class ReservationPlugin(Plugin):
    """Keeps reserved resources for owners."""

    name = "Reservation"
    traits = Traits(
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
    plan_classes = (OwnerPlan, ReservePodPlan, PreAllocationPlan, ActingPodPlan, InvalidOwnersEvent)

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})

    @property
    def controller_settings(self) -> ReservationSettings:
        """The settings of the reservation controller."""
        return self.args.controller_settings

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return all that is read: the matched reservations, the request and the annotations."""
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
    ) -> OwnerPlan | ActingPodPlan | InvalidOwnersEvent | Skip | Reject:
        """Return the plan for a reserve pod, an owner or a pod that acts as a reservation."""
        if pod.is_reserve_pod:
            return prepare_pre_allocation(pod, view, self.args)
        try:
            affinity = (
                None if ignores_reservations(pod) else ReservationRequirements.of(pod).affinity
            )
        except BadRequest as wrong:
            return Reject(Code.ERROR, (str(wrong),))
        matched = view.matched_reservations
        if isinstance(matched, ReservationMatch):
            return prepare_owner(view, matched, affinity, self.args)
        if affinity is not None:
            return Reject(Code.UNRESOLVABLE, (NO_MATCH,))
        mistake = owners_mistake(pod.pod)
        if mistake == "":
            return ActingPodPlan(view.nodes, view.world.reservations, "", ACTING_POLICY)
        return InvalidOwnersEvent() if mistake else Skip()

    def post_filter(self, rejection: Rejection, view: View) -> PostFilterResult:
        """Sum up why the pod's reservations do not fit; no pod is evicted here."""
        pod = view.pod
        if pod.is_reserve_pod:
            return PostFilterResult(self.name, advice(pod, view, rejection))
        counts = diagnosis.count_reservations(view.world.reservations, pod, view.nodes)
        requires_reservation = (
            names.AFFINITY in pod.pod.metadata.annotations and not ignores_reservations(pod)
        )
        reasons = diagnosis.reasons_by_row(rejection, counts)
        summary = diagnosis.summary(counts, reasons, requires_reservation=requires_reservation)
        events = _event(summary, rejection) if summary and requires_reservation else ()
        return PostFilterResult(self.name, ", ".join(summary), events=events)

    def calls_before_eviction(
        self, pod: PodInfo, node: str, world: World, now: float
    ) -> Sequence[ApiCall]:
        """Create a reservation for a preempting pod on the node it will be nominated to."""
        enabled = self.args.reserves_for_preemptors
        return reservation_for_preemptor(pod, node, world, now) if enabled else ()

    def bind(self, placement: Placement) -> ApiCalls | Skip:
        """Bind reserve pods by writing their status; other pods are left to the next binder."""
        if not placement.pod.is_reserve_pod:
            return Skip()
        plan = placement.plans.get(self.name)
        chosen = plan.chosen if isinstance(plan, PreAllocationPlan) else None
        return bind_reservation(placement, chosen)

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
            return may_be_pre_allocated(pod, event, view, self.args.pre_allocation_config)
        return self.traits.registers(event)


def _event(summary: list[str], rejection: Rejection) -> tuple[tuple[str, str], ...]:
    histogram = rejection.histogram() if rejection.pre_filter_reject is None else {}
    return ((diagnosis.EVENT, diagnosis.event_message(summary, histogram)),)
