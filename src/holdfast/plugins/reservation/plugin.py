"""The plugin itself: which of its two sorts of pods this is, and what each point answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.api import reservation_names as names
from holdfast.api.node_selection import required_nodes
from holdfast.capacity.held_room import NOTHING, given_back
from holdfast.capacity.matching import OfferMatch, ReservationWishes, ignores
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.selection import required_selected
from holdfast.errors import BadRequest
from holdfast.framework.plugin import (
    NO_CHANGE,
    AnyRows,
    ApiCalls,
    ClusterEvent,
    Code,
    Placement,
    PodChange,
    PostFilterResult,
    PreFilterResult,
    PreFilterState,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Traits,
    Verdicts,
    is_registered_for,
)
from holdfast.framework.rejection import Rejection
from holdfast.framework.view import View
from holdfast.plugins.reservation import diagnosis, evicting, inheriting
from holdfast.plugins.reservation.arguments import read_args
from holdfast.plugins.reservation.diagnosis import NO_MATCH, owner_reasons, tallied
from holdfast.plugins.reservation.inheriting import InheritState, prepare_heir
from holdfast.plugins.reservation.kept import kept_of
from holdfast.plugins.reservation.nomination import claims, draw, notes, take, unsaid, why_none
from holdfast.plugins.reservation.one_row import judge
from holdfast.plugins.reservation.owner import OwnerState
from holdfast.plugins.reservation.reserve_pods import (
    ReserveState,
    Unrelated,
    bind_reservation,
    filter_reserve_pod,
    remedy,
    what_it_brings,
)

AnyState = OwnerState | ReserveState | InheritState | Unrelated


class ReservationPlugin:
    """Holds room for owners and keeps everybody else out."""

    name: ClassVar[str] = "Reservation"
    traits: ClassVar[Traits] = Traits(
        scope=Scope.DOMAIN,
        epochs=("reservations", "nodes", "classes"),
        events_to_register={
            "Node": ("Add", "UpdateNodeAllocatable", "UpdateNodeLabel"),
            "AssignedPod": ("Add", "Delete", "UpdatePodLabel", "UpdatePodScaleDown"),
            "UnschedulablePod": (),
            "Reservation": (),
        },
        reads_outside_spec=True,
        comparable_states=True,
        accepts_slices=True,
        allocates_reservations=True,
        post_filter_without_state=True,
    )

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self.args = read_args(args or {})

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Which offers match, what is asked for, and what the annotations demand."""
        notes = pod.pod.metadata.annotations
        if pod.is_reserve_pod:
            return what_it_brings(pod, view)
        matched = view.matched_reservations
        if matched is None and not notes:
            return None
        affinity = notes.get(names.AFFINITY)
        if matched is None:
            # Of those that ignore reservations, no wish is read.
            said, exact = claims(pod), notes.get(names.EXACT_MATCH)
            if not said and affinity is None and exact is None:
                return None
            return (affinity, exact, ignores(pod), said)
        where = None if affinity is None else required_nodes(pod.pod)
        return (matched.key, pod.request, affinity, pod.host_ports, where)

    def pre_filter(
        self, pod: PodInfo, view: View
    ) -> AnyState | PreFilterState | PreFilterResult | Skip | Reject:
        """Tell reserve pods, owners and everybody else apart."""
        if pod.is_reserve_pod:
            return prepare_heir(pod, view, self.args.pre_allocation_config)
        try:
            affinity = None if ignores(pod) else ReservationWishes.of(pod).affinity
        except BadRequest as wrong:
            return Reject(Code.ERROR, (str(wrong),))
        matched = view.matched_reservations
        if not isinstance(matched, OfferMatch):
            if affinity is not None:
                return Reject(Code.UNRESOLVABLE, (NO_MATCH,))
            return Unrelated(view.nodes) if claims(pod) else Skip()
        resources = view.nodes.resources
        # What somebody else counts is not looked for on any node, with offers or without.
        request = tuple(
            [x for x in pod.request if not view.world.ignores_resource(resources[x[0]])]
        )
        ignored = frozenset(r for r, _ in pod.request if self.args.ignores(resources[r]))
        state = OwnerState(
            view.nodes, view.world.offers, matched, request, must=affinity is not None,
            named=affinity is not None and bool(affinity.name), ports=pod.host_ports,
            device_backed=view.world.devices.device_backed(pod.request),
            falls_back=self.args.falls_back, ignored=ignored, nominations=view.world.nominations,
        )  # fmt: skip
        # Where order labels count, the lowest of the whole cluster decides.
        part = PreFilterState(state, row_scope=not state.ordered)
        if affinity is None:
            return part
        # Reservations on nodes the pod may not go to are none of its.
        rows = matched.rows
        rows = rows[required_selected(view.nodes, required_nodes(pod.pod), rows)]
        return PreFilterResult(part, rows) if len(rows) else Reject(Code.UNRESOLVABLE, (NO_MATCH,))

    def filter(self, state: AnyState, rows: AnyRows, change: PodChange = NO_CHANGE) -> Verdicts:
        """Answer for reserve pods by pin and policy, for owners by free room and offers."""
        if isinstance(state, Unrelated):
            anywhere: Verdicts = np.zeros(state.nodes.capacity, np.int8)[rows]
            return anywhere
        if isinstance(state, ReserveState):
            return filter_reserve_pod(state, rows)
        if isinstance(state, InheritState):
            return inheriting.verdicts(state, rows, change)
        verdicts = kept_of(state).verdicts[rows]
        if change:
            verdicts = verdicts.copy()
            for position, row in change.positions_in(rows):
                verdicts[position] = self.filter_row(state, row, change)
        return verdicts

    def filter_row(self, state: AnyState, row: int, change: PodChange) -> int:
        """The same for one row."""
        if not isinstance(state, OwnerState):
            return int(self.filter(state, np.array([row], np.intp), change)[0])
        back = given_back(state.offers, change) if change else NOTHING
        found = judge(state, row, back)
        return Code.PASS if found is None else found.code(must=state.must)

    def depends_on_pods(self, state: AnyState) -> NDArray[np.bool_]:
        """Where the pod has an offer, or hopes for room: it may become free."""
        offered = np.full(state.nodes.capacity, isinstance(state, InheritState), np.bool_)
        if isinstance(state, OwnerState):
            offered[state.match.rows] = True
        return offered

    def reasons(self, state: AnyState, row: int, change: PodChange = NO_CHANGE) -> tuple[str, ...]:
        """Say what is missing: by the node, or inside the reservation."""
        assert not isinstance(state, Unrelated), "it passes everywhere"
        if isinstance(state, ReserveState):
            return (state.verdict(row),)
        if isinstance(state, InheritState):
            return inheriting.reasons(state, row, change)
        return owner_reasons(state, row, change)

    def count_reasons(self, state: AnyState, rows: Rows) -> Mapping[str, int]:
        """Count the reasons of many rows."""
        if isinstance(state, OwnerState):
            return tallied(state, rows)
        return Counter(word for row in rows.tolist() for word in self.reasons(state, row))

    def score(self, state: AnyState, rows: AnyRows) -> RawScores:
        """Prefer rows whose offer the pod fills best; a lowest order label beats any score."""
        if isinstance(state, InheritState):
            inherited: RawScores = state.seen().scores[rows]
            return inherited
        if isinstance(state, ReserveState | Unrelated) or state.ignoring:
            nothing: RawScores = np.zeros(state.nodes.capacity)[rows]
            return nothing
        return kept_of(state).scores(rows)

    def filter_and_score_row(self, state: AnyState, row: int) -> tuple[int, float]:
        """The same for one row."""
        if isinstance(state, OwnerState) and not (state.ordered or state.ignoring):
            return kept_of(state).at(row)
        alone = np.array([row], np.intp)
        return int(self.filter(state, alone)[0]), float(self.score(state, alone)[0])

    def normalize_by_range(self, state: Any, raw: Any, low: float, high: float) -> Any:
        """The best row gets 100; a reservation that inherits has its own scale."""
        if isinstance(state, InheritState):
            return inheriting.scaled(raw, low)
        if high <= 0:
            return raw
        scaled = raw * 100.0
        scaled /= high
        return np.floor(scaled)

    def post_filter(
        self, _state: AnyState | None, rejection: Rejection, view: View
    ) -> PostFilterResult:
        """Sum up what became of the pod's reservations; nothing can be done about it here."""
        pod = view.pod
        if pod.is_reserve_pod:
            return PostFilterResult(self.name, remedy(pod, view, rejection))
        counts = diagnosis.count(view.world.offers, pod, view.nodes)
        must = names.AFFINITY in pod.pod.metadata.annotations and not ignores(pod)
        told = diagnosis.summary(counts, diagnosis.reasons_by_row(rejection, counts), must=must)
        if not told:
            return PostFilterResult(self.name)
        return PostFilterResult(
            self.name, ", ".join(told), events=_event(told, rejection) if must else ()
        )

    def preemption_refusal(self, rejection: Rejection) -> str | None:
        """Reservations evict where that is switched on; owners not while their own room opens."""
        return evicting.why_not(rejection, enabled=self.args.enable_preemption)

    def protected_victims(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """For a reservation nobody is evicted who says that it must not be."""
        return evicting.spared if pod.is_reserve_pod else None

    def reserve(self, state: AnyState, placement: Placement) -> Reject | None:
        """Enter what the owner draws; from here on nobody else can be given the same room."""
        if isinstance(state, InheritState):
            heir = state.decide(placement.row)
            if heir.lacking and state.awaits_binding(placement.row, placement.pod.uid):
                state.offers.awaiting[placement.pod.uid] = placement.node
                return Reject(Code.UNSCHEDULABLE, (inheriting.UNSEEN,))
            state.offers.awaiting.pop(placement.pod.uid, None)
            state.offers.bequeath(heir.pods, placement.pod.uid, placement.node)
            state = state.site
        if isinstance(state, ReserveState):
            uid, default = placement.pod.uid, state.policy == ""
            state.offers.placing[uid] = (placement.row, default)
            return None
        if isinstance(state, Unrelated) or state.ignoring:
            placement.annotations.update(unsaid(placement.pod))
            return None
        chosen, others = take(state, placement.pod, placement.row)
        if chosen is None:
            if state.must:
                return Reject(Code.UNSCHEDULABLE, (why_none(state, placement.row),))
            placement.annotations.update(unsaid(placement.pod))
            return None
        draws = draw(placement.pod, chosen, others)
        state.offers.assign(placement.pod.uid, draws)
        placement.annotations.update(notes(state, placement.pod, chosen, draws))
        return None

    def unreserve(self, state: AnyState, placement: Placement) -> None:
        """Give the draw back, unless news came that the pod is on a node after all.

        What such a pod draws was read off the pod itself.
        """
        uid = placement.pod.uid
        if isinstance(state, Unrelated):
            return
        if isinstance(state, ReserveState | InheritState):
            state.offers.placing.pop(uid, None)
            state.offers.disinherit(uid)
        elif state.nodes.is_assumed(uid) or state.nodes.pod(uid) is None:
            state.offers.withdraw(uid)

    def bind(self, state: AnyState | None, placement: Placement) -> ApiCalls | Skip:
        """Bind reserve pods by their status; ordinary pods are the next binder's."""
        if not placement.pod.is_reserve_pod:
            return Skip()
        heir = state.chosen if isinstance(state, InheritState) else None
        return bind_reservation(placement, heir)

    def queueing_hint(self, event: ClusterEvent, pod: PodInfo, view: View) -> bool:
        """Room that comes back, a reservation or a node that comes or changes, the pod itself.

        Who inherits hopes for pods that may leave it something, too.
        """
        if event.resource == "UnschedulablePod":
            return event.new is not None and bool(event.new.uid == pod.uid)
        if event.resource == "AssignedPod" and event.action in ("Add", "UpdatePodLabel"):
            ways = self.args.pre_allocation_config
            return inheriting.may_leave_it_room(pod, event, view, ways)
        return is_registered_for(self, event)


def _event(told: list[str], rejection: Rejection) -> tuple[tuple[str, str], ...]:
    histogram = rejection.histogram() if rejection.pre_filter_reject is None else {}
    return ((diagnosis.EVENT, diagnosis.event_of(told, histogram)),)
