"""Validation of classic DRA: its kinds, beyond the schemas of their CRDs, and claims in pods.

Pods have classic claims in entries of ``spec.resourceClaims`` with ``claim``.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.api import field_errors
from holdfast.api.classic_dra.names import IMMEDIATE, MAX_ENTRIES, WAIT_FOR_FIRST_CONSUMER
from holdfast.api.decode import JsonMapping
from holdfast.api.json_fields import map_at, maps_at, text_at
from holdfast.api.validation.metadata import check_annotations, check_labels
from holdfast.api.validation.names import check_subdomain
from holdfast.api.validation.node_selector import check_node_selector
from holdfast.runtime.errors import Cause

_ADDED = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def check_class(new: JsonMapping, old: JsonMapping | None) -> Iterator[Cause]:
    """Yield what is wrong with a ResourceClass."""
    yield from _check_selector(new, old, "suitableNodes", "suitableNodes")


def check_claim(new: JsonMapping, old: JsonMapping | None) -> Iterator[Cause]:
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


def check_pod_scheduling(new: JsonMapping, old: JsonMapping | None) -> Iterator[Cause]:
    """Yield an error if a new PodScheduling has no pod as controller."""
    if old is None and not any(
        (owner.get("apiVersion"), owner.get("kind"), owner.get("controller")) == ("v1", "Pod", True)
        for owner in maps_at(map_at(new, "metadata"), "ownerReferences")
    ):
        message = "must contain the pod as controller"
        yield field_errors.required("metadata.ownerReferences", message)


def _check_selector(
    new: JsonMapping, old: JsonMapping | None, key: str, path: str
) -> Iterator[Cause]:
    selector = new.get(key)
    if selector is not None and (old is None or old.get(key) != selector):
        yield from check_node_selector(selector, path)


_CLAIM, _TEMPLATE = "resourceClaimName", "template"
_MODES = (WAIT_FOR_FIRST_CONSUMER, IMMEDIATE)
_METADATA = "only labels and annotations may be set in the template of a claim"


def check_classic_source(source: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the ``claim`` of an entry: a name, or the template of a claim."""
    given = [key for key in (_CLAIM, _TEMPLATE) if source.get(key) is not None]
    if len(given) == 2:
        message = f"at most one of `{_CLAIM}` or `{_TEMPLATE}` may be specified"
        yield field_errors.invalid(path, source, message)
    elif not given:
        message = f"must specify one of: `{_CLAIM}`, `{_TEMPLATE}`"
        yield field_errors.invalid(path, source, message)
    if _CLAIM in given:
        yield from check_subdomain(source[_CLAIM], f"{path}.{_CLAIM}")
    if _TEMPLATE in given:
        yield from _check_template(map_at(source, _TEMPLATE), f"{path}.{_TEMPLATE}")


def check_entry_count(spec: JsonMapping, path: str) -> Iterator[Cause]:
    """Yield an error if a pod has too many classic claims."""
    count = sum(entry.get("claim") is not None for entry in maps_at(spec, "resourceClaims"))
    if count > MAX_ENTRIES:
        yield field_errors.too_many(f"{path}.resourceClaims", count, MAX_ENTRIES)


def check_inline_names(pod: JsonMapping) -> Iterator[Cause]:
    """Yield the claims of a pod whose names, ``<pod>-<entry>``, are not valid object names."""
    pod_name = text_at(map_at(pod, "metadata"), "name")
    for i, entry in enumerate(maps_at(map_at(pod, "spec"), "resourceClaims")):
        name = text_at(entry, "name")
        if map_at(entry, "claim").get(_TEMPLATE) is not None and name:
            at = f"spec.resourceClaims[{i}].name"
            for cause in check_subdomain(f"{pod_name}-{name}", at):
                message = f"pod name and entry name make no valid name of a claim: {cause.message}"
                yield Cause(at, message, cause.reason)


def _check_template(template: JsonMapping, path: str) -> Iterator[Cause]:
    meta, spec = map_at(template, "metadata"), map_at(template, "spec")
    for key, value in meta.items():
        if key not in ("labels", "annotations") and value:
            yield field_errors.forbidden(f"{path}.metadata.{key}", _METADATA)
    yield from check_labels(meta.get("labels"), f"{path}.metadata.labels")
    yield from check_annotations(meta.get("annotations"), f"{path}.metadata.annotations")
    at = f"{path}.spec"
    if class_name := text_at(spec, "resourceClassName"):
        yield from check_subdomain(class_name, f"{at}.resourceClassName")
    else:
        yield field_errors.required(f"{at}.resourceClassName")
    if (mode := spec.get("allocationMode")) is not None and mode not in _MODES:
        yield field_errors.not_supported(f"{at}.allocationMode", mode, _MODES)
    if (parameters := spec.get("parametersRef")) is not None:
        for key in ("kind", "name"):
            if not text_at(parameters, key):
                yield field_errors.required(f"{at}.parametersRef.{key}")
