"""Decode the object in a request, check its kind, validate and prune its fields."""

from __future__ import annotations

from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.runtime.errors import BadRequest
from holdfast.server.operation import Operation
from holdfast.server.schema import field_validation
from holdfast.server.schema.fields import Gvk
from holdfast.server.verbs.conversion import to_storage_version
from holdfast.server.verbs.pod_specs import with_typed_pod_claims
from holdfast.server.wire.body import read_object
from holdfast.server.wire.negotiation import PROTOBUF, YAML
from holdfast.server.wire.query_options import field_validation_level


def read_body(op: Operation) -> JsonObject:
    """Decode the body as an object of the operation's kind, in the storage version."""
    obj = _read(op)
    check_kind(op, obj)
    media = op.request.headers.get("content-type", "")
    body = b"" if media.startswith((PROTOBUF, YAML)) else op.request.body
    return to_storage_version(op.descriptor, apply_field_validation(op, obj, body))


def read_body_as(op: Operation, kind: Gvk) -> JsonObject:
    """Decode the body as an object of another built-in kind: a review, a Binding, a Scale."""
    return prune_built_in(read_object(op.request), kind)


def prune_built_in(obj: Any, kind: Gvk) -> JsonObject:
    """Return a copy without unknown fields; raise BadRequest for fields of wrong types."""
    message = f'{kind[2]} in version "{kind[1]}" cannot be handled as a {kind[2]}'
    if not isinstance(obj, dict):
        raise BadRequest(f"{message}: it is not an object")
    try:
        return field_validation.prune(kind, obj)[0]
    except BadRequest as wrong:
        raise BadRequest(f"{message}: {wrong.message}") from wrong


def _read(op: Operation) -> JsonObject:
    try:
        return read_object(op.request)
    except BadRequest as wrong:
        kind = op.descriptor.resource.kind
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; {wrong.message} ({_excerpt(op.request.body)})"
        ) from wrong


def _excerpt(body: bytes) -> str:
    if not body:
        return "<empty>"
    shown = body[:30].decode(errors="replace") if body[:1] == b"{" else body[:30].hex()
    return shown + ("..." if len(body) > 30 else "")


def check_kind(op: Operation, obj: JsonObject) -> None:
    """Raise BadRequest if kind or apiVersion do not match the path; set absent ones."""
    r = op.descriptor.resource
    api_version, kind = obj.get("apiVersion") or r.api_version, obj.get("kind") or r.kind
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise BadRequest("apiVersion and kind must be strings")
    version = api_version.rpartition("/")[2]
    message = ""
    if api_version != r.api_version and _is_served(op, api_version, kind):
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({r.api_version})"
        )
    if api_version != r.api_version:
        message = f'no kind "{kind}" is registered for version "{api_version}"'
    elif kind != r.kind:
        group = r.group.partition(".")[0] or "core"
        message = f"converting ({version}.{kind}) to ({group}.{r.kind}): unknown conversion"
    if message:
        raise _cannot_be_handled(op, message, kind, version)
    obj["apiVersion"], obj["kind"] = api_version, kind


def _is_served(op: Operation, api_version: str, kind: str) -> bool:
    known = (other.resource for other in op.context.registry)
    return any(r.api_version == api_version and r.kind == kind for r in known)


def _cannot_be_handled(
    op: Operation, message: str, kind: str = "", version: str = ""
) -> BadRequest:
    r = op.descriptor.resource
    kind, version = kind or r.kind, version or r.version
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {r.kind}: {message}')


def apply_field_validation(op: Operation, obj: JsonObject, body: bytes = b"") -> JsonObject:
    """Drop unknown fields; warn of them or raise BadRequest, by ``fieldValidation``.

    Claims of pods get their stored form first, because other forms have unknown fields.
    """
    obj = with_typed_pod_claims(op.descriptor, obj)
    level = field_validation_level(op.request_info.verb, op.request.query)
    try:
        obj, unknown = op.descriptor.object_schema.prune(obj)
    except BadRequest as wrong:
        raise _cannot_be_handled(op, wrong.message) from wrong
    if level == "Ignore":
        return obj
    repeated = field_validation.duplicate_fields(body) if body and level == "Strict" else []
    warnings = field_validation.field_warnings(unknown, repeated)
    if warnings and level == "Strict":
        raise _cannot_be_handled(op, field_validation.strict_error_message(warnings))
    op.warnings.extend(warnings)
    return obj
