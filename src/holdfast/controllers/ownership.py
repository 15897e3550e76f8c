"""Controller owner references: find, adopt and release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from holdfast.api.labels import from_selector
from holdfast.api.meta import LabelSelector, Object, OwnerReference, controller_of
from holdfast.api.resource import Resource
from holdfast.controllers.planned_writes import Patch

T = TypeVar("T", bound=Object)


def raw_reference(owner: OwnerReference) -> dict[str, Any]:
    """Return an owner reference in raw form."""
    raw: dict[str, Any] = {
        "apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid,
    }  # fmt: skip
    if owner.controller:
        raw["controller"] = True
    if owner.block_owner_deletion:
        raw["blockOwnerDeletion"] = True
    return raw


def adopt(resource: Resource[Any], orphan: Object, reference: dict[str, Any]) -> Patch:
    """Return a patch that adds a controller reference to an unchanged orphan."""
    kept = [raw_reference(o) for o in orphan.metadata.owner_references if o.uid != reference["uid"]]
    return owner_references_patch(resource, orphan, [*kept, reference])


def release(resource: Resource[Any], obj: Object, owner: Object) -> Patch:
    """Return a patch that removes the owner's reference from an object."""
    kept = [raw_reference(o) for o in obj.metadata.owner_references if o.uid != owner.uid]
    return owner_references_patch(resource, obj, kept)


def owner_references_patch(
    resource: Resource[Any], obj: Object, references: list[dict[str, Any]]
) -> Patch:
    """Return a patch of the owner references with uid and resource version as preconditions."""
    meta = {
        "uid": obj.uid,
        "resourceVersion": obj.metadata.resource_version,
        "ownerReferences": references or None,
    }
    return Patch(resource, obj.name, {"metadata": meta}, obj.namespace)


def claim_objects(
    resource: Resource[T], reference: dict[str, Any], owner: Object, selector: LabelSelector,
    candidates: Iterable[T],
) -> tuple[list[T], tuple[Patch, ...]]:  # fmt: skip
    """Return the candidates that the owner controls, and the patches to adopt and release others.

    Matching orphans are adopted; controlled objects that no longer match are released. No object
    is adopted or released while it or the owner is being deleted.
    """
    matcher = from_selector(selector)
    living = owner.metadata.deletion_timestamp is None
    controlled: list[T] = []
    patches: list[Patch] = []
    for each in candidates:
        controller = controller_of(each)
        if controller is not None and controller.uid != owner.uid:
            continue
        selected = matcher.matches(each.metadata.labels)
        movable = living and each.metadata.deletion_timestamp is None
        if controller is not None and not selected and movable:
            patches.append(release(resource, each, owner))
        elif selected and (controller is not None or movable):
            controlled.append(each)
            if controller is None:
                patches.append(adopt(resource, each, reference))
    return controlled, tuple(patches)
