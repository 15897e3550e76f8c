"""The requests of all claims of a pod as one list, each with its alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from holdfast.api.devices import (
    ALL,
    EXACT_COUNT,
    MAX_ALTERNATIVES,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
    ResourceClaim,
    SubRequest,
)
from holdfast.api.pod import Toleration
from holdfast.state.devices.errors import AllocationError
from holdfast.state.devices.features import Features


def alternative_score(position: int) -> int:
    """Return the score of a subrequest: 8 for the first one of its request, then 7, and so on."""
    return MAX_ALTERNATIVES - position


@dataclass(frozen=True, slots=True)
class RequestAlternative:
    """One way to satisfy a request: the request itself, or one of its subrequests.

    ``index`` numbers the alternatives of all claims of a pod; ``position`` numbers those of a
    request.
    """

    index: int
    claim: int
    position: int
    request_name: str
    subrequest_name: str
    device_class: DeviceClass
    allocation_mode: str
    count: int
    selectors: tuple[DeviceSelector, ...]
    tolerations: tuple[Toleration, ...]
    capacity: Mapping[str, Any]
    admin_access: bool

    @property
    def selector_count(self) -> int:
        """How many selectors a device must match: those of the class and of the request."""
        return len(self.device_class.spec.selectors) + len(self.selectors)

    @property
    def short_label(self) -> str:
        """The name in error messages: the subrequest's if there is one, else the request's."""
        return self.subrequest_name or self.request_name

    @property
    def label(self) -> str:
        """The name in allocation results: ``request`` or ``request/subrequest``."""
        return (
            f"{self.request_name}/{self.subrequest_name}"
            if self.subrequest_name
            else self.request_name
        )


def any_of_class(device_class: DeviceClass) -> RequestAlternative:
    """Return a request for one device of a class, whichever it is."""
    return RequestAlternative(
        index=0,
        claim=0,
        position=0,
        request_name="",
        subrequest_name="",
        device_class=device_class,
        allocation_mode=EXACT_COUNT,
        count=1,
        selectors=(),
        tolerations=(),
        capacity={},
        admin_access=False,
    )


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A request of a claim, with its alternatives in order of preference."""

    claim: int
    alternatives: tuple[RequestAlternative, ...]


def claim_label(claim: ResourceClaim) -> str:
    """Return ``namespace/name`` of a claim, for messages."""
    return claim.key


def flatten_requests(
    claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass], features: Features
) -> tuple[ClaimRequest, ...]:
    """Return the requests of all claims in order; raise AllocationError if one is invalid."""
    requests: list[ClaimRequest] = []
    counter = count()
    for number, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            _check_features(claim, request, features)
            bodies: tuple[ExactRequest | SubRequest, ...] = request.first_available
            if not bodies:
                bodies = (request.exactly or ExactRequest(),)
            alternatives = []
            for position, body in enumerate(bodies):
                sub = body.name if isinstance(body, SubRequest) else ""
                where = f"claim {claim_label(claim)}, request {sub or request.name}"
                device_class = _checked(where, body, classes, features)
                identity = (next(counter), number, position, request.name, sub)
                alternatives.append(_alternative(identity, body, device_class))
            requests.append(ClaimRequest(number, tuple(alternatives)))
    return tuple(requests)


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
    """Validate a request or subrequest and return its device class."""
    for i, selector in enumerate(body.selectors):
        if selector.cel is None:
            raise AllocationError(
                f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)"
            )
    wants_admin_access = isinstance(body, ExactRequest) and body.admin_access is not None
    if wants_admin_access and not features.admin_access:
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
    if body.allocation_mode == EXACT_COUNT and body.count < 0:
        # No API server accepts it; a search for it would try all combinations of devices.
        raise AllocationError(f"{where}: exact count {body.count} is negative")
    return device_class


def _alternative(
    identity: tuple[int, int, int, str, str], body: ExactRequest | SubRequest, class_: DeviceClass
) -> RequestAlternative:
    admin = isinstance(body, ExactRequest) and bool(body.admin_access)
    return RequestAlternative(
        *identity, class_, body.allocation_mode, body.count, body.selectors, body.tolerations,
        (body.capacity or {}).get("requests") or {}, admin,
    )  # fmt: skip
