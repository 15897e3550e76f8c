"""Check that the claims of a pod are allocated and reserved for it, so that it may start."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.api.claim_names import claim_name
from holdfast.api.devices import ResourceClaim
from holdfast.api.meta import is_controlled_by
from holdfast.api.pod import Pod

ClaimOf = Callable[[str], ResourceClaim | None]


def unready_reason(pod: Pod, claim_of: ClaimOf) -> str:
    """Return why a pod's claims are not ready, or ""."""
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if name is None:
            continue  # no claim is needed
        if not name:
            return f"the ResourceClaim for {entry.name} was not created yet"
        if problem := _problem(pod, name, claim_of, owned=entry.resource_claim_name is None):
            return problem
    special = pod.status.extended_resource_claim_status
    if special is None:
        return ""
    return _problem(pod, special.resource_claim_name, claim_of, owned=True)


def _problem(pod: Pod, name: str, claim_of: ClaimOf, *, owned: bool) -> str:
    claim = claim_of(name)
    if claim is None:
        return f'resourceclaims.resource.k8s.io "{name}" not found'
    if owned and not is_controlled_by(claim, pod):
        return f"ResourceClaim {claim.key} was not created for pod {pod.key} (pod is not owner)"
    if claim.status.allocation is None:
        return f"ResourceClaim {claim.key} is not allocated"
    if all(c.uid != pod.uid for c in claim.status.reserved_for):
        return f"pod {pod.key} ({pod.uid}) is not allowed to use ResourceClaim {claim.key}"
    return ""
