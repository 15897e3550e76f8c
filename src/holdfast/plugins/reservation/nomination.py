"""Which offers an owner takes on a row, what it draws from each, and how that is written on it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.api import reservation_names as names
from holdfast.capacity.held_room import NOTHING, given_back
from holdfast.capacity.offer import Offer
from holdfast.columns.interner import CPU, PODS
from holdfast.columns.pod_info import PodInfo
from holdfast.framework.plugin import NO_CHANGE, PodChange
from holdfast.plugins.reservation.diagnosis import NO_MATCH, NONE_MEETS, none_matchable
from holdfast.plugins.reservation.one_row import OneRow, judge
from holdfast.plugins.reservation.owner import OwnerState

_NO_ORDER = 2**63
"""After every label there can be."""
TAKEN = "reservation has allocateOnce enabled and has already been allocated"
Draws = dict[str, dict[int, int]]
_SAYING = (names.ALLOCATED, names.DRAWS)


def take(state: OwnerState, pod: PodInfo, row: int) -> tuple[Offer | None, list[Offer]]:
    """Choose for an owner that is assumed on its row: of equals none that another was promised."""
    # It must not count against itself.
    without = {row: (pod,)}
    beside = state.nominations.ahead_of(pod, row) if state.nominations else None
    if beside:
        found = nominate(state, row, PodChange({row: tuple(beside.values())}, without))
        if found[0] is not None:
            return found
    before = state.kept.before(row) if state.kept is not None else None
    if before is not None:
        return choose(state, before)
    return nominate(state, row, PodChange(removed=without))


def nominate(
    state: OwnerState, row: int, change: PodChange = NO_CHANGE
) -> tuple[Offer | None, list[Offer]]:
    """Choose the offer an owner takes on a row, and the others it may draw on, in order."""
    found = judge(state, row, given_back(state.offers, change) if change else NOTHING)
    return choose(state, found)


def choose(state: OwnerState, found: OneRow | None) -> tuple[Offer | None, list[Offer]]:
    """Choose among the offers of a row that was judged.

    Lowest order label first; without labels the highest score; then the oldest, then by name.
    """
    serving = found.nominable if found is not None else []
    if found is None or not serving:
        return None, []

    def rank(offer: Offer) -> tuple[int, int, tuple[float, str]]:
        score = 0 if offer.order else -found.scores[offer.slot]
        return (offer.order or _NO_ORDER, score, _age(offer))

    chosen = min(serving, key=rank) if len(serving) > 1 else serving[0]
    if chosen.policy != "":
        return chosen, []
    beside = [offer for offer in found.sharing if offer.policy == "" and offer is not chosen]
    return chosen, sorted(beside, key=lambda offer: (offer.order or _NO_ORDER, _age(offer)))


def _age(offer: Offer) -> tuple[float, str]:
    return offer.created, offer.reservation.name


def why_none(state: OwnerState, row: int) -> str:
    """Why no offer can be nominated on a row."""
    here = state.on_row(row)
    if here is None:
        return NO_MATCH
    return TAKEN if none_matchable(state, row) else NONE_MEETS


def draw(pod: PodInfo, chosen: Offer, others: list[Offer]) -> Draws:
    """Split the request over the offers: the nominated one first, what is left over to it too.

    The pod slot is the nominated one's. An offer may give no more than a host port.
    """
    request, ports = dict(pod.request), pod.host_ports
    if not others:
        return {chosen.uid: {**request, PODS: 1}}
    draws: Draws = {}
    for offer in (chosen, *others):
        taken = {r: min(wanted, offer.left(r)) for r, wanted in request.items()}
        taken = {r: amount for r, amount in taken.items() if amount > 0}
        if taken or ports & offer.pod_info.host_ports:
            draws[offer.uid] = taken
        request = {r: wanted - taken.get(r, 0) for r, wanted in request.items()}
        ports -= offer.pod_info.host_ports
    rest = draws.setdefault(chosen.uid, {})
    for resource, wanted in request.items():
        if wanted:
            rest[resource] = rest.get(resource, 0) + wanted
    rest[PODS] = 1
    return draws


def notes(
    state: OwnerState, pod: PodInfo, chosen: Offer, draws: Mapping[str, Mapping[int, int]]
) -> dict[str, str]:
    """Name the nominated offer on the pod; with several, also what was drawn from each.

    A restart rebuilds the ledger from these and nothing else, so what the pod came with (copied
    from another pod, perhaps) is written over.
    """
    allocated = {"name": chosen.reservation.name, "uid": chosen.uid}
    written = {names.ALLOCATED: msgspec.json.encode(allocated).decode()}
    if len(draws) > 1 or names.DRAWS in pod.pod.metadata.annotations:
        listed = [
            {
                "name": state.offers.by_uid[uid].reservation.name,
                "uid": uid,
                "resources": {
                    state.nodes.resources[r]: f"{a}m" if r == CPU else str(a)
                    for r, a in amounts.items()
                    if r != PODS
                },
            }
            for uid, amounts in draws.items()
        ]
        written[names.DRAWS] = msgspec.json.encode(listed).decode()
    return written


def claims(pod: PodInfo) -> bool:
    """Whether a pod says it draws on a reservation before it was given any."""
    return any(pod.pod.metadata.annotations.get(key) for key in _SAYING)


def unsaid(pod: PodInfo) -> dict[str, str]:
    """What to write on a pod that draws on nothing, so that it does not say it does.

    A Binding can overwrite an annotation but not remove it.
    """
    return {key: "" for key in _SAYING if pod.pod.metadata.annotations.get(key)}
