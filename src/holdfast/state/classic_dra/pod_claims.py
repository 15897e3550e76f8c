"""The classic claims of a pod, or why the pod has to wait for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.api.classic_dra.claims import ClassicEntry, classic_entries, may_use
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.pod import Pod
from holdfast.runtime.errors import HoldfastError


class ClassicClaimNotReady(HoldfastError):
    """A claim of the pod is missing, being deleted or not the pod's own."""


@dataclass(frozen=True, slots=True)
class ClassicPodClaim:
    """An entry of a pod and its claim."""

    entry: ClassicEntry
    claim: ClassicClaim

    @property
    def is_pending(self) -> bool:
        """Whether drivers and scheduler negotiate about it: delayed, and not allocated."""
        return not self.claim.is_allocated and not self.claim.is_immediate


def claims_of_pod(
    pod: Pod, find: Callable[[str], ClassicClaim | None]
) -> tuple[ClassicPodClaim, ...]:
    """Return the classic claims of a pod in the order of its entries; ``find`` gets a claim's key.

    Raises ClassicClaimNotReady, and InvalidEntries for an annotation that cannot be read.
    """
    claims = []
    for entry in classic_entries(pod):
        claim = find(f"{pod.namespace}/{entry.claim_name}")
        if claim is None:
            raise ClassicClaimNotReady(
                f'waiting for resourceclaim "{entry.claim_name}" to be created'
            )
        if reason := unusable(pod, entry, claim):
            raise ClassicClaimNotReady(reason)
        claims.append(ClassicPodClaim(entry, claim))
    return tuple(claims)


def unusable(pod: Pod, entry: ClassicEntry, claim: ClassicClaim) -> str:
    """Return why the claim is not the one of the entry, or "" if it is."""
    if claim.is_deleted:
        return f'resourceclaim "{claim.name}" is being deleted'
    if not may_use(pod, entry, claim):
        return f'resourceclaim "{claim.name}" was not created for pod "{pod.key}": no owner of it'
    return ""
