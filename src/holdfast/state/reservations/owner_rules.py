"""Owner rules of a reservation: by object, by controller, by labels.

Without arrays, so that controllers can read them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.api.labels import Selector, from_selector
from holdfast.api.meta import ObjectReference
from holdfast.api.pod import Pod
from holdfast.api.reservation import ControllerOwner, Reservation
from holdfast.api.validation.reservation import owner_namespaces
from holdfast.runtime.errors import BadRequest, HoldfastError

if TYPE_CHECKING:
    from holdfast.state.columns.label_groups import LabelGroup

CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """One item of ``spec.owners``, with its selector compiled."""

    object: ObjectReference | None
    controller: ControllerOwner | None
    selector: Selector | None
    namespaces: frozenset[str] | None = None
    """The namespaces of its pods; None for all."""

    def owns(self, pod: Pod) -> bool:
        """Tell whether all parts of the rule match the pod."""
        return (
            (self.namespaces is None or pod.namespace in self.namespaces)
            and (self.object is None or _is_object(pod, self.object))
            and (self.controller is None or _is_controlled_by(pod, self.controller))
            and (self.selector is None or self.selector.matches(pod.metadata.labels))
        )

    @property
    def by_labels(self) -> bool:
        """Whether pods of one kind are all owners or none of them is."""
        return self.object is None and self.controller is None

    def may_own(self, kind: LabelGroup) -> bool:
        """Tell whether pods of a kind may be owners; the selector's keys must be visible."""
        if self.namespaces is not None and kind.namespace not in self.namespaces:
            return False
        namespaces = [part.namespace for part in (self.object, self.controller) if part is not None]
        if any(namespace and namespace != kind.namespace for namespace in namespaces):
            return False
        return self.selector is None or self.selector.matches(kind.labels)

    @property
    def label_pair(self) -> tuple[str, str] | None:
        """A label pair every owner has, or None if there is no such pair."""
        for requirement in (self.selector.requirements or ()) if self.selector else ():
            if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
                return requirement.key, requirement.values[0]
        return None


def compile_owners(reservation: Reservation) -> tuple[OwnerRule, ...] | None:
    """Compile the owner rules of a reservation.

    None, which means no owners, if a selector or the list of namespaces is malformed.
    """
    rules = []
    try:
        namespaces = owner_namespaces(reservation)
    except BadRequest:
        return None
    for owner in reservation.spec.owners:
        try:
            selector = None if owner.label_selector is None else from_selector(owner.label_selector)
        except HoldfastError:
            return None
        rules.append(OwnerRule(owner.object, owner.controller, selector, namespaces))
    return tuple(rules)


def uses_cluster_mode(reservation: Reservation) -> bool:
    """Tell whether it pre-allocates pods with the cluster's label instead of its owners."""
    policy = reservation.spec.pre_allocation_policy
    return policy is not None and policy.mode == CLUSTER


def _is_object(pod: Pod, wanted: ObjectReference) -> bool:
    return (
        (not wanted.uid or wanted.uid == pod.uid)
        and (not wanted.name or wanted.name == pod.name)
        and (not wanted.namespace or wanted.namespace == pod.namespace)
        and (not wanted.api_version or wanted.api_version == (pod.api_version or "v1"))
    )


def _is_controlled_by(pod: Pod, wanted: ControllerOwner) -> bool:
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
