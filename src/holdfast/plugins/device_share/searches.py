"""Searches for devices: one for each request and state of a node, whoever has that state."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.device_share.allocations import Allocations, DeviceUse
from holdfast.device_share.candidates import UNRESTRICTED, DeviceRejection, Restriction
from holdfast.device_share.choosing import choose_devices, node_rejection
from holdfast.device_share.ledger import NO_DEVICE, DeviceShareLedger
from holdfast.device_share.node_devices import NodeDevices
from holdfast.device_share.pod_devices import PodDevices
from holdfast.device_share.scoring import node_score
from holdfast.framework.plugin import Code
from holdfast.plugins.device_share.arguments import DeviceShareArgs

_MOST_RESULTS = 20_000
RESERVATION_PREFIX = "Reservation(s) "


class Found(NamedTuple):
    """The result for one state: a verdict, the reasons of a rejection or the devices, a score."""

    code: int
    reasons: tuple[str, ...] = ()
    allocations: Allocations | None = None
    score: int = 0


NOTHING_TO_DO = Found(Code.PASS)
"""The result on a node without a Device: its device plugin decides."""


class Offer(NamedTuple):
    """What a reservation has for an owner; ``restricted``: the owner gets nothing else."""

    remaining: DeviceUse
    restricted: bool


class Searches:
    """The results for one request, by the number of a state and what a reservation offers."""

    def __init__(self, ledger: DeviceShareLedger, asked: PodDevices, args: DeviceShareArgs) -> None:
        self._ledger = ledger
        self._args = args
        self.asked = asked
        self._version = ledger.version
        self._found: dict[tuple[int, Offer | None], Found] = {}

    def of(self, signature: int, offer: Offer | None = None) -> Found:
        """Return the result for a state, and for an owner of a reservation on that node."""
        if signature == NO_DEVICE:
            return NOTHING_TO_DO
        if self._version != self._ledger.version or len(self._found) > _MOST_RESULTS:
            self._version = self._ledger.version
            self._found.clear()
        key = (signature, offer)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._search(self._ledger.state(signature), offer)
        return found

    def _search(self, state: NodeDevices, offer: Offer | None) -> Found:
        rejection = node_rejection(state.inventory, self.asked, self._args.unsupported)
        if rejection is not None:
            return _rejected(rejection, None)
        chosen = choose_devices(state, self.asked, restriction_of(offer), self._args.strategy)
        if isinstance(chosen, DeviceRejection):
            return _rejected(chosen, offer)
        return Found(Code.PASS, allocations=chosen, score=self._score(state))

    def _score(self, state: NodeDevices) -> int:
        return sum(
            node_score(
                self._args.strategy,
                request.type,
                request.amounts,
                {d.minor: d.total for d in state.inventory.devices.get(request.type, ())},
                state.free(request.type),
            )
            for request in self.asked.requests
        )


def restriction_of(offer: Offer | None) -> Restriction:
    """Return which devices an owner may take: those of its reservation first, or no others."""
    if offer is None:
        return UNRESTRICTED
    minors = offer.remaining.minors()
    if offer.restricted:
        return Restriction(minors, minors, offer.remaining)
    return Restriction(minors)


def _rejected(rejection: DeviceRejection, offer: Offer | None) -> Found:
    code = Code.UNRESOLVABLE if rejection.unresolvable else Code.UNSCHEDULABLE
    if offer is None:
        return Found(code, rejection.reasons)
    return Found(code, tuple(f"{RESERVATION_PREFIX}{reason}" for reason in rejection.reasons))
