"""Who owns a reservation: by object, by controller, by labels."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.api.labels import Selector, from_selector
from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.reservation import ControllerOwner, ReservationOwner
from holdfast.columns.kinds import Kind
from holdfast.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """One item of ``spec.owners``, ready to be asked."""

    object: ObjectReference | None
    controller: ControllerOwner | None
    selector: Selector | None

    def owns(self, pod: Pod) -> bool:
        """All given parts match; absent parts are true."""
        return (
            (self.object is None or _is_object(pod, self.object))
            and (self.controller is None or _is_made_by(pod, self.controller))
            and (self.selector is None or self.selector.matches(pod.metadata.labels))
        )

    @property
    def by_labels(self) -> bool:
        """Whether pods of one kind are owners together or not at all."""
        return self.object is None and self.controller is None

    def may_own(self, kind: Kind) -> bool:
        """Whether pods of a kind may be owners; the selector's keys must be visible."""
        namespaces = [part.namespace for part in (self.object, self.controller) if part is not None]
        if any(namespace and namespace != kind.namespace for namespace in namespaces):
            return False
        return self.selector is None or self.selector.matches(kind.labels)

    @property
    def label_pair(self) -> tuple[str, str] | None:
        """A pair every owner must carry, to find the rule by; None: it must be asked each time."""
        for requirement in (self.selector.requirements or ()) if self.selector else ():
            if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
        return None


def compile_owners(owners: tuple[ReservationOwner, ...]) -> tuple[OwnerRule, ...] | None:
    """Prepare the owner rules; None when a selector is malformed: then nobody owns it."""
    rules = []
    for owner in owners:
        try:
            selector = None if owner.label_selector is None else from_selector(owner.label_selector)
        except HoldfastError:
            return None
        rules.append(OwnerRule(owner.object, owner.controller, selector))
    return tuple(rules)


def _is_object(pod: Pod, wanted: ObjectReference) -> bool:
    return (
        (not wanted.uid or wanted.uid == pod.uid)
        and (not wanted.name or wanted.name == pod.name)
        and (not wanted.namespace or wanted.namespace == pod.namespace)
        and (not wanted.api_version or wanted.api_version == (pod.api_version or "v1"))
    )


def _is_made_by(pod: Pod, wanted: ControllerOwner) -> bool:
    if wanted.namespace and wanted.namespace != pod.namespace:
        return False
    return any(
        (not wanted.uid or wanted.uid == ref.uid)
        and (not wanted.name or wanted.name == ref.name)
        and (not wanted.kind or wanted.kind == ref.kind)
        and (not wanted.api_version or wanted.api_version == ref.api_version)
        and (wanted.controller is None or wanted.controller == ref.controller)
        for ref in pod.metadata.owner_references
    )
