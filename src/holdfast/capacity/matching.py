"""Which offers a pod may draw on: ownership, affinity, taints, exact match, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Taint
from holdfast.api.node_selection import compile_term
from holdfast.api.pod import Pod
from holdfast.api.tolerations import find_untolerated, tolerated
from holdfast.capacity import names
from holdfast.capacity.annotations import ReservationAffinity, affinity_of
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import BadRequest

if TYPE_CHECKING:
    from holdfast.capacity.offers import Offer, Offers

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Match:
    """The offers one pod may draw on.

    ``slots`` are offer slots in the order of their rows, ``rows`` the distinct rows they are on.
    """

    slots: NDArray[np.intp]
    row_of_slot: NDArray[np.intp]
    rows: NDArray[np.intp]

    @property
    def key(self) -> bytes:
        """Equal for two pods exactly if they match the same offers."""
        return self.slots.tobytes()


def match_offers(offers: Offers, facts: PodFacts) -> Match | None:
    """Find the offers the pod may draw on; None when there are none."""
    pod = facts.pod
    if facts.labels.get(names.IGNORED) == "true":
        return None
    owned = offers.owned(pod)
    if not owned:
        return None
    try:
        affinity = affinity_of(pod)
    except BadRequest:
        # The attempt itself says so; here it only means that nothing matches.
        return None
    exact = _exact_names(pod)
    slots = [
        offer.slot
        for offer in owned
        if offers.row_of_offer[offer.slot] >= 0
        and _admits(offers, offer, pod, affinity)
        and _exactly(offers, offer, facts, exact)
    ]
    if not slots:
        return None
    chosen = np.array(slots, np.intp)
    rows = offers.row_of_offer[chosen]
    order = np.lexsort((chosen, rows))
    return Match(chosen[order], rows[order], np.unique(rows))


def _admits(offers: Offers, offer: Offer, pod: Pod, affinity: ReservationAffinity | None) -> bool:
    reservation = offer.reservation
    if affinity is not None and affinity.name:
        # Asking for it by name overrides selectors, taints and unschedulable.
        return affinity.name == reservation.name
    own = affinity.tolerations if affinity else ()
    closed = reservation.spec.unschedulable or reservation.metadata.deletion_timestamp is not None
    if closed and not tolerated(own, _UNSCHEDULABLE):
        return False
    if find_untolerated(reservation.spec.taints, (*own, *pod.spec.tolerations)) is not None:
        return False
    return affinity is None or _selects(affinity, offers.labels_of(offer), reservation.name)


def _selects(affinity: ReservationAffinity, labels: Mapping[str, str], name: str) -> bool:
    if any(labels.get(k) != v for k, v in affinity.reservation_selector.items()):
        return False
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return True
    terms = required.reservation_selector_terms
    return any(compile_term(term).matches(labels, name) for term in terms)


def _exact_names(pod: Pod) -> tuple[str, ...]:
    text = pod.metadata.annotations.get(names.EXACT_MATCH)
    if not text:
        return ()
    try:
        found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        return ()
    return tuple(found.get("resourceNames") or ())


def _exactly(offers: Offers, offer: Offer, facts: PodFacts, wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return True
    request = dict(facts.request)
    ids = [offers.resource_id(name) for name in wanted]
    return all(request.get(r, 0) == offer.reserved.get(r, 0) for r in ids)
