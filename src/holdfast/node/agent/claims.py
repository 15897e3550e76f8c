"""The claims of a pod, of both generations, and whether the pod may use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from holdfast.api.classic_dra.claims import ClassicEntry, classic_entries
from holdfast.api.classic_dra.types import ClassicClaim
from holdfast.api.devices import ResourceClaim
from holdfast.api.meta import is_controlled_by
from holdfast.api.pod import Container, Pod, PodResourceClaim, claim_name
from holdfast.api.quantity import units
from holdfast.api.resource import Resource

AnyClaim = ResourceClaim | ClassicClaim
ClassicClaimResource = Resource[ClassicClaim]
"""The resource of classic claims, in the group that is served."""
ClaimKey = tuple[str, str, bool]
"""Namespace and name of a claim, and whether it is classic."""


@dataclass(frozen=True, slots=True)
class NeededClaim:
    """A claim that a pod needs before it may start."""

    entry: str
    """Name of the entry in the pod's spec; "" for the claim of extended resources."""
    name: str
    """Name of the claim; "" if it was not created yet."""
    owned: bool
    """Whether it was made for this pod, which must then be its owner."""
    classic: bool = False
    used: bool = True
    """Whether a container uses it, so that it is prepared; structured claims always are."""

    def key(self, pod: Pod) -> ClaimKey:
        """Return the key of the claim in the pod's namespace."""
        return pod.namespace, self.name, self.classic


FindClaim = Callable[[NeededClaim], AnyClaim | None]


def needed_claims(pod: Pod) -> Iterator[NeededClaim]:
    """List a pod's claims: classic and structured ones, and the one for extended resources.

    Raises InvalidEntries.
    """
    for classic in _classic_entries(pod):
        yield NeededClaim(
            classic.name,
            classic.claim_name,
            classic.owned,
            classic=True,
            used=bool(classic.containers),
        )
    for entry in _structured_entries(pod):
        if (name := claim_name(pod, entry)) is not None:
            yield NeededClaim(entry.name, name, entry.resource_claim_name is None)
    if (special := pod.status.extended_resource_claim_status) is not None:
        yield NeededClaim("", special.resource_claim_name, owned=True)


def container_claims(pod: Pod, container: str) -> Iterable[tuple[str, bool, str]]:
    """List name and generation of a container's claims, with the request in each; "" is all.

    Structured claims come first, in the container's order, then classic ones in the order of the
    pod's entries.
    """
    container_spec = _container(pod, container)
    if container_spec is None:
        return
    entries = {entry.name: entry for entry in _structured_entries(pod)}
    for reference in container_spec.resources.claims:
        entry = entries.get(reference.name)
        if entry is not None and (name := claim_name(pod, entry)):
            yield name, False, reference.request
    if (special := pod.status.extended_resource_claim_status) is not None:
        for mapping in special.request_mappings:
            requested = units(container_spec.resources.requests.get(mapping.resource_name, "0"))
            if mapping.container_name == container and requested:
                yield special.resource_claim_name, False, mapping.request_name
    for classic in _classic_entries(pod):
        if container in classic.containers:
            yield classic.claim_name, True, ""


def unready_reason(pod: Pod, claim_of: FindClaim) -> str:
    """Return why a pod's claims are not ready, or ""; raises InvalidEntries."""
    for needed in needed_claims(pod):
        if not needed.name:
            return not_created(needed)
        claim = claim_of(needed)
        if claim is None:
            kind = "classic ResourceClaim" if needed.classic else "resourceclaims.resource.k8s.io"
            return f'{kind} "{needed.name}" not found'
        if problem := claim_problem(pod, claim, owned=needed.owned):
            return problem
    return ""


def not_created(needed: NeededClaim) -> str:
    """Return the reason for a claim that its controller has not created yet."""
    return f"the ResourceClaim for {needed.entry} was not created yet"


def claim_problem(pod: Pod, claim: AnyClaim, *, owned: bool) -> str:
    """Return why a pod may not use a claim, or ""."""
    if owned and not is_controlled_by(claim, pod):
        return f"ResourceClaim {claim.key} was not created for pod {pod.key} (pod is not owner)"
    if claim.status.allocation is None:
        return f"ResourceClaim {claim.key} is not allocated"
    if all(c.uid != pod.uid for c in claim.status.reserved_for):
        return f"pod {pod.key} ({pod.uid}) is not allowed to use ResourceClaim {claim.key}"
    return ""


def _structured_entries(pod: Pod) -> tuple[PodResourceClaim, ...]:
    """Return the entries of ``resource.k8s.io``, shadows included: a kubelet prepares them, too."""
    return tuple(entry for entry in pod.spec.resource_claims if entry.claim is None)


def _classic_entries(pod: Pod) -> tuple[ClassicEntry, ...]:
    """Return the classic entries that have no shadow."""
    shadows = {entry.name for entry in _structured_entries(pod)}
    return tuple(entry for entry in classic_entries(pod) if entry.name not in shadows)


def _container(pod: Pod, name: str) -> Container | None:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return next((each for each in containers if each.name == name), None)
