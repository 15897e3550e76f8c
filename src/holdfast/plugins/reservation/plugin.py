"""The plugin itself: which of its two sorts of pods this is, and what each point answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from holdfast.capacity import names
from holdfast.capacity.annotations import affinity_of
from holdfast.capacity.matching import Match
from holdfast.capacity.offers import Offer, Offers
from holdfast.columns.interner import CPU, PODS
from holdfast.columns.picture import Picture
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import BadRequest
from holdfast.framework.plugin import (
    NONE,
    Calls,
    Change,
    ClusterEvent,
    Code,
    Narrow,
    Placement,
    RawScores,
    Reject,
    Rows,
    Scope,
    Skip,
    Verdicts,
)
from holdfast.framework.view import View
from holdfast.plugins.reservation.owner import (
    OwnerState,
    fit,
    free_of,
    make_state,
    nominate,
    offer_scores,
)
from holdfast.plugins.reservation.status import bind_reservation

NO_MATCH = "node(s) no reservations match reservation affinity"
NOT_THE_NODE = "node(s) didn't match the nodeName specified by reservation"
POLICY_CONFLICT = "node(s) reservation allocate policy conflict"
NONE_MEETS = "node(s) no reservation(s) to meet the requirements"


@dataclass(frozen=True, slots=True)
class ReserveState:
    """A reserve pod: the node it is pinned to, and the policy it brings."""

    nodes: Picture
    offers: Offers
    pinned: str
    policy: str

    def verdict(self, row: int) -> str:
        """Why the row will not do, or ""."""
        if self.pinned and self.nodes.names[row] != self.pinned:
            return NOT_THE_NODE
        return POLICY_CONFLICT if row in self.conflicting() else ""

    def conflicting(self) -> set[int]:
        """Rows where exactly one of the new and an existing reservation has the Default policy."""
        return {
            int(self.offers.row_of_offer[offer.slot])
            for offer in self.offers
            if offer.matchable and (offer.policy == "") != (self.policy == "")
        }


class Reservation:
    """Holds room for owners and keeps everybody else out."""

    name: ClassVar[str] = "Reservation"
    scope: ClassVar[Scope] = Scope.DOMAIN
    epochs: ClassVar[tuple[str, ...]] = ("reservations", "nodes")
    beyond_spec: ClassVar[bool] = True

    def __init__(self, args: Mapping[str, Any] | None = None) -> None:
        self._args = dict(args or {})

    def reads(self, pod: PodFacts, view: View) -> Any:
        """Which offers match, what is asked for, and what the annotations demand."""
        notes = pod.pod.metadata.annotations
        if pod.reserve_for:
            return (notes.get(names.RESERVATION_NODE), *_wanted(pod, view))
        matched = view.matched
        affinity = notes.get(names.AFFINITY)
        ignored = pod.labels.get(names.IGNORED) == "true"
        if matched is None:
            return (affinity, ignored) if affinity is not None or ignored else None
        return (matched.key, pod.request, affinity)

    def prepare(self, pod: PodFacts, view: View) -> Any:
        """Tell reserve pods, owners and everybody else apart."""
        if view.world.offers is None:
            return Skip()
        if pod.reserve_for:
            return self._prepare_reserve_pod(pod, view)
        if pod.labels.get(names.IGNORED) == "true":
            return Reject(Code.UNRESOLVABLE, (f"pods labelled {names.IGNORED} are not built yet",))
        try:
            affinity = affinity_of(pod.pod)
        except BadRequest as wrong:
            return Reject(Code.ERROR, (str(wrong),))
        matched = view.matched
        if not isinstance(matched, Match):
            return Skip() if affinity is None else Reject(Code.UNRESOLVABLE, (NO_MATCH,))
        state = make_state(
            view.nodes, view.world.offers, matched, pod.request, must=affinity is not None
        )
        return state if affinity is None else Narrow(state, matched.rows)

    def filter(
        self, state: OwnerState | ReserveState, rows: Rows, change: Change = NONE
    ) -> Verdicts:
        """Answer for reserve pods by pin and policy, for owners by free room and offers."""
        if isinstance(state, ReserveState):
            return _filter_reserve_pod(state, rows)
        verdicts = np.zeros(state.nodes.capacity, np.int8)
        verdicts[state.match.rows] = ~fit(state, change).passes
        found: Verdicts = verdicts[rows]
        return found

    def reasons(
        self, state: OwnerState | ReserveState, row: int, change: Change = NONE
    ) -> tuple[str, ...]:
        """Say what is missing: by the node, or inside the reservation."""
        if isinstance(state, ReserveState):
            return (state.verdict(row),)
        return _owner_reasons(state, row, change)

    def score(self, state: OwnerState | ReserveState, rows: Rows) -> RawScores:
        """Prefer rows whose offer the pod fills best; a lowest order label beats any score."""
        scores = np.zeros(state.nodes.capacity, np.float64)
        if isinstance(state, ReserveState):
            found: RawScores = scores[rows]
            return found
        serves = fit(state).serves
        for_slot = np.where(serves, offer_scores(state), 0)
        np.maximum.at(scores, state.match.row_of_slot, for_slot)
        labelled = serves & (state.order != 0)
        if labelled.any():
            lowest = state.order[labelled].min()
            scores[state.match.row_of_slot[labelled & (state.order == lowest)]] = 1000.0
        found = scores[rows]
        return found

    def scale(self, _state: Any, raw: Any, _low: float, high: float) -> Any:
        """The best row gets 100."""
        return np.floor(100.0 * raw / high) if high > 0 else raw

    def reserve(self, state: OwnerState | ReserveState, placement: Placement) -> Reject | None:
        """Enter what the owner draws; from here on nobody else can be given the same room."""
        if isinstance(state, ReserveState):
            return None
        # The pod is assumed already: it must not count against itself.
        without = Change(removed={placement.row: (placement.pod,)})
        chosen, others = nominate(state, placement.row, without)
        if chosen is None:
            return Reject(Code.UNSCHEDULABLE, (NONE_MEETS,)) if state.must else None
        draws = _draws(placement.pod, chosen, others)
        state.offers.assign(placement.pod.uid, draws)
        placement.annotations.update(_annotations(state, chosen, draws))
        return None

    def unreserve(self, state: OwnerState | ReserveState, placement: Placement) -> None:
        """Give the draw back."""
        if isinstance(state, OwnerState):
            state.offers.withdraw(placement.pod.uid)

    def bind(self, _state: Any, placement: Placement) -> Calls | Skip:
        """Bind reserve pods by their status; ordinary pods are the next binder's."""
        return bind_reservation(placement) if placement.pod.reserve_for else Skip()

    def hint(self, event: ClusterEvent, _pod: PodFacts, _view: View) -> bool:
        """Room that comes back, a reservation or a node that comes or changes."""
        if event.resource == "AssignedPod":
            return event.action in ("Delete", "UpdatePodScaleDown")
        return event.resource == "Reservation" or (
            event.resource == "Node" and event.action in ("Add", "UpdateNodeAllocatable")
        )

    def _prepare_reserve_pod(self, pod: PodFacts, view: View) -> Any:
        policy, refusal = _wanted(pod, view)
        if refusal:
            return Reject(Code.UNRESOLVABLE, (refusal,))
        pinned = pod.pod.metadata.annotations.get(names.RESERVATION_NODE, "")
        return ReserveState(view.nodes, view.world.offers, pinned, policy)


