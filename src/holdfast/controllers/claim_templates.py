"""Plan the claims of a pod: create them from templates, record and reserve them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.api.devices import MAX_CONSUMERS, ResourceClaim, pod_consumer
from holdfast.api.meta import Object, ObjectMeta, Struct, is_controlled_by, owner_reference
from holdfast.api.pod import Pod, PodResourceClaim, claim_name
from holdfast.api.resource import Resource
from holdfast.api.scheme import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from holdfast.client.client import PatchType
from holdfast.controllers.claim_consumers import raw_consumers, reserved_for_patch
from holdfast.controllers.planned_writes import Create, Patch
from holdfast.state.devices.claims import is_reserved_for

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"

T = TypeVar("T")
Lookup = Callable[[str], T | None]
_MAX_PREFIX_LENGTH = 57  # a hyphen and five letters make it the 63 of a label


class RawTemplateSpec(Struct, frozen=True):
    """The template of a claim; its spec is copied without being decoded."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it


class RawTemplate(Object, frozen=True):
    """A ResourceClaimTemplate whose inner spec is not decoded."""

    spec: RawTemplateSpec = RawTemplateSpec()


TEMPLATES = Resource(
    RESOURCE_CLAIM_TEMPLATES.group, RESOURCE_CLAIM_TEMPLATES.version,
    RESOURCE_CLAIM_TEMPLATES.plural, RESOURCE_CLAIM_TEMPLATES.kind, RawTemplate,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodClaimsPlan:
    """Claims to create, existing claims to record, and problems, each by the name of the entry."""

    creations: Mapping[str, Create]
    found: Mapping[str, str]
    problems: Mapping[str, str]
    missing_templates: tuple[str, ...] = ()


def plan_pod_claims(
    pod: Pod,
    claim_of: Lookup[ResourceClaim],
    owned: Iterable[ResourceClaim],
    template_of: Lookup[RawTemplate],
) -> PodClaimsPlan:
    """Plan the claims of one pod.

    ``claim_of`` and ``template_of`` look up a name in the pod's namespace; ``owned`` are the claims
    that the pod controls. A new claim replaces a recorded one that was deleted or that belongs to
    another owner.
    """
    creations: dict[str, Create] = {}
    orphans: dict[str, str] = {}
    problems: dict[str, str] = {}
    missing: list[str] = []
    owned = list(owned)
    for entry in pod.structured_claims if not pod.terminating and not pod.finished else ():
        template_name = entry.resource_claim_template_name
        if template_name is None or _has_claim(pod, entry, claim_of):
            continue
        if (orphan := _unrecorded_claim(pod, entry, owned)) is not None:
            orphans[entry.name] = orphan.name
        elif (template := template_of(template_name)) is not None:
            creations[entry.name] = Create(
                RESOURCE_CLAIMS, new_claim(pod, entry.name, template), pod.namespace
            )
        else:
            missing.append(template_name)
            absent = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            problems[entry.name] = f'resource claim template "{template_name}": {absent}'
    return PodClaimsPlan(creations, orphans, problems, tuple(missing))


def claim_statuses_patch(pod: Pod, names: Mapping[str, str]) -> Patch:
    """Return a patch that records in the pod's status the claim of each entry."""
    entries = [{"name": e, "resourceClaimName": name} for e, name in sorted(names.items())]
    return Patch(
        PODS, pod.name,
        {"metadata": {"uid": pod.uid}, "status": {"resourceClaimStatuses": entries}},
        pod.namespace, "status", PatchType.STRATEGIC,
    )  # fmt: skip


def plan_reserved_for(pod: Pod, claim_of: Lookup[ResourceClaim]) -> tuple[Patch, ...]:
    """Plan to reserve allocated claims for a pod that was assigned without a scheduler."""
    if not pod.spec.node_name or pod.terminating or pod.finished:
        return ()
    patches = []
    for entry in pod.structured_claims:
        claim = claim_of(claim_name(pod, entry) or "")
        if claim is None or claim.status.allocation is None or is_reserved_for(claim, pod.uid):
            continue
        generated = entry.resource_claim_name is None
        if len(claim.status.reserved_for) >= MAX_CONSUMERS or (
            generated and not is_controlled_by(claim, pod)
        ):
            continue
        consumers = [*raw_consumers(claim.status.reserved_for), pod_consumer(pod)]
        patches.append(reserved_for_patch(RESOURCE_CLAIMS, claim, consumers))
    return tuple(patches)


def new_claim(pod: Pod, entry: str, template: RawTemplate) -> dict[str, Any]:
    """Return a new claim for an entry from its template, named after pod and entry."""
    meta = template.spec.metadata
    body_meta: dict[str, Any] = {
        "generateName": _prefix(pod.name, entry), "namespace": pod.namespace,
        "annotations": {**meta.annotations, POD_CLAIM_NAME: entry},
        "ownerReferences": [owner_reference("v1", "Pod", pod, block=False)],
    }  # fmt: skip
    if meta.labels:
        body_meta["labels"] = meta.labels
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version, "kind": "ResourceClaim",
        "metadata": body_meta, "spec": template.spec.spec,
    }  # fmt: skip


def _prefix(pod: str, entry: str) -> str:
    """Join both names; if the result is too long, each is cut in proportion."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _MAX_PREFIX_LENGTH:
        return whole
    cut = [part[: len(part) * _MAX_PREFIX_LENGTH // len(whole)] for part in (pod, entry)]
    return "-".join(cut)


def _has_claim(pod: Pod, entry: PodResourceClaim, claim_of: Lookup[ResourceClaim]) -> bool:
    """Return whether the entry has its claim or needs none."""
    name = claim_name(pod, entry)
    if name is None:
        return True
    claim = claim_of(name)
    return claim is not None and is_controlled_by(claim, pod)


def _unrecorded_claim(
    pod: Pod, entry: PodResourceClaim, owned: Iterable[ResourceClaim]
) -> ResourceClaim | None:
    """Return a claim created for this entry and not recorded, because the controller stopped."""
    return next(
        (
            c
            for c in owned
            if is_controlled_by(c, pod) and c.metadata.annotations.get(POD_CLAIM_NAME) == entry.name
        ),
        None,
    )
