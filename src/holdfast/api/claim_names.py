"""The names of the ResourceClaims of a pod."""

from __future__ import annotations

from holdfast.api.pod import Pod, PodResourceClaim


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of an entry's claim, "" if it does not exist yet, None if none is needed."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    return ""


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the names of the pod's claims, that for extended resources included."""
    found = [claim_name(pod, entry) for entry in pod.structured_claims]
    special = pod.status.extended_resource_claim_status
    if special is not None:
        found.append(special.resource_claim_name)
    return tuple(name for name in found if name)
