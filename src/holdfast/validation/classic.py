"""Validation of the kinds of classic DRA, beyond the schemas of their CRDs."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api import field_errors
from holdfast.api.json_fields import Raw, map_at, maps_at, text_at
from holdfast.errors import Cause
from holdfast.validation.node_selector import check_node_selector

_ADDED = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def check_class(new: Raw, old: Raw | None) -> Iterator[Cause]:
    """Yield what is wrong with a ResourceClass."""
    yield from _check_selector(new, old, "suitableNodes", "suitableNodes")


def check_claim(new: Raw, old: Raw | None) -> Iterator[Cause]:
    """Yield what is wrong with the status of a ResourceClaim, which a new claim does not have."""
    if old is None:
        return
    status, before = map_at(new, "status"), map_at(old, "status")
    yield from _check_selector(
        map_at(status, "allocation"),
        map_at(before, "allocation"),
        "availableOnNodes",
        "status.allocation.availableOnNodes",
    )
    if map_at(new, "metadata").get("deletionTimestamp"):
        known = {text_at(user, "uid") for user in maps_at(before, "reservedFor")}
        if any(text_at(user, "uid") not in known for user in maps_at(status, "reservedFor")):
            yield field_errors.forbidden("status.reservedFor", _ADDED)


def check_pod_scheduling(new: Raw, old: Raw | None) -> Iterator[Cause]:
    """Yield an error if a new PodScheduling has no pod as controller."""
    if old is None and not any(
        (owner.get("apiVersion"), owner.get("kind"), owner.get("controller")) == ("v1", "Pod", True)
        for owner in maps_at(map_at(new, "metadata"), "ownerReferences")
    ):
        message = "must contain the pod as controller"
        yield field_errors.required("metadata.ownerReferences", message)


def _check_selector(new: Raw, old: Raw | None, key: str, path: str) -> Iterator[Cause]:
    selector = new.get(key)
    if selector is not None and (old is None or old.get(key) != selector):
        yield from check_node_selector(selector, path)
