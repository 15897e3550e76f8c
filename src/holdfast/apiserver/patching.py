"""The verb patch: change part of an object, in one of four ways of saying which part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec

from holdfast.apiserver.body import check_depth, check_size, parse_json
from holdfast.apiserver.conversion import inward, outward_object
from holdfast.apiserver.incoming import known_fields
from holdfast.apiserver.metadata import metadata_of
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.strategic import strategic_merge
from holdfast.apiserver.updating import current, write
from holdfast.apiserver.writing import decode, show
from holdfast.client.transport import Response
from holdfast.errors import BadRequest, Details, Invalid, NotBuilt, Unsupported

Object = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCHES = ("application/apply-patch+yaml", "application/apply-patch+cbor")
_MOST_OPERATIONS = 10_000


async def patch(op: Operation) -> Response:
    """Change part of an object and answer with what was stored.

    Nothing is awaited between reading and deciding, so a patch never meets a conflict it did not
    ask for: only one that names a resourceVersion can be stale.
    """
    change = read_patch(op)
    previous = current(op)
    old = decode(previous)
    shown = outward_object(op.served, old)
    new = inward(op.served, patched(op, shown, change))
    return show(op, await write(op, previous, old, new))


def read_patch(op: Operation) -> Any:
    """Read the patch itself, refusing the ways we do not know."""
    check_size(op.request.body)
    media = patch_media(op)
    if media in APPLY_PATCHES:
        raise NotBuilt(
            "server-side apply is not built yet; use kubectl apply without --server-side"
        )
    custom = op.served.custom is not None
    if media == STRATEGIC_PATCH and custom:
        raise Unsupported(_accepted(custom))
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise Unsupported(_accepted(custom))
    change = parse_json(op.request.body)
    check_depth(change)
    return change


def patch_media(op: Operation) -> str:
    """Name the kind of patch the request carries."""
    return op.request.headers.get("content-type", "").split(";", 1)[0].strip().lower()


def _accepted(custom: bool) -> str:
    known = [JSON_PATCH, MERGE_PATCH] + ([] if custom else [STRATEGIC_PATCH])
    return (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join([*known, APPLY_PATCHES[0]])
    )


def patched(op: Operation, old: Object, change: Any) -> Object:
    """Apply a patch to an object and check what came out."""
    media = patch_media(op)
    if media == JSON_PATCH:
        new = json_patched(op, old, change)
    elif not isinstance(change, dict):
        raise BadRequest("the patch must be a JSON object")
    elif media == MERGE_PATCH:
        new = merge(old, change)
    else:
        new = strategic_merge(op.served.resource, old, change)
    if not isinstance(new, dict):
        raise _unprocessable(op, "the patched object is no JSON object")
    _check_identity(op, new, old)
    return known_fields(op, new)


def merge(target: Any, change: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386); the inputs stay as they are.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": None}})
    {'a': {'c': 2}}
    """
    if not isinstance(change, Mapping):
        return change
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patched(op: Operation, old: Object, change: Any) -> Any:
    """Apply a JSON patch (RFC 6902); a failing operation is a 422 and changes nothing."""
    if not isinstance(change, list):
        raise BadRequest("a JSON patch must be a list of operations")
    if len(change) > _MOST_OPERATIONS:
        raise BadRequest(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, "
            f"got {len(change)}"
        )
    try:
        return jsonpatch.apply_patch(msgspec.json.decode(msgspec.json.encode(old)), change)
    except jsonpatch.InvalidJsonPatch as wrong:
        raise BadRequest(f"error decoding patch: {wrong}") from wrong
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as wrong:
        raise _unprocessable(op, str(wrong)) from wrong
    except (TypeError, KeyError, AttributeError, ValueError) as wrong:
        raise BadRequest(f"error decoding patch: {wrong}") from wrong


def _unprocessable(op: Operation, words: str) -> Invalid:
    return Invalid(f"the server rejected our request due to an error in our request: {words}",
                   Details())  # fmt: skip


def _check_identity(op: Operation, new: Object, old: Object) -> None:
    meta, known = metadata_of(new), old["metadata"]
    r = op.served.resource
    for field in ("name", "namespace"):
        if (meta.get(field) or "") != (known.get(field) or ""):
            what = "metadata." + field
            raise BadRequest(
                f"the {field} of the object ({meta.get(field)}) does not match the {field} on "
                f"the URL ({known.get(field, '')}); {what} cannot be patched"
            )
    if (new.get("kind"), new.get("apiVersion")) != (r.kind, r.api_version):
        raise BadRequest("kind and apiVersion cannot be patched")
