"""The verb patch: JSON patch, JSON merge patch, strategic merge patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api import field_errors
from holdfast.api.decode import JsonObject
from holdfast.client.transport import Response
from holdfast.runtime.errors import BadRequest, FieldErrors, Invalid, NotBuilt, Unsupported
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.store import check_value_size
from holdfast.server.store.store import MODIFIED
from holdfast.server.verbs.conversion import object_to_requested_version, to_storage_version
from holdfast.server.verbs.json_patch import REJECTED, apply_json_patch, undecodable
from holdfast.server.verbs.metadata import conflict, metadata_of
from holdfast.server.verbs.rendering import object_response
from holdfast.server.verbs.request_object import apply_field_validation
from holdfast.server.verbs.updating import latest_object, update_object
from holdfast.server.wire.body import check_size, parse_json
from holdfast.server.wire.nesting_limit import check_nesting

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCHES = ("application/apply-patch+yaml", "application/apply-patch+cbor")


async def patch(op: Operation) -> Response:
    """Patch an object and return it as stored.

    Nothing is awaited between reading and writing the object, so only a patch that contains a
    resourceVersion can get a Conflict.
    """
    change = read_patch(op)
    previous = latest_object(op)
    old = decode(previous)
    shown = object_to_requested_version(op.descriptor, old)
    new = to_storage_version(op.descriptor, apply_patch(op, shown, change))
    return object_response(op, await update_object(op, previous, old, new))


def read_patch(op: Operation) -> Any:
    """Decode the patch; raise an error for an unsupported patch type."""
    check_size(op.request.body)
    media = patch_type(op)
    if media in APPLY_PATCHES:
        raise NotBuilt(
            "server-side apply is not built yet; use kubectl apply without --server-side"
        )
    if media == STRATEGIC_PATCH and op.descriptor.object_schema.merge is None:
        raise Unsupported(_unsupported(JSON_PATCH, MERGE_PATCH, APPLY_PATCHES[0]))
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise Unsupported("415: Unsupported Media Type")
    return parse_json(op.request.body)


def patch_type(op: Operation) -> str:
    """Return the media type of the patch."""
    return op.request.headers.get("content-type", "").split(";", 1)[0].strip().lower()


def _unsupported(*accepted: str) -> str:
    return (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )


def apply_patch(op: Operation, old: JsonObject, change: Any) -> JsonObject:
    """Apply a patch to an object and check the result: size, identity, fields."""
    media = patch_type(op)
    if media == JSON_PATCH:
        new = json_patch_copy(old, change)
    elif not isinstance(change, dict):
        raise undecodable(change, "map[string]interface {}")
    elif media == MERGE_PATCH:
        new = merge_patch(old, change)
    else:
        strategic_merge = op.descriptor.object_schema.merge
        assert strategic_merge is not None  # checked by read_patch
        new = strategic_merge(old, change)
    if not isinstance(new, dict):
        raise Invalid(REJECTED)
    check_value_size(op.key, msgspec.json.encode(new))
    _check_identity(op, new, old)
    return apply_field_validation(op, new)


def merge_patch(target: Any, change: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386); the inputs are not changed.

    >>> merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None}})
    {'a': {'c': 2}}
    """
    if not isinstance(change, Mapping):
        return change
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch_copy(old: JsonObject, change: Any) -> Any:
    """Apply a JSON patch to a copy of an object; raise BadRequest if it is nested too deep."""
    new = apply_json_patch(msgspec.json.decode(msgspec.json.encode(old)), change)
    check_nesting(new)
    return new


def _check_identity(op: Operation, new: JsonObject, old: JsonObject) -> None:
    meta, known = metadata_of(new), old["metadata"]
    r = op.descriptor.resource
    for field in ("name", "namespace"):
        now, before = meta.get(field) or "", known.get(field) or ""
        if now != before:
            raise BadRequest(
                f"the {field} of the object ({now}) does not match the {field} on the URL "
                f"({before})"
            )
    if meta.get("uid") != known["uid"]:
        if meta.get("resourceVersion") not in (None, "", known["resourceVersion"]):
            # The object was replaced: as upstream, the version is compared first.
            raise conflict(op.descriptor, known["name"], MODIFIED)
        wrong = FieldErrors(
            [field_errors.invalid("metadata.uid", meta.get("uid"), "field is immutable")]
        )
        wrong.raise_if_any(r.kind, known["name"], r.group)
    if (new.get("kind"), new.get("apiVersion")) != (r.kind, r.api_version):
        raise BadRequest("kind and apiVersion cannot be patched")
