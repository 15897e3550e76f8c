"""What an owner takes from which offers, and how that is written on the pod."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.capacity import names
from holdfast.capacity.offer import Offer
from holdfast.columns.interner import CPU
from holdfast.columns.pod_facts import PodFacts
from holdfast.plugins.reservation.owner import OwnerState

Draws = dict[str, dict[int, int]]


def draw(pod: PodFacts, chosen: Offer, others: list[Offer]) -> Draws:
    """Split the request over the offers: the nominated one first, what is left over to it too."""
    request = dict(pod.request)
    if not others:
        return {chosen.uid: request}
    draws: Draws = {}
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


def notes(
    state: OwnerState, chosen: Offer, draws: Mapping[str, Mapping[int, int]]
) -> dict[str, str]:
    """Name the nominated offer on the pod; with several, also what was drawn from each.

    A restart rebuilds the ledger from these and nothing else.
    """
    allocated = {"name": chosen.reservation.name, "uid": chosen.uid}
    written = {names.ALLOCATED: msgspec.json.encode(allocated).decode()}
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
        written[names.DRAWS] = msgspec.json.encode(listed).decode()
    return written