def _wanted(pod: PodFacts, view: View) -> tuple[str, str]:
    """The policy a pending reservation brings, and why it cannot be served yet, or ""."""
    reservation = view.world.offers.pending.get(pod.reserve_for)
    if reservation is None:
        return "", ""
    if reservation.spec.pre_allocation:
        return "", "reservations with preAllocation are not built yet"
    if pod.host_ports:
        return "", "reservations of host ports are not built yet"
    return reservation.spec.allocate_policy, ""


def _filter_reserve_pod(state: ReserveState, rows: Rows) -> Verdicts:
    verdicts = np.zeros(state.nodes.capacity, np.int8)
    if state.pinned:
        verdicts[:] = Code.UNRESOLVABLE
        row = state.nodes.row_of.get(state.pinned)
        if row is not None:
            verdicts[row] = Code.PASS
    if conflicts := state.conflicting() - {-1}:
        verdicts[list(conflicts)] = Code.UNRESOLVABLE
    found: Verdicts = verdicts[rows]
    return found


def _owner_reasons(state: OwnerState, row: int, change: Change) -> tuple[str, ...]:
    found = fit(state, change)
    here = (state.match.row_of_slot == row).nonzero()[0]
    if not found.shares[here].any():
        return _missing_on_node(state, row, help_=False, suffix="")
    words: list[str] = []
    if not found.by_node[here].any():
        words += _missing_on_node(state, row, help_=True, suffix=" by node")
    if not (found.shares & found.inside)[here].any():
        words += _missing_inside(state, here)
    return tuple(dict.fromkeys(words)) or (NONE_MEETS,)


