"""What an owner takes from which offers, and how that is written on the pod."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.capacity import names
from holdfast.capacity.offer import Offer
from holdfast.columns.interner import CPU, PODS
from holdfast.columns.pod_facts import PodFacts
from holdfast.plugins.reservation.owner import OwnerState

Draws = dict[str, dict[int, int]]
_SAYING = (names.ALLOCATED, names.DRAWS)


def draw(pod: PodFacts, chosen: Offer, others: list[Offer]) -> Draws:
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
        if taken or ports & offer.facts.host_ports:
            draws[offer.uid] = taken
        request = {r: wanted - taken.get(r, 0) for r, wanted in request.items()}
        ports -= offer.facts.host_ports
    rest = draws.setdefault(chosen.uid, {})
    for resource, wanted in request.items():
        if wanted:
            rest[resource] = rest.get(resource, 0) + wanted
    rest[PODS] = 1
    return draws


def notes(
    state: OwnerState, pod: PodFacts, chosen: Offer, draws: Mapping[str, Mapping[int, int]]
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


def claims(pod: PodFacts) -> bool:
    """Whether a pod says it draws on a reservation before it was given any."""
    return any(pod.pod.metadata.annotations.get(key) for key in _SAYING)


def unsaid(pod: PodFacts) -> dict[str, str]:
    """What to write on a pod that draws on nothing, so that it does not say it does.

    A Binding can overwrite an annotation but not remove it.
    """
    return {key: "" for key in _SAYING if pod.pod.metadata.annotations.get(key)}
