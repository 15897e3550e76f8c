"""Check that the claims of a pod are allocated and reserved for it, so that it may start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.api.claim_names import claim_name
from holdfast.api.devices import ResourceClaim
from holdfast.api.meta import is_controlled_by
from holdfast.api.pod import Pod

ClaimOf = Callable[[str], ResourceClaim | None]


@dataclass(frozen=True, slots=True)
class NeededClaim:
    """A claim that a pod needs before it may start."""

    entry: str
    """Name of the entry in the pod's spec; "" for the claim of extended resources."""
    name: str
    """Name of the claim; "" if it was not created yet."""
    owned: bool
    """Whether it was made for this pod, which must then be its owner."""


def needed_claims(pod: Pod) -> Iterator[NeededClaim]:
    """List the claims of a pod, that of its extended resources last."""
    for entry in pod.structured_claims:
        if (name := claim_name(pod, entry)) is not None:
            yield NeededClaim(entry.name, name, entry.resource_claim_name is None)
    if (special := pod.status.extended_resource_claim_status) is not None:
        yield NeededClaim("", special.resource_claim_name, owned=True)


def unready_reason(pod: Pod, claim_of: ClaimOf) -> str:
    """Return why a pod's claims are not ready, or ""."""
    for needed in needed_claims(pod):
        if not needed.name:
            return not_created(needed)
        claim = claim_of(needed.name)
        if claim is None:
            return f'resourceclaims.resource.k8s.io "{needed.name}" not found'
        if problem := claim_problem(pod, claim, owned=needed.owned):
            return problem
    return ""


def not_created(needed: NeededClaim) -> str:
    """Return the reason for a claim that its controller has yet to create."""
    return f"the ResourceClaim for {needed.entry} was not created yet"


def claim_problem(pod: Pod, claim: ResourceClaim, *, owned: bool) -> str:
    """Return why a pod may not use a claim, or ""."""
    if owned and not is_controlled_by(claim, pod):
        return f"ResourceClaim {claim.key} was not created for pod {pod.key} (pod is not owner)"
    if claim.status.allocation is None:
        return f"ResourceClaim {claim.key} is not allocated"
    if all(c.uid != pod.uid for c in claim.status.reserved_for):
        return f"pod {pod.key} ({pod.uid}) is not allowed to use ResourceClaim {claim.key}"
    return ""
