"""Which claims a pod uses, and what must be true of them before it can be scheduled."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api.devices import ResourceClaim
from holdfast.api.pod import Pod, PodResourceClaim
from holdfast.devices.claims import Claims, controller_of
from holdfast.errors import HoldfastError


class ClaimUnmet(HoldfastError):
    """A claim of the pod is not there or not usable; the pod has to wait."""


def claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """Name the claim object of an entry, and tell whether the pod must own it.

    No name means that none was made on purpose: the entry can be ignored.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, False
    if entry.resource_claim_template_name is not None:
        for status in pod.status.resource_claim_statuses:
            if status.name == entry.name:
                return status.resource_claim_name, True
        raise ClaimUnmet(f'pod "{pod.key}": ResourceClaim not created yet')
    raise ClaimUnmet(
        f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
    )


def check_owner(claim: ResourceClaim, pod: Pod) -> None:
    """Refuse a claim that was made for another pod."""
    if claim.namespace != pod.namespace:
        raise ClaimUnmet(f"ResourceClaim {claim.key} is not in the same namespace as Pod {pod.key}")
    if not controller_of(claim, pod):
        raise ClaimUnmet(
            f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
        )


def reserved_for(claim: ResourceClaim, pod_uid: str) -> bool:
    """Tell whether the pod may use the claim already."""
    return any(consumer.uid == pod_uid for consumer in claim.status.reserved_for)


def claims_of(pod: Pod, claims: Claims) -> tuple[ResourceClaim, ...]:
    """The claims of a pod in the order of its spec; raises ClaimUnmet if one is not usable."""
    return tuple(_found(pod, claims))


def _found(pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
    for entry in pod.spec.resource_claims:
        name, must_own = claim_name(pod, entry)
        if name is None:
            continue
        claim = claims.get(pod.namespace, name)
        if claim is None:
            raise ClaimUnmet(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimUnmet(f'resourceclaim "{claim.name}" is being deleted')
        if must_own:
            check_owner(claim, pod)
        yield claim
