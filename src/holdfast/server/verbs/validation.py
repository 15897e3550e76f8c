"""Validate objects: metadata, list limits, and the checks of their kind.

Errors have upstream's messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject, without_nulls
from holdfast.api.deletion_cost import DELETION_COST
from holdfast.api.validation.list_limits import check_lists
from holdfast.api.validation.metadata import check_annotations, check_labels, label_key
from holdfast.runtime.errors import CAUSE_LIMIT, Cause, FieldErrors
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.operation import Operation

_IMMUTABLE = "field is immutable"
_CHECKED_ANNOTATIONS = ("annotations.", f"metadata.annotations[{DELETION_COST}]")


def _limited(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes that an error lists, and one more if there are more."""
    return list(islice(causes, CAUSE_LIMIT + 1))


def check(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Raise Invalid, with all causes, if an object or its change is not valid."""
    descriptor = op.descriptor
    _raise_if_any(op, new, list(check_lists(descriptor.list_limits, new, old)))
    causes = _limited(_metadata(op, new))
    causes += descriptor.storage_schema.violations(new, old) or _limited(
        _kind_violations(descriptor, new, old)
    )
    for rule in descriptor.request_checks:
        causes += _limited(rule(op, new, old))
    _raise_if_any(op, new, causes)


def _kind_violations(
    descriptor: KindDescriptor, new: JsonObject, old: JsonObject | None
) -> Iterable[Cause]:
    """Return the violations of the checks of the kind.

    Violations in an object that an older server stored are ignored while it is unchanged. Only
    violations in some annotations are returned even then, because their checks ignore old values
    themselves.
    """
    causes = chain.from_iterable(rule(new, old) for rule in descriptor.checks)
    if old is None:
        return causes
    listed = [*causes, *_immutable(descriptor.immutable_fields, new, old)]
    if listed and descriptor.storage_schema.is_unchanged(new, old):
        return [cause for cause in listed if cause.field.startswith(_CHECKED_ANNOTATIONS)]
    return listed


def _immutable(paths: Iterable[str], new: JsonObject, old: JsonObject) -> Iterable[Cause]:
    for path in paths:
        now, before = _at(new, path), _at(old, path)
        if without_nulls(now) != without_nulls(before):
            yield field_errors.invalid(path, now, _IMMUTABLE)


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _raise_if_any(op: Operation, obj: JsonObject, causes: list[Cause]) -> None:
    if causes:
        r = op.descriptor.resource
        FieldErrors(causes).raise_if_any(r.kind, obj["metadata"].get("name", ""), r.group)


def _metadata(op: Operation, obj: JsonObject) -> Iterable[Cause]:
    meta = obj["metadata"]
    name = meta.get("name", "")
    if not name:
        yield field_errors.required("metadata.name", "name or generateName is required")
    elif not isinstance(name, str):
        yield field_errors.invalid("metadata.name", name, "must be a string")
    else:
        for message in op.descriptor.name_check(name):
            yield field_errors.invalid("metadata.name", name, message)
    yield from check_labels(meta.get("labels"), "metadata.labels")
    yield from check_annotations(meta.get("annotations"), "metadata.annotations")
    yield from _owners(meta.get("ownerReferences") or ())
    yield from _finalizers(meta.get("finalizers") or ())


def _owners(references: Iterable[JsonObject]) -> Iterable[Cause]:
    at = "metadata.ownerReferences"
    controllers = []
    for owner in references:
        api_version = owner.get("apiVersion", "")
        if not api_version.rpartition("/")[2]:
            yield field_errors.invalid(f"{at}.apiVersion", api_version, "version must not be empty")
        for part in ("kind", "name", "uid"):
            if not owner.get(part):
                yield field_errors.invalid(f"{at}.{part}", "", "must not be empty")
        if (api_version, owner.get("kind")) == ("v1", "Event"):
            message = "/v1, Kind=Event is disallowed from being an owner"
            yield field_errors.invalid(at, owner, message)
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    for other in controllers[1:]:
        message = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {other}"
        )
        yield field_errors.invalid(at, list(references), message)


def _finalizers(finalizers: Iterable[str]) -> Iterable[Cause]:
    at = "metadata.finalizers"
    for name in finalizers:
        for message in label_key(name):
            yield field_errors.invalid(at, name, message)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        message = "finalizer orphan and foregroundDeletion cannot be both set"
        yield field_errors.invalid(at, list(finalizers), message)
