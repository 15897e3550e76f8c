"""Plan the classic claims of a pod, and the release of a classic claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec

from holdfast.api.classic_dra.claim_sources import ClassicClaimTemplate
from holdfast.api.classic_dra.claims import ClassicEntry, classic_entries, may_use
from holdfast.api.classic_dra.types import ClassicClaim, ClassicResources
from holdfast.api.devices import ClaimConsumer
from holdfast.api.meta import controller_of, owner_reference
from holdfast.api.pod import Pod
from holdfast.controllers.claim_consumers import raw_consumers, reserved_for_patch
from holdfast.controllers.planned_writes import Create, Delete, Write
from holdfast.state.classic_dra.claim_state import is_usable


@dataclass(frozen=True, slots=True)
class InlineClaimsPlan:
    """Claims to create, and why others cannot be created, each by the name of the claim entry."""

    creations: Mapping[str, Create]
    problems: Mapping[str, str]


def inline_entries(pod: Pod) -> tuple[ClassicEntry, ...]:
    """Return the entries whose claims are created for the pod; raises InvalidEntries."""
    return tuple(entry for entry in classic_entries(pod) if entry.owned)


def plan_inline_claims(
    pod: Pod, resources: ClassicResources, claim_of: Callable[[str], ClassicClaim | None]
) -> InlineClaimsPlan:
    """Plan the claims of one pod; ``claim_of`` looks up a name in the pod's namespace.

    A claim that exists is never changed. Raises InvalidEntries.
    """
    creations: dict[str, Create] = {}
    problems: dict[str, str] = {}
    for entry in inline_entries(pod) if not pod.terminating and not pod.finished else ():
        assert entry.template is not None
        claim = claim_of(entry.claim_name)
        if claim is None:
            body = new_claim(pod, entry.claim_name, entry.template, resources)
            creations[entry.name] = Create(resources.claims, body, pod.namespace)
        elif not may_use(pod, entry, claim):
            named = f'ResourceClaim "{entry.claim_name}"'
            problems[entry.name] = f'{named} exists and was not created for pod "{pod.key}"'
    return InlineClaimsPlan(creations, problems)


def new_claim(
    pod: Pod, name: str, template: ClassicClaimTemplate, resources: ClassicResources
) -> dict[str, object]:
    """Return a new claim from the template in a pod, owned by the pod."""
    meta: dict[str, object] = {
        "name": name,
        "namespace": pod.namespace,
        "ownerReferences": [owner_reference("v1", "Pod", pod)],
    }
    if template.metadata.labels:
        meta["labels"] = template.metadata.labels
    if template.metadata.annotations:
        meta["annotations"] = template.metadata.annotations
    return {
        "apiVersion": resources.claims.api_version,
        "kind": resources.claims.kind,
        "metadata": meta,
        "spec": msgspec.to_builtins(template.spec),
    }


def plan_release(
    claim: ClassicClaim,
    resources: ClassicResources,
    stale: Collection[ClaimConsumer],
    owner: Pod | None,
    *,
    deallocate_unused: bool = False,
) -> tuple[Write, ...]:
    """Plan to remove stale consumers, and to delete the claim of a pod that has finished.

    ``owner`` is the pod that controls the claim, if it exists; the claims of deleted pods are left
    to the garbage collector. With ``deallocate_unused``, a claim that waits for a consumer is
    deallocated after its last one.
    """
    kept = [consumer for consumer in claim.status.reserved_for if consumer not in stale]
    writes: list[Write] = []
    if len(kept) < len(claim.status.reserved_for):
        unused = not kept and not claim.is_immediate and is_usable(claim)
        more = {"deallocationRequested": True} if deallocate_unused and unused else {}
        writes.append(reserved_for_patch(resources.claims, claim, raw_consumers(kept), **more))
    if not kept and not claim.is_deleted and owner is not None and owner.finished:
        writes.append(Delete(resources.claims, claim.name, claim.namespace, claim.uid))
    return tuple(writes)


def owning_pod_uid(claim: ClassicClaim) -> str:
    """Return the uid of the pod that controls a claim, or ""."""
    owner = controller_of(claim)
    is_pod = owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod")
    return owner.uid if is_pod and owner is not None else ""
