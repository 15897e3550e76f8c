"""Decode request bodies (JSON, YAML, protobuf) to JSON values."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from holdfast.client.transport import Request
from holdfast.runtime.errors import BadRequest, TooLarge
from holdfast.server.wire.negotiation import PROTOBUF, YAML, body_media_type
from holdfast.server.wire.nesting_limit import DEPTH_LIMIT, PATH_LIMIT, check_nesting
from holdfast.server.wire.protobuf import decode_body
from holdfast.server.wire.yaml_body import parse_yaml

BODY_LIMIT = 3 * 1024 * 1024


def parse_json(text: bytes) -> Any:
    """Decode JSON; raise BadRequest if it is nested too deep.

    msgspec limits its own recursion, so that no body overflows the stack.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as broken:
        raise BadRequest(f"json parse error: {broken}") from broken
    if not _is_small(text):
        check_nesting(value)
    return value


def check_size(body: bytes) -> None:
    """Raise TooLarge for a body over the limit."""
    if len(body) > BODY_LIMIT:
        raise too_large()


def too_large(limit: int = BODY_LIMIT) -> TooLarge:
    """Build the error for a body over a limit."""
    return TooLarge(f"Request entity too large: limit is {limit}")


def _is_small(text: bytes) -> bool:
    """Return whether JSON is too short to exceed the limits on nesting, as most bodies are."""
    return len(text) < PATH_LIMIT and text.count(b"{") + text.count(b"[") <= DEPTH_LIMIT


def read_value(request: Request) -> Any:
    """Decode the body by its Content-Type; an empty body is None.

    Size and nesting of the result are within the limits.
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
    """Decode the body as an API object."""
    value = read_value(request)
    if value is None:
        raise BadRequest("json parse error: unexpected end of JSON input")
    if not isinstance(value, dict):
        raise BadRequest("json parse error: the body must be one JSON object")
    return cast("dict[str, Any]", value)
