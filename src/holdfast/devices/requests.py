"""Claims flattened into what the search works through: requests, each with its alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from holdfast.api.devices import (
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
    ResourceClaim,
    SubRequest,
)
from holdfast.api.pod import Toleration
from holdfast.devices.failures import AllocationError
from holdfast.devices.features import Features

MOST_DEVICES = 32
"""How many devices one claim may be given."""
EXACT_COUNT, ALL = "ExactCount", "All"


@dataclass(frozen=True, slots=True)
class Ask:
    """One way to satisfy one request: so many devices (or all) of a class.

    ``index`` numbers the asks of all claims of a pod; ``choice`` is the place among the
    alternatives of its request.
    """

    index: int
    claim: int
    choice: int
    request: str
    sub: str
    device_class: DeviceClass
    mode: str
    count: int
    selectors: tuple[DeviceSelector, ...]
    tolerations: tuple[Toleration, ...]
    capacity: Mapping[str, Any]
    admin: bool

    @property
    def label(self) -> str:
        """How a result names the request: ``request`` or ``request/alternative``."""
        return f"{self.request}/{self.sub}" if self.sub else self.request


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request of a claim and its alternatives in order of preference."""

    claim: int
    asks: tuple[Ask, ...]


def claim_label(claim: ResourceClaim) -> str:
    """How messages name a claim: ``namespace/name``."""
    return claim.key


def flatten(
    claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass], features: Features
) -> tuple[Wanted, ...]:
    """List the requests of all claims in order, or say what makes them impossible to judge."""
    wanted: list[Wanted] = []
    counter = count()
    for number, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            _check_features(claim, request, features)
            bodies: tuple[ExactRequest | SubRequest, ...] = request.first_available
            if not bodies:
                bodies = (request.exactly or ExactRequest(),)
            asks = []
            for choice, body in enumerate(bodies):
                sub = body.name if isinstance(body, SubRequest) else ""
                where = f"claim {claim_label(claim)}, request {sub or request.name}"
                device_class = _checked(where, body, classes, features)
                place = (next(counter), number, choice, request.name, sub)
                asks.append(_ask(place, body, device_class))
            wanted.append(Wanted(number, tuple(asks)))
    return tuple(wanted)


def _check_features(claim: ResourceClaim, request: DeviceRequest, features: Features) -> None:
    where = claim_label(claim)
    if request.first_available and not features.prioritized_list:
        raise AllocationError(
            f"claim {where}, request {request.name}: has subrequests, but the DRAPrioritizedList"
            " feature is disabled"
        )
    if features.consumable_capacity:
        return
    disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    if request.exactly and request.exactly.capacity is not None:
        raise AllocationError(f"claim {where}, request {request.name}: {disabled}")
    for sub in request.first_available:
        if sub.capacity is not None:
            raise AllocationError(f"claim {where}, subrequest {sub.name}: {disabled}")


def _checked(
    where: str,
    body: ExactRequest | SubRequest,
    classes: Mapping[str, DeviceClass],
    features: Features,
) -> DeviceClass:
    """Refuse what we do not understand; answer with the class."""
    for i, selector in enumerate(body.selectors):
        if selector.cel is None:
            raise AllocationError(
                f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)"
            )
    asks_admin = isinstance(body, ExactRequest) and body.admin_access is not None
    if asks_admin and not features.admin_access:
        raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
    if not body.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    device_class = classes.get(body.device_class_name)
    if device_class is None:
        raise AllocationError(
            f"{where}: could not retrieve device class {body.device_class_name}: not found"
        )
    if body.allocation_mode not in (EXACT_COUNT, ALL):
        raise AllocationError(f"{where}: unsupported count mode {body.allocation_mode}")
    return device_class


def _ask(
    place: tuple[int, int, int, str, str], body: ExactRequest | SubRequest, class_: DeviceClass
) -> Ask:
    admin = isinstance(body, ExactRequest) and bool(body.admin_access)
    return Ask(
        *place, class_, body.allocation_mode, body.count, body.selectors, body.tolerations,
        (body.capacity or {}).get("requests") or {}, admin,
    )  # fmt: skip
