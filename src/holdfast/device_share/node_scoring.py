"""Score a node for a pod by its devices: the sum over the types that the pod requests."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.device_share.candidates import (
    UNRESTRICTED,
    Restriction,
    count_and_amounts,
    devices_in_view,
)
from holdfast.device_share.node_devices import NodeDevices
from holdfast.device_share.pod_devices import PodDevices
from holdfast.device_share.requests import Amounts
from holdfast.device_share.scoring import ScoringStrategy


def score_node(
    state: NodeDevices,
    asked: PodDevices,
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


def _sums(devices: Sequence[Amounts]) -> Amounts:
    return tuple(map(sum, zip(*devices, strict=True)))
