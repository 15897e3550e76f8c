"""Score devices and nodes by how much of them is used, and order the devices that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.api.koordinator_names import FPGA, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from holdfast.state.device_share.candidates import (
    UNRESTRICTED,
    CandidateDevices,
    Restriction,
    count_and_amounts,
    devices_in_view,
)
from holdfast.state.device_share.node_devices import NodeDeviceState
from holdfast.state.device_share.pod_devices import RequestedDevices
from holdfast.state.device_share.requests import RESOURCES, DeviceAmounts
from holdfast.state.numa.policy_names import LEAST_ALLOCATED

_MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """A strategy and the weights of the resources that count."""

    type: str = LEAST_ALLOCATED
    weights: tuple[tuple[str, int], ...] = (
        (GPU_MEMORY_RATIO, 1),
        (GPU_MEMORY, 1),
        (RDMA, 1),
        (FPGA, 1),
    )

    def score(
        self, kind: str, request: DeviceAmounts, total: DeviceAmounts, free: DeviceAmounts
    ) -> int:
        """Return 0 to 100 for one device, or for a node by its sums, with the request added.

        >>> ScoringStrategy().score("rdma", (50,), (100,), (100,))
        50
        """
        names, score, weights = RESOURCES[kind], 0, 0
        least = self.type == LEAST_ALLOCATED
        for name, weight in self.weights:
            if name not in names or not total[place := names.index(name)]:
                continue
            capacity = total[place]
            used = min(capacity - free[place] + request[place], capacity)
            score += weight * ((capacity - used if least else used) * _MAX_SCORE // capacity)
            weights += weight
        return score // weights if weights else 0


@dataclass(frozen=True, slots=True)
class Preference:
    """Devices (type, minor) and PCIe switches to prefer; without a strategy all scores are 0."""

    devices: frozenset[tuple[str, int]] = frozenset()
    strategy: ScoringStrategy | None = None
    pcies: frozenset[int] = frozenset()

    def score(self, candidates: CandidateDevices, minor: int) -> int:
        """Return the score of a device for the request."""
        if self.strategy is None:
            return 0
        return self.strategy.score(
            candidates.kind,
            candidates.amounts,
            candidates.devices[minor].total,
            candidates.free[minor],
        )


def best_first(candidates: CandidateDevices, preference: Preference) -> list[int]:
    """Return the minors: preferred ones, one of each preferred PCIe, high scores, low minors."""
    ordered = sorted(candidates.devices, key=lambda minor: -preference.score(candidates, minor))
    if not preference.devices and not preference.pcies:
        return ordered
    rounds: dict[int, int] = {}
    places: dict[int, tuple[bool, int]] = {}
    for minor in ordered:
        pcie = candidates.devices[minor].pcie
        rounds[pcie] = rounds.get(pcie, 0) + 1
        turn = rounds[pcie] if pcie in preference.pcies else len(ordered) + 1
        places[minor] = (candidates.kind, minor) not in preference.devices, turn
    return sorted(ordered, key=places.__getitem__)


def score_node(
    state: NodeDeviceState,
    asked: RequestedDevices,
    strategy: ScoringStrategy,
    restriction: Restriction = UNRESTRICTED,
) -> int:
    """Return the score of all devices that may be chosen, with the request for one of each type."""
    score = 0
    for request in asked.requests:
        kind = request.type
        devices = state.inventory.devices.get(kind, ())
        _, amounts = count_and_amounts(devices, request, asked.hint(kind))
        if seen := list(devices_in_view(state, asked, kind, restriction)):
            totals = _sums([device.total for device, _ in seen])
            score += strategy.score(kind, amounts, totals, _sums([free for _, free in seen]))
    return score


def _sums(devices: Sequence[DeviceAmounts]) -> DeviceAmounts:
    return tuple(map(sum, zip(*devices, strict=True)))
