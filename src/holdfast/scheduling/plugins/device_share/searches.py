"""Searches for devices: one for each request and state, which nodes of equal state share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.runtime.errors import BadRequest
from holdfast.scheduling.framework.plugin import Code
from holdfast.scheduling.plugins.device_share.arguments import DeviceShareArgs
from holdfast.state.columns.interner import PODS, ResourceNames
from holdfast.state.columns.pod_info import PodInfo
from holdfast.state.device_share.allocations import UNUSED, AllocationsByType, DeviceUse, use_of
from holdfast.state.device_share.candidates import DeviceOffer, DeviceRejection, restriction_of
from holdfast.state.device_share.choosing import choose_devices, node_rejection
from holdfast.state.device_share.ledger import NO_DEVICE, DeviceShareLedger
from holdfast.state.device_share.node_devices import NodeDeviceState
from holdfast.state.device_share.pod_devices import RequestedDevices, pod_devices
from holdfast.state.device_share.requests import is_of_devices
from holdfast.state.device_share.scoring import score_node
from holdfast.state.numa.trial import OF_RESERVATION

Ints = NDArray[np.int64]
_MOST_RESULTS, _MOST_CASES = 20_000, 100_000


def asks_for_devices(pod: PodInfo, resources: ResourceNames) -> bool:
    """Return whether a pod requests any resource of devices; cheap for pods that do not."""
    request = pod.request
    if not request or request[-1][0] <= PODS:
        return False
    return any([is_of_devices(resources[id_]) for id_, _ in request])


class StateResult(NamedTuple):
    """The result for one state: a verdict, the reasons of a rejection or the devices, a score."""

    code: int
    reasons: tuple[str, ...] = ()
    allocations: AllocationsByType | None = None
    score: int = 0


NOTHING_TO_DO = StateResult(Code.PASS)
"""The result on a node without a Device: its device plugin decides."""


def asked_by(
    pod: PodInfo, resources: ResourceNames, served: Collection[int] = ()
) -> RequestedDevices | StateResult:
    """Return what a pod asks of devices, or the result if nothing is to be searched.

    ``served`` are resources of its request that are left to others.
    """
    request = {resources[id_]: amount for id_, amount in pod.request if id_ not in served}
    try:
        return pod_devices(pod.pod, request) or NOTHING_TO_DO
    except BadRequest as wrong:
        return StateResult(Code.UNRESOLVABLE, (str(wrong),))


class Searches:
    """The results for one request, by a state, what a reservation offers, and NUMA nodes."""

    def __init__(
        self,
        ledger: DeviceShareLedger,
        asked: RequestedDevices | StateResult,
        args: DeviceShareArgs,
    ) -> None:
        self._ledger = ledger
        self._args = args
        self.asked = asked
        self._version = ledger.version
        self._found: dict[tuple[int, DeviceOffer | None, int | None], StateResult] = {}

    def of(
        self, signature: int, offer: DeviceOffer | None = None, numa_nodes: int | None = None
    ) -> StateResult:
        """Return the result for a state, and for an owner of a reservation on that node.

        ``numa_nodes`` is the mask of those to which the devices must belong, None for any.
        """
        asked = self.asked
        if isinstance(asked, StateResult):
            return asked
        if signature == NO_DEVICE:
            return NOTHING_TO_DO
        if self._version != self._ledger.version or len(self._found) > _MOST_RESULTS:
            self._version = self._ledger.version
            self._found.clear()
        key = (signature, offer, numa_nodes)
        result = self._found.get(key)
        if result is None:
            state = self._ledger.state(signature)
            result = self._found[key] = self._search(asked, state, offer, numa_nodes)
        return result

    def use_by(
        self, asked: RequestedDevices, signature: int, offer: DeviceOffer | None
    ) -> DeviceUse:
        """Return what another pod would use of the devices in a state; nothing if it finds none."""
        if signature == NO_DEVICE:
            return UNUSED
        state = self._ledger.state(signature)
        chosen = choose_devices(state, asked, restriction_of(offer, state), self._args.strategy)
        return UNUSED if isinstance(chosen, DeviceRejection) else use_of(chosen)

    def _search(
        self,
        asked: RequestedDevices,
        state: NodeDeviceState,
        offer: DeviceOffer | None,
        numa_nodes: int | None,
    ) -> StateResult:
        rejection = node_rejection(state.inventory, asked, self._args.unsupported)
        if rejection is not None:
            return _rejected(rejection, None)
        restriction = restriction_of(offer, state)
        if numa_nodes is not None and state.inventory.tells_numa_nodes:
            restriction = replace(restriction, numa_nodes=numa_nodes)
        chosen = choose_devices(state, asked, restriction, self._args.strategy)
        if isinstance(chosen, DeviceRejection):
            return _rejected(chosen, offer)
        if offer is not None and offer.all_of_it and (left := _left_out(offer, chosen)):
            return StateResult(
                Code.UNSCHEDULABLE, tuple(f"Insufficient {kind} devices" for kind in left)
            )
        score = score_node(state, asked, self._args.strategy, restriction)
        return StateResult(Code.PASS, allocations=chosen, score=score)


class CaseResults:
    """Codes and scores by case, the number of a node's state: looked up for all rows at once.

    Dropped when ``version`` changes, because cases got other numbers.
    """

    _complete: tuple[tuple[int, ...], int]
    """The version and the number of states for which all rows have results."""

    def __init__(self) -> None:
        self._start_over(())

    def is_complete(self, version: tuple[int, ...], count: int) -> bool:
        """Return whether all rows had results when there were ``count`` states, or more."""
        return self._complete[0] == version and self._complete[1] >= count

    def set_complete(self, version: tuple[int, ...], count: int) -> None:
        """Note that all rows have results, and how many states there are."""
        self._complete = (version, count)

    def _start_over(self, version: tuple[int, ...]) -> None:
        self._version = version
        self._complete = ((), 0)
        self._cases: Ints = np.zeros(0, np.int64)
        """Ascending; the same positions of the others belong to them."""
        self._codes: NDArray[np.int8] = np.zeros(0, np.int8)
        self._scores: NDArray[np.float64] = np.zeros(0)

    def missing(self, cases: Ints, version: tuple[int, ...]) -> NDArray[np.intp]:
        """Return one position of each case that has no result."""
        if version != self._version or len(self._cases) > max(_MOST_CASES, 2 * len(cases)):
            self._start_over(version)
        unknown: NDArray[np.intp] = (~self._are_known(cases)).nonzero()[0]
        return unknown[np.unique(cases[unknown], return_index=True)[1]]

    def _are_known(self, cases: Ints) -> NDArray[np.bool_]:
        if not len(self._cases):
            return np.zeros(len(cases), np.bool_)
        at = np.searchsorted(self._cases, cases)
        are_known: NDArray[np.bool_] = self._cases[np.minimum(at, len(self._cases) - 1)] == cases
        return are_known

    def add(self, cases: Ints, results: Sequence[StateResult]) -> None:
        """Store the results of cases that had none."""
        self._cases = np.append(self._cases, cases)
        self._codes = np.append(self._codes, np.array([result.code for result in results], np.int8))
        self._scores = np.append(self._scores, [float(result.score) for result in results])
        order = np.argsort(self._cases)
        self._cases, self._codes = self._cases[order], self._codes[order]
        self._scores = self._scores[order]

    def codes(self, cases: Ints) -> NDArray[np.int8]:
        """Return the code of each; all must have results."""
        return self._codes[np.searchsorted(self._cases, cases)]

    def scores(self, cases: Ints) -> NDArray[np.float64]:
        """Return the score of each; all must have results."""
        return self._scores[np.searchsorted(self._cases, cases)]


def _rejected(rejection: DeviceRejection, offer: DeviceOffer | None) -> StateResult:
    code = Code.UNRESOLVABLE if rejection.unresolvable else Code.UNSCHEDULABLE
    if offer is None or offer.all_of_it:
        return StateResult(code, rejection.reasons)
    return StateResult(code, tuple(f"{OF_RESERVATION}{reason}" for reason in rejection.reasons))


def _left_out(offer: DeviceOffer, chosen: AllocationsByType) -> list[str]:
    """Return the types of devices that were chosen in smaller amounts than the pods have."""
    left = offer.remaining.minus(use_of(chosen)).minors()
    return sorted({kind for kind, _ in left if kind in chosen})
