"""I2 and I4, checked: what offers hold and have left, and which pods draw on them.

Added up again from single offers and pods, slowly and obviously, so that a mistake in the columns
cannot hide itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.capacity.offers import Offers
from holdfast.columns.interner import PODS
from holdfast.columns.node_table import NodeTable
from holdfast.columns.pod_info import PodInfo


def held_besides(offers: Offers, row: int) -> Counter[int]:
    """What the offers on a row hold beside what their owners take, by resource."""
    total: Counter[int] = Counter()
    for offer in offers.on_row(row):
        drawn: Counter[int] = sum(map(Counter, offer.draws.values()), Counter())
        slots = offer.reserved.get(PODS, 1) - drawn[PODS]
        total[PODS] += max(slots, offer.inner.get(PODS, 0))
        for resource, reserved in offer.reserved.items():
            if resource != PODS:
                used = drawn[resource]
                total[resource] += max(reserved, used + offer.inner.get(resource, 0)) - used
    return total


def rows_waited_for(offers: Offers, nodes: NodeTable) -> set[int]:
    """Rows where a reservation holds room that is not free yet, or is about to."""
    holding = {nodes.row_of.get(offer.node, -1) for offer in offers if offer.waits}
    coming = {
        row
        for uid, (row, _) in offers.placing.items()
        if uid in offers.pending and offers.pending[uid].spec.pre_allocation
    }
    return holding | coming


def misdrawn(offers: Offers, nodes: NodeTable) -> list[str]:
    """Name every allocate-once offer drawn on twice, and every draw from another node."""
    problems: list[str] = []
    for offer in offers:
        # One that has owners and is Available served several when it was made allocate-once.
        edited = offer.waits or offer.reservation.status.current_owners
        if offer.reservation.spec.allocate_once and len(offer.draws) > 1 and not edited:
            problems.append(f"{offer.reservation.name} is allocate-once, drawn {len(offer.draws)}x")
        for uid in offer.draws:
            standing = nodes.pod(uid)
            if standing is not None and nodes.names[standing[1]] != offer.node:
                problems.append(f"{standing[0].key} draws on {offer.reservation.name} from afar")
    return problems


class OfferAudit:
    """Compares what offers have left before and after an attempt."""

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._uids: list[str] = []
        self._remaining: NDArray[np.int64] = np.zeros((0, 0), np.int64)

    def before(self) -> None:
        """Remember how things are."""
        self._uids = [offer.uid for offer in self._offers]
        self._remaining = self._offers.columns.remaining.copy()

    def after(self, pod: PodInfo | None) -> Iterator[str]:
        """Name offers that have less left, unless the pod that was placed owns and draws on them.

        ``pod`` is None after an attempt that found no node.
        """
        offers = self._offers
        draws = {} if pod is None else offers.draws_of(pod.uid)
        for slot in draws:
            offer = offers.at(slot)
            if pod is not None and not offer.group.owned_by(pod.pod):
                yield f"I4: {pod.key} draws on {offer.reservation.name} and does not own it"
        if [offer.uid for offer in offers] != self._uids:
            yield "I2: an attempt changed which reservations hold room"
            return
        now, then = offers.columns.remaining, self._remaining
        lowered = np.nonzero(now[: len(then), : then.shape[1]] < then)[1]
        for slot in np.unique(lowered):
            if int(slot) not in draws:
                name = offers.at(int(slot)).reservation.name
                who = "an attempt" if pod is None else pod.key
                yield f"I2: {who} lowered what {name} has left, and draws nothing on it"
