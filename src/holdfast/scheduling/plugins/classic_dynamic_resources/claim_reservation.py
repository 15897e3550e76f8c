"""Reserve the claims of a pod, which drivers have allocated, write their shadows, and bind it.

A kubelet needs the shadows to call the drivers. They follow the reservations: a shadow exists and
is allocated only for a pod that may use its claims. An attempt that fails later leaves it for the
next one; it is deleted with the pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from holdfast.api.classic_dra.shadows import shadow_allocation, shadow_names, shadow_of
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.devices import ResourceClaim, pod_consumer
from holdfast.api.meta import is_controlled_by, version_guard
from holdfast.api.pod import Pod
from holdfast.api.scheme import RESOURCE_CLAIMS
from holdfast.runtime.errors import AlreadyExists, HoldfastError
from holdfast.scheduling.framework.plugin import (
    MERGE_PATCH,
    ApiCall,
    ApiCalls,
    Placement,
    PreBindCalls,
)
from holdfast.scheduling.plugins.classic_dynamic_resources.plan import ClassicClaims
from holdfast.state.classic_dra.pod_claims import ClassicPodClaim


@dataclass(eq=False)
class ClaimReservation(ClassicClaims):
    """The plan for a pod whose claims are all allocated."""

    missing: tuple[ClassicClaim, ...] = ()
    """The claims to reserve, by uid: pods that need the same claims have the same order."""

    def reserve(self, placement: Placement) -> None:
        """Reserve in flight those claims that are not reserved for the pod yet."""
        uid, claims = self.pod.uid, [of_pod.claim for of_pod in self.claims]
        missing = {claim.uid: claim for claim in claims if not claim.is_reserved_for(uid)}
        self.missing = tuple(missing[key] for key in sorted(missing))
        for claim in self.missing:
            self.ledger.add_in_flight(claim, uid)
            self.ledger.consumers_in_flight.add(claim.uid, self.pod.pod)
            self.in_flight.append(claim)

    def pre_bind_pre_flight(self, placement: Placement) -> bool:
        """Return whether a claim is not reserved yet, or there are shadows."""
        return bool(self.missing or shadow_names(self.pod.pod))

    def pre_bind(self, placement: Placement) -> PreBindCalls:
        """Reserve the claims and write the shadows."""
        yield from self.writes.reserve(self.missing)
        yield from _write_shadows(self.pod.pod, self.claims)
        return None


class ShadowTaken(HoldfastError):
    """Another object has the name of a shadow; the pod is tried again after backoff."""


def _write_shadows(pod: Pod, claims: Iterable[ClassicPodClaim]) -> ApiCalls:
    """Create and allocate the shadows of a pod, whose classic claims are reserved for it."""
    names = shadow_names(pod)
    for of_pod in claims:
        if (name := names.get(of_pod.entry.name)) is None:
            continue
        path = RESOURCE_CLAIMS.path(pod.namespace, name)
        try:
            body = shadow_of(pod, of_pod.entry, name)
            shadow = yield ApiCall(
                "create", RESOURCE_CLAIMS.path(pod.namespace), body, returns=ResourceClaim
            )
        except AlreadyExists:
            shadow = yield ApiCall("get", path, returns=ResourceClaim)
        if not is_controlled_by(shadow, pod) or shadow.metadata.deletion_timestamp is not None:
            raise ShadowTaken(
                f'resourceclaim "{name}" exists and does not belong to pod "{pod.key}"'
            )
        yield from _allocate(pod, shadow, shadow_allocation(shadow.uid, of_pod.claim))


def _allocate(pod: Pod, shadow: ResourceClaim, allocation: dict[str, object]) -> ApiCalls:
    """Write allocation and consumer in one step; an allocation can only be removed later."""
    current = shadow.status.allocation
    reserved = any(each.uid == pod.uid for each in shadow.status.reserved_for)
    if current is not None and _equal(current.devices, allocation["devices"]):
        if reserved:
            return
    elif current is not None:
        shadow = yield _patch(shadow, {"allocation": None, "reservedFor": None})
    yield _patch(shadow, {"allocation": allocation, "reservedFor": [pod_consumer(pod)]})


def _equal(devices: object, wanted: object) -> bool:
    return bool(msgspec.json.decode(msgspec.json.encode(devices)) == wanted)


def _patch(shadow: ResourceClaim, status: dict[str, object]) -> ApiCall:
    guard = version_guard(shadow)
    path = RESOURCE_CLAIMS.path(shadow.namespace, shadow.name, "status")
    body = {"metadata": guard, "status": status}
    return ApiCall("patch", path, body, MERGE_PATCH, returns=ResourceClaim)
