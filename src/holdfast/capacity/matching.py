"""Which offers a pod may draw on: ownership, affinity, taints, exact match, in that order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.api.node import Taint
from holdfast.api.node_selection import compile_term
from holdfast.api.pod import Pod
from holdfast.api.tolerations import find_untolerated, tolerated
from holdfast.capacity import names
from holdfast.capacity.annotations import ReservationAffinity, affinity_of, exact_match_of
from holdfast.capacity.owner_index import OwnerGroup
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import BadRequest

if TYPE_CHECKING:
    from holdfast.capacity.offers import Offers

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Match:
    """The offers one pod may draw on, those already taken among them.

    ``slots`` are offer slots in the order of their rows; ``rows`` the distinct rows they are on;
    ``first`` where each row's slots begin; ``at`` each slot's position in ``rows``.
    """

    key: Hashable
    slots: NDArray[np.intp]
    rows: NDArray[np.intp]
    first: NDArray[np.intp]
    at: NDArray[np.intp]


def match_key(groups: Sequence[OwnerGroup], facts: PodFacts) -> Hashable:
    """Everything of a pod that decides which offers of its groups it may draw on."""
    notes = facts.pod.metadata.annotations
    exact = notes.get(names.EXACT_MATCH)
    return (
        tuple([group.number for group in groups]),
        notes.get(names.AFFINITY),
        exact and (exact, facts.request),
        facts.pod.spec.tolerations,
    )


def match_offers(
    offers: Offers, groups: Sequence[OwnerGroup], facts: PodFacts, key: Hashable
) -> Match | None:
    """Find the offers the pod may draw on; None when there are none."""
    slots = np.concatenate([group.slots for group in groups])
    slots = slots[offers.columns.row[slots] >= 0]
    try:
        affinity = affinity_of(facts.pod)
    except BadRequest:
        # The attempt itself says so; here it only means that nothing matches.
        return None
    exact = exact_match_of(facts.pod)
    # Without wishes of the pod's own, only offers that do not welcome everybody must be asked.
    welcome = offers.columns.open[slots] & (affinity is None and not exact)
    kept = [
        slot
        for slot in slots[~welcome]
        if _admits(offers, int(slot), facts.pod, affinity)
        and _exactly(offers, int(slot), facts, exact)
    ]
    return _match(offers, np.concatenate([slots[welcome], np.array(kept, np.intp)]), key)


def _match(offers: Offers, slots: NDArray[np.intp], key: Hashable) -> Match | None:
    if not len(slots):
        return None
    of_slot = offers.columns.row[slots]
    order = np.lexsort((slots, of_slot))
    rows, first, at = np.unique(of_slot[order], return_index=True, return_inverse=True)
    return Match(key, slots[order], rows, first, at)


def _admits(offers: Offers, slot: int, pod: Pod, affinity: ReservationAffinity | None) -> bool:
    offer = offers.at(slot)
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


def _exactly(offers: Offers, slot: int, facts: PodFacts, wanted: tuple[str, ...]) -> bool:
    offer, request = offers.at(slot), dict(facts.request)
    ids = [offers.resource_id(name) for name in wanted]
    return all(request.get(r, 0) == offer.reserved.get(r, 0) for r in ids)
