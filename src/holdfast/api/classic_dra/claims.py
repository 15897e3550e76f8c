"""The classic claims of a pod: entries, names of claims, containers that use them.

Scheduler, controller, agent and drivers read them here, whether the pod has the KEP's fields or, on
a real cluster, the annotation.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.classic_dra.claim_sources import (
    ClassicClaimSource,
    ClassicClaimTemplate,
    decode_annotation,
)
from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.meta import Object, is_controlled_by
from holdfast.api.pod import Pod
from holdfast.api.pod_claim_errors import InvalidEntries


@dataclass(frozen=True, slots=True)
class ClassicEntry:
    """An entry of ``spec.resourceClaims`` in the form of the KEP."""

    name: str
    claim_name: str
    template: ClassicClaimTemplate | None
    """The claim's template; None if users create the claim."""
    containers: tuple[str, ...]
    """Names of the containers that use the claim, init containers included."""

    @property
    def owned(self) -> bool:
        """Whether the claim is created for the pod, which must then be its controller."""
        return self.template is not None


def classic_entries(pod: Pod) -> tuple[ClassicEntry, ...]:
    """Return the classic claims of a pod in their order; raises InvalidEntries."""
    if not pod.spec.resource_claims and POD_CLAIMS not in pod.metadata.annotations:
        return ()
    fields = tuple(
        _entry(pod, entry.name, entry.claim, _users(pod, entry.name))
        for entry in pod.spec.resource_claims
        if entry.claim is not None
    )
    text = pod.metadata.annotations.get(POD_CLAIMS)
    if fields or text is None:
        return fields
    return tuple(
        _entry(pod, entry.name, entry.claim, entry.containers) for entry in decode_annotation(text)
    )


def readable_entries(pod: Pod) -> tuple[ClassicEntry, ...]:
    """Return the classic claims of a pod; none if they cannot be read."""
    try:
        return classic_entries(pod)
    except InvalidEntries:
        return ()


def may_use(pod: Pod, entry: ClassicEntry, claim: Object) -> bool:
    """Return whether a claim belongs to an entry; one from a template must belong to the pod."""
    return not entry.owned or is_controlled_by(claim, pod)


def _entry(
    pod: Pod, name: str, source: ClassicClaimSource, containers: tuple[str, ...]
) -> ClassicEntry:
    if not name or (source.resource_claim_name is None) == (source.template is None):
        raise InvalidEntries(
            f"classic claim {name!r}: must have a name and one of resourceClaimName and template"
        )
    claim_name = source.resource_claim_name or f"{pod.name}-{name}"
    return ClassicEntry(name, claim_name, source.template, containers)


def _users(pod: Pod, name: str) -> tuple[str, ...]:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return tuple(c.name for c in containers if any(r.name == name for r in c.resources.claims))