def _missing_on_node(state: OwnerState, row: int, *, help_: bool, suffix: str) -> tuple[str, ...]:
    nodes, offers = state.nodes, state.offers
    slots = state.match.slots[state.match.row_of_slot == row]
    words = []
    slot = int(offers.remaining[PODS, slots].max()) if help_ else 0
    if nodes.requested[PODS, row] + 1 - slot > nodes.allocatable[PODS, row]:
        words.append("Too many pods")
    for resource, wanted in state.request:
        free = int(free_of(nodes, resource, np.array([row]))[0])
        if help_ and resource < offers.remaining.shape[0]:
            left = offers.remaining[resource, slots]
            free += int(left.sum() if state.default.any() else left.max())
        if wanted > free:
            words.append(f"Insufficient {nodes.resources[resource]}{suffix}")
    return tuple(words)


def _missing_inside(state: OwnerState, here: Any) -> list[str]:
    words = []
    for resource, wanted in ((PODS, 1), *state.request):
        for i in here:
            limits = state.restricted[int(i)]
            if limits is None or resource not in limits:
                continue
            if wanted > state.offers.remaining[resource, state.match.slots[int(i)]]:
                name = state.nodes.resources[resource]
                lacks = "Too many pods" if resource == PODS else f"Insufficient {name}"
                words.append(f"Reservation(s) {lacks}")
    return words


def _draws(pod: PodFacts, chosen: Offer, others: list[Offer]) -> dict[str, dict[int, int]]:
    """Split the request over the offers: the nominated one first, what is left over to it too."""
    request = dict(pod.request)
    if not others:
        return {chosen.uid: request}
    draws: dict[str, dict[int, int]] = {}
    for offer in (chosen, *others):
        for resource, wanted in list(request.items()):
            taken = min(wanted, offer.left(resource))
            if taken > 0:
                draws.setdefault(offer.uid, {})[resource] = taken
                request[resource] -= taken
    rest = draws.setdefault(chosen.uid, {})
    for resource, wanted in request.items():
        if wanted:
            rest[resource] = rest.get(resource, 0) + wanted
    return draws


def _annotations(
    state: OwnerState, chosen: Offer, draws: Mapping[str, Mapping[int, int]]
) -> dict[str, str]:
    allocated = {"name": chosen.reservation.name, "uid": chosen.uid}
    notes = {names.ALLOCATED: msgspec.json.encode(allocated).decode()}
    if len(draws) > 1:
        listed = [
            {
                "name": state.offers.by_uid[uid].reservation.name,
                "uid": uid,
                "resources": {
                    state.nodes.resources[r]: f"{a}m" if r == CPU else str(a)
                    for r, a in amounts.items()
                },
            }
            for uid, amounts in draws.items()
        ]
        notes[names.DRAWS] = msgspec.json.encode(listed).decode()
    return notes
