"""The devices of a node that can serve a request, and how reservations limit or offer them.

A reservation is never a separate pool of devices here. It only restricts the choice among the
devices of the node: which come first, which are allowed, how much of each. So owners, other pods
and reservations that take over what pods have share one search, and all nodes in the same state
share its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import le
from typing import NamedTuple

from holdfast.api.labels import Selector
from holdfast.api.shared_device import VirtualFunction
from holdfast.state.device_share.allocations import DeviceUse
from holdfast.state.device_share.node_devices import (
    NO_TOPOLOGY,
    LabelPairs,
    NodeDevice,
    NodeDeviceState,
    free_amounts,
)
from holdfast.state.device_share.pod_devices import (
    APPLY_FOR_ALL,
    DEVICE_LEVEL,
    PCIE_LEVEL,
    REQUESTS_AS_COUNT,
    DeviceHint,
    RequestedDevices,
)
from holdfast.state.device_share.requests import DeviceAmounts, SharedDeviceRequest


@dataclass(frozen=True, slots=True)
class DeviceRejection:
    """Why the devices of a node do not serve a pod; ``unresolvable``: no eviction helps."""

    reasons: tuple[str, ...]
    unresolvable: bool = False


@dataclass(frozen=True, slots=True)
class Restriction:
    """The devices that may be chosen, and those to choose first.

    ``preferred`` and ``allowed`` are (type, minor). ``limit`` is how much may be taken of each
    device, nothing of one that is not listed. ``numa_nodes`` is a bit mask. ``functions`` are
    virtual functions to choose first, as (type, minor, bus id): when an owner got the free one with
    the lowest bus id, the function of its reservation stayed unused.
    """

    preferred: frozenset[tuple[str, int]] = frozenset()
    functions: frozenset[tuple[str, int, str]] = frozenset()
    allowed: frozenset[tuple[str, int]] | None = None
    limit: DeviceUse | None = None
    numa_nodes: int | None = None


UNRESTRICTED = Restriction()


@dataclass(slots=True)
class CandidateDevices:
    """The devices of one type that fit; the pod needs ``count`` of them, and ``amounts`` of each.

    ``devices`` and ``free`` are by minor, ascending; ``used`` are minors that are in use.
    """

    kind: str
    count: int
    amounts: DeviceAmounts
    devices: dict[int, NodeDevice]
    free: dict[int, DeviceAmounts]
    vfs: dict[int, VirtualFunction]
    used: set[int]

    def pcies(self, minors: list[int]) -> set[int]:
        """Return the PCIe switches of devices."""
        return {self.devices[minor].pcie for minor in minors} - {NO_TOPOLOGY}


def find_candidates(
    state: NodeDeviceState,
    asked: RequestedDevices,
    request: SharedDeviceRequest,
    restriction: Restriction,
) -> CandidateDevices | DeviceRejection:
    """Return the devices that fit, or why the node can never serve the request."""
    kind, hint = request.type, asked.hint(request.type)
    devices = state.inventory.devices.get(kind, ())
    count, amounts = count_and_amounts(devices, request, hint)
    if not devices or not count:
        return DeviceRejection((f"Insufficient {kind} devices",), unresolvable=True)
    if hint.vf_selector is not None and not any(device.vf_groups for device in devices):
        return DeviceRejection((f"Insufficient {kind} VirtualFunctions",), unresolvable=True)
    used = {minor for of, minor, _ in state.used.amounts if of == kind}
    candidates = CandidateDevices(kind, count, amounts, {}, {}, {}, used)
    for device, free in devices_in_view(state, asked, kind, restriction):
        if not all(map(le, amounts, free)):
            continue
        if hint.vf_selector is not None:
            first = restriction.functions
            function = _virtual_function(state, kind, device, hint.vf_selector, first)
            if function is None:
                continue
            candidates.vfs[device.minor] = function
        candidates.devices[device.minor] = device
        candidates.free[device.minor] = free
    if hint.exclusive == PCIE_LEVEL:
        _keep_unused_pcies(candidates, devices)
    return candidates


def count_and_amounts(
    devices: tuple[NodeDevice, ...], request: SharedDeviceRequest, hint: DeviceHint
) -> tuple[int, DeviceAmounts]:
    """Return how many devices are needed and how much of each, by the strategy of the hint."""
    if request.type == "gpu" or request.count > 1:
        return request.count, request.amounts
    if hint.strategy == APPLY_FOR_ALL:
        selector = hint.selector
        count = sum(selector is None or selector.matches(dict(one.labels)) for one in devices)
        return count, request.amounts
    if hint.strategy == REQUESTS_AS_COUNT:
        return request.amounts[0], (100 if hint.exclusive == DEVICE_LEVEL else 1,)
    return request.count, request.amounts


def devices_in_view(
    state: NodeDeviceState, asked: RequestedDevices, kind: str, restriction: Restriction
) -> Iterator[tuple[NodeDevice, DeviceAmounts]]:
    """Return the devices of a type that may be chosen at all, and how much of each is free."""
    selector, limits = asked.hint(kind).selector, None
    allowed, numa_nodes = restriction.allowed, restriction.numa_nodes
    used = {minor: taken for of, minor, taken in state.used.amounts if of == kind}
    if restriction.limit is not None:
        limits = {minor: most for of, minor, most in restriction.limit.amounts if of == kind}
    for device in state.inventory.devices.get(kind, ()):
        minor, free = device.minor, device.total
        if allowed is not None and (kind, minor) not in allowed:
            continue
        if numa_nodes is not None and not device.numa_nodes & numa_nodes:
            continue
        if selector is not None and not selector.matches(dict(device.labels)):
            continue
        if minor in used:
            free = free_amounts(kind, free, used[minor])
        if limits is not None:
            if minor not in limits:
                continue
            free = tuple(map(min, free, limits[minor]))
        yield device, free


def _virtual_function(
    state: NodeDeviceState,
    kind: str,
    device: NodeDevice,
    selector: Selector,
    first: frozenset[tuple[str, int, str]],
) -> VirtualFunction | None:
    """Return the free virtual function with the lowest bus id, one of ``first`` if possible."""

    def rank(function: VirtualFunction) -> tuple[bool, str]:
        return (kind, device.minor, function.bus_id) not in first, function.bus_id

    functions = [
        function
        for labels, listed in device.vf_groups
        if _matches(selector, labels)
        for function in listed
        if (kind, device.minor, function.bus_id) not in state.used.vfs
    ]
    return min(functions, key=rank, default=None)


def _matches(selector: Selector, labels: LabelPairs) -> bool:
    return selector.matches(dict(labels))


def _keep_unused_pcies(candidates: CandidateDevices, devices: tuple[NodeDevice, ...]) -> None:
    """Remove devices that share their PCIe switch with one of the same type that is in use."""
    busy = {device.pcie for device in devices if device.minor in candidates.used} - {NO_TOPOLOGY}
    for minor, device in list(candidates.devices.items()):
        if device.pcie in busy or minor in candidates.used:
            del candidates.devices[minor]


class DeviceOffer(NamedTuple):
    """What remains of a reservation for an owner.

    The owner gets nothing else of ``restricted`` types. ``all_of_it``: a reservation takes over the
    devices of pods and must get all of them. A pod on a GPU that the reservation cannot have whole
    is therefore not chosen.
    """

    remaining: DeviceUse
    restricted: frozenset[str] = frozenset()
    all_of_it: bool = False


def restriction_of(offer: DeviceOffer | None, state: NodeDeviceState) -> Restriction:
    """Return which devices an owner may take: those of its reservation first, or no others."""
    if offer is None:
        return UNRESTRICTED
    minors = offer.remaining.minors()
    if not offer.restricted:
        return Restriction(minors, offer.remaining.vfs)
    own = offer.remaining.within(frozenset(one for one in minors if one[0] in offer.restricted))
    others = tuple(
        (kind, device.minor, device.total)
        for kind, devices in state.inventory.devices.items()
        if kind not in offer.restricted
        for device in devices
    )
    limit = own.plus(DeviceUse(others))
    return Restriction(minors, offer.remaining.vfs, limit.minors(), limit)
