"""Read request bodies: JSON, YAML or protobuf in, one JSON value out."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from holdfast.apiserver.wire.negotiation import PROTOBUF, YAML, body_media_type
from holdfast.apiserver.wire.nesting_limit import DEPTH_LIMIT, PATH_LIMIT, check_nesting
from holdfast.apiserver.wire.protobuf import decode_body
from holdfast.apiserver.wire.yaml_body import parse_yaml
from holdfast.client.transport import Request
from holdfast.errors import BadRequest, TooLarge

BODY_LIMIT = 3 * 1024 * 1024


def parse_json(text: bytes) -> Any:
    """Read JSON; nesting over the limit is refused.

    msgspec counts its own recursion and stops at Python's limit, whatever the body.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as broken:
        raise BadRequest(f"json parse error: {broken}") from broken
    if not _is_small(text):
        check_nesting(value)
    return value


def check_size(body: bytes) -> None:
    """Refuse a body over the limit."""
    if len(body) > BODY_LIMIT:
        raise too_large()


def too_large() -> TooLarge:
    """Build the error for a body over the limit."""
    return TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


def _is_small(text: bytes) -> bool:
    """Tell whether JSON is too short to break a limit of nesting; most is."""
    return len(text) < PATH_LIMIT and text.count(b"{") + text.count(b"[") <= DEPTH_LIMIT


def read_value(request: Request) -> Any:
    """Read the body in the form its Content-Type names; an empty body is None.

    Size and depth of what comes back are within the limits.
    """
    check_size(request.body)
    media = body_media_type(request.headers.get("content-type", ""))
    if not request.body:
        return None
    if media == PROTOBUF:
        value = decode_body(request.body)
    elif media == YAML:
        value = parse_yaml(request.body)
    else:
        return parse_json(request.body)
    check_nesting(value)
    return value


def read_object(request: Request) -> dict[str, Any]:
    """Read the body as one API object."""
    value = read_value(request)
    if value is None:
        raise BadRequest("json parse error: unexpected end of JSON input")
    if not isinstance(value, dict):
        raise BadRequest("json parse error: the body must be one JSON object")
    return cast("dict[str, Any]", value)
