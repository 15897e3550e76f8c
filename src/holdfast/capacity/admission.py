"""Whether an offer takes an owner: what the pod wishes, and what the reservation demands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from holdfast.api.node import Taint
from holdfast.api.node_selection import compile_term
from holdfast.api.reservation import Reservation
from holdfast.api.tolerations import find_untolerated, tolerated
from holdfast.capacity.annotations import ReservationAffinity, affinity_of, exact_match_of
from holdfast.columns.interner import ResourceNames
from holdfast.columns.pod_facts import PodFacts
from holdfast.errors import BadRequest

if TYPE_CHECKING:
    from holdfast.capacity.offers import Offers

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class Wishes(NamedTuple):
    """What a pod asks of the reservation it takes."""

    affinity: ReservationAffinity | None
    exact: tuple[str, ...]

    @classmethod
    def of(cls, facts: PodFacts) -> Wishes:
        """Read them off the pod; raises BadRequest for what cannot be read."""
        return cls(affinity_of(facts.pod), exact_match_of(facts.pod))

    def __bool__(self) -> bool:
        return self.affinity is not None or bool(self.exact)

    @property
    def name(self) -> str:
        """The reservation it asks for by name, or ""."""
        return self.affinity.name if self.affinity is not None else ""


class Ground(Enum):
    """On what ground an owner is refused."""

    NAME = "didn't match the requested reservation name"
    UNSCHEDULABLE = "is unschedulable"
    TAINT = "had untolerated taint"
    AFFINITY = "didn't match affinity rules"
    EXACT = "is not exact matched"


class Refusal(NamedTuple):
    """Why an owner is refused; ``taint`` is the one it does not tolerate."""

    ground: Ground
    taint: Taint | None = None


def refusal(offers: Offers, slot: int, facts: PodFacts, wishes: Wishes) -> Refusal | None:
    """Why an offer does not take one of its owners, the first reason, or None."""
    found = _unwelcome(offers, slot, facts, wishes)
    if found is None and not _exactly(offers, slot, facts, wishes.exact):
        found = Refusal(Ground.EXACT)
    return found


def accepts(
    facts: PodFacts,
    reservation: Reservation,
    node_labels: Mapping[str, str],
    reserved: Mapping[int, int],
    ids: ResourceNames,
) -> bool:
    """Whether a running pod's own wishes let it leave its room to a reservation."""
    try:
        wishes = Wishes.of(facts)
    except BadRequest:
        return False
    affinity = wishes.affinity
    if wishes.name:
        if wishes.name != reservation.name:
            return False
    elif affinity is not None:
        own = (*affinity.tolerations, *facts.pod.spec.tolerations)
        if find_untolerated(reservation.spec.taints, own) is not None:
            return False
        if not _selects(affinity, {**node_labels, **reservation.metadata.labels}, reservation.name):
            return False
    return _agree(facts, reserved, [ids.id(name) for name in wishes.exact])


def _unwelcome(offers: Offers, slot: int, facts: PodFacts, wishes: Wishes) -> Refusal | None:
    offer, affinity = offers.at(slot), wishes.affinity
    reservation = offer.reservation
    if reservation.metadata.deletion_timestamp is not None:
        # On its way out it takes nobody in, not even who asks for it by name.
        return Refusal(Ground.UNSCHEDULABLE)
    if wishes.name:
        # Asking for it by name overrides selectors, taints and unschedulable.
        return None if wishes.name == reservation.name else Refusal(Ground.NAME)
    own = affinity.tolerations if affinity else ()
    if reservation.spec.unschedulable and not tolerated(own, _UNSCHEDULABLE):
        return Refusal(Ground.UNSCHEDULABLE)
    taint = find_untolerated(reservation.spec.taints, (*own, *facts.pod.spec.tolerations))
    if taint is not None:
        return Refusal(Ground.TAINT, taint)
    if affinity is None or _selects(affinity, offers.labels_of(offer), reservation.name):
        return None
    return Refusal(Ground.AFFINITY)


def _selects(affinity: ReservationAffinity, labels: Mapping[str, str], name: str) -> bool:
    if any(labels.get(k) != v for k, v in affinity.reservation_selector.items()):
        return False
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return True
    terms = required.reservation_selector_terms
    return any(compile_term(term).matches(labels, name) for term in terms)


def _exactly(offers: Offers, slot: int, facts: PodFacts, wanted: tuple[str, ...]) -> bool:
    return _agree(facts, offers.at(slot).reserved, [offers.resource_id(name) for name in wanted])


def _agree(facts: PodFacts, reserved: Mapping[int, int], ids: list[int]) -> bool:
    request = dict(facts.request)
    return all(request.get(r, 0) == reserved.get(r, 0) for r in ids)
