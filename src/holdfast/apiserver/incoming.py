"""Read an object a client sent: its kind, its unknown fields, its shape."""

from __future__ import annotations

from typing import Any

from holdfast.apiserver import strict
from holdfast.apiserver.body import check_depth, may_be_deep, read_object
from holdfast.apiserver.conversion import inward
from holdfast.apiserver.negotiation import PROTOBUF, YAML
from holdfast.apiserver.operation import Operation
from holdfast.errors import BadRequest, Cause, Details, Invalid

Object = dict[str, Any]
_LEVELS = ("", "Ignore", "Warn", "Strict")


def read_body(op: Operation) -> Object:
    """Read the body as an object of the operation's kind, strict about fields if asked."""
    obj = read_object(op.request)
    if may_be_deep(op.request.body):
        check_depth(obj)
    check_kind(op, obj)
    media = op.request.headers.get("content-type", "")
    body = b"" if media.startswith((PROTOBUF, YAML)) else op.request.body
    return inward(op.served, known_fields(op, obj, body))


def check_kind(op: Operation, obj: Object) -> None:
    """Refuse an object of another kind or version than the path is for."""
    r = op.served.resource
    api_version, kind = obj.get("apiVersion") or r.api_version, obj.get("kind") or r.kind
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise BadRequest("apiVersion and kind must be strings")
    if api_version != r.api_version:
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API "
            f"version ({r.api_version})"
        )
    if kind != r.kind:
        raise BadRequest(
            f'{kind} in version "{r.version}" cannot be handled as a {r.kind}: '
            f"no kind {kind!r} is served at {op.call.path}".replace("'", '"')
        )
    obj["apiVersion"], obj["kind"] = api_version, kind


def known_fields(op: Operation, obj: Object, body: bytes = b"") -> Object:
    """Drop or complain about fields nobody knows, as ``fieldValidation`` says."""
    level = op.request.query.get("fieldValidation", "") or "Warn"
    if level not in _LEVELS:
        words = f'Unsupported value: "{level}": supported values: "Ignore", "Strict", "Warn"'
        cause = Cause("fieldValidation", words, "FieldValueNotSupported")
        raise Invalid(f"fieldValidation: {words}", Details(causes=(cause,)))
    custom = op.served.custom
    if custom is not None:
        obj, unknown = custom.schema.prune(obj)
    else:
        obj, unknown = strict.prune(op.served.resource, obj)
    if level == "Ignore":
        return obj
    repeated = strict.duplicate_fields(body) if body and level == "Strict" else []
    complaints = strict.complaints(unknown, repeated)
    if complaints and level == "Strict":
        raise BadRequest(strict.message(complaints))
    op.warnings.extend(complaints)
    return obj
