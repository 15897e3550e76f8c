"""Who may be evicted for whom where reservations are concerned.

A reservation evicts only where that is switched on. And whoever owns a reservation whose room is
being made already waits for it: evicting others somewhere else would make the same room twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.api import reservation_names as names
from holdfast.capacity.held_room import given_back
from holdfast.capacity.matching import ReservationWishes, ignores, refusal
from holdfast.capacity.offer import Offer
from holdfast.capacity.offers import Offers
from holdfast.columns.interner import PODS
from holdfast.columns.pod_info import PodInfo
from holdfast.columns.request_fit import short_of
from holdfast.errors import BadRequest
from holdfast.framework.plugin import Code, PodChange
from holdfast.framework.rejection import Rejection

OWN_OPENS = "preemption: not eligible due to a reservation for this pod about to become available."


def why_not(rejection: Rejection, *, enabled: bool) -> str | None:
    """Tell why nobody may be evicted for a rejected pod; None if somebody may."""
    pod, view = rejection.pod, rejection.view
    if pod.is_reserve_pod:
        view.nodes.add_selector_keys(frozenset((names.DISABLE_PREEMPTIBLE,)))
        return None if enabled else ""
    opens = any(
        rejection.codes[view.nodes.row_of[offer.node]] == Code.UNSCHEDULABLE
        and opens_for(offer, pod, view.world.offers, rejection)
        for offer in _waiting(pod, view.world.offers)
    )
    return OWN_OPENS if opens else None


def spared(pod: PodInfo) -> bool:
    """Tell whether a pod says that it must not be evicted for a reservation."""
    return pod.labels.get(names.DISABLE_PREEMPTIBLE) == "true"


def opens_for(offer: Offer, pod: PodInfo, offers: Offers, rejection: Rejection) -> bool:
    """Tell whether an offer holds enough for the pod once those who are leaving have left."""
    nodes = rejection.view.nodes
    row = nodes.row_of[offer.node]
    leaving = [other for other in nodes.pods_on(row).values() if other.terminating]
    if offer.draws.keys() - {other.uid for other in leaving}:
        return False
    freed = Counter(given_back(offers, PodChange(removed={row: leaving})).rows.get(row, {}))
    for later in offers.on_row(row):
        if later.waits and (later.created, later.uid) > (offer.created, offer.uid):
            freed.update({**later.top_up, PODS: later.slots})
    request = dict(pod.request)
    held = dict.fromkeys((PODS, *offer.reserved), 0)
    free = {r: nodes.amounts.free_on(row, r) + freed[r] for r in held | request}
    if short_of(held, free):
        return False
    inside = {r: amount - offer.inner.get(r, 0) for r, amount in offer.reserved.items()}
    beside = {r: max(0, amount) for r, amount in free.items() if r not in offer.restricted}
    return not short_of(request, inside, beside)


def _waiting(pod: PodInfo, offers: Offers) -> Iterator[Offer]:
    """The pod's reservations that wait for their room."""
    groups = [] if ignores(pod) else offers.index.owned_by(pod.pod)
    if not groups:
        return
    try:
        wishes = ReservationWishes.of(pod)
    except BadRequest:
        return
    columns = offers.columns
    for group in groups:
        for slot in group.slots[~columns.matchable[group.slots] & (columns.row[group.slots] >= 0)]:
            offer = offers.at(int(slot))
            if offer.waits and refusal(offers, int(slot), pod, wishes) is None:
                yield offer
