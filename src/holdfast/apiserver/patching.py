"""The verb patch: change part of an object, in one of four ways of saying which part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec

from holdfast.api import causes
from holdfast.apiserver.body import check_depth, check_size, parse_json
from holdfast.apiserver.conversion import inward, outward_object
from holdfast.apiserver.incoming import known_fields
from holdfast.apiserver.metadata import metadata_of
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.strategic import strategic_merge
from holdfast.apiserver.updating import current, write
from holdfast.apiserver.writing import decode, show
from holdfast.client.transport import Response
from holdfast.errors import BadRequest, FieldErrors, Invalid, NotBuilt, Unsupported

Object = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCHES = ("application/apply-patch+yaml", "application/apply-patch+cbor")
_MOST_OPERATIONS = 10_000
_REJECTED = "the server rejected our request due to an error in our request"


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
    if media == STRATEGIC_PATCH and op.served.custom is not None:
        raise Unsupported(_unsupported(JSON_PATCH, MERGE_PATCH, APPLY_PATCHES[0]))
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise Unsupported("415: Unsupported Media Type")
    change = parse_json(op.request.body)
    check_depth(change)
    return change


def patch_media(op: Operation) -> str:
    """Name the kind of patch the request carries."""
    return op.request.headers.get("content-type", "").split(";", 1)[0].strip().lower()


def _unsupported(*accepted: str) -> str:
    return (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )


def patched(op: Operation, old: Object, change: Any) -> Object:
    """Apply a patch to an object and check what came out."""
    media = patch_media(op)
    if media == JSON_PATCH:
        new = json_patched(op, old, change)
    elif not isinstance(change, dict):
        raise _undecodable(change, "map[string]interface {}")
    elif media == MERGE_PATCH:
        new = merge(old, change)
    else:
        new = strategic_merge(op.served.resource, old, change)
    if not isinstance(new, dict):
        raise Invalid(_REJECTED)
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
        raise _undecodable(change, "[]handlers.jsonPatchOp")
    if len(change) > _MOST_OPERATIONS:
        raise BadRequest(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, "
            f"got {len(change)}"
        )
    try:
        return jsonpatch.apply_patch(msgspec.json.decode(msgspec.json.encode(old)), change)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as wrong:
        raise Invalid(_REJECTED) from wrong
    except (TypeError, KeyError, AttributeError, ValueError) as wrong:
        raise BadRequest(f"error decoding patch: {wrong}") from wrong


def _undecodable(change: Any, wanted: str) -> BadRequest:
    names = {list: "array", dict: "object", str: "string", bool: "bool"}
    found = names.get(type(change), "number")
    return BadRequest(
        f"error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
    )


def _check_identity(op: Operation, new: Object, old: Object) -> None:
    meta, known = metadata_of(new), old["metadata"]
    r = op.served.resource
    for field in ("name", "namespace"):
        now, before = meta.get(field) or "", known.get(field) or ""
        if now != before:
            raise BadRequest(
                f"the {field} of the object ({now}) does not match the {field} on the URL "
                f"({before})"
            )
    if meta.get("uid") != known["uid"]:
        wrong = FieldErrors([causes.invalid("metadata.uid", meta.get("uid"), "field is immutable")])
        wrong.raise_if_any(r.kind, known["name"], r.group)
    if (new.get("kind"), new.get("apiVersion")) != (r.kind, r.api_version):
        raise BadRequest("kind and apiVersion cannot be patched")
