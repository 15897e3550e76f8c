"""Read request bodies: JSON, YAML or protobuf in, one JSON value out."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from holdfast.apiserver.negotiation import PROTOBUF, YAML, body_media
from holdfast.apiserver.protobuf import decode_body
from holdfast.apiserver.yaml_body import parse_yaml
from holdfast.client.transport import Request
from holdfast.errors import BadRequest, TooLarge

BODY_LIMIT = 3 * 1024 * 1024
DEPTH_LIMIT = 200
PATH_LIMIT = 8 * 1024
"""The most characters of all names on the way from the root to a field."""
_COLLECTIONS = (dict, list)


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
        raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


def _is_small(text: bytes) -> bool:
    """Tell whether JSON is too short to break a limit of nesting; most is."""
    return len(text) < PATH_LIMIT and text.count(b"{") + text.count(b"[") <= DEPTH_LIMIT


def check_nesting(value: Any, depth: int = DEPTH_LIMIT) -> None:
    """Refuse what is nested too deep, or below names too long, for code that walks it.

    Depth costs stack. The names on the way to a field are its path, which is written out for
    each field below.

    >>> check_nesting([[[[]]]], 2)
    Traceback (most recent call last):
    holdfast.errors.BadRequest: the object is nested more than 2 levels deep
    """
    level: list[tuple[int, list[Any]]] = [(0, [value])]  # values below a path of this length
    for _ in range(depth + 1):
        inner: list[tuple[int, list[Any]]] = []
        for path, values in level:
            for item in values:
                inner += _below(path, item)
        if not inner:
            return
        if any(path > PATH_LIMIT for path, _ in inner):
            raise BadRequest(f"the path of a field is longer than {PATH_LIMIT} characters")
        level = inner
    raise BadRequest(f"the object is nested more than {depth} levels deep")


def _below(path: int, value: Any) -> list[tuple[int, list[Any]]]:
    """List the collections in a value; empty ones are left out."""
    if isinstance(value, dict):
        return [(path + len(k), [v]) for k, v in value.items() if v and type(v) in _COLLECTIONS]
    if isinstance(value, list):
        found = [v for v in value if v and type(v) in _COLLECTIONS]
        return [(path, found)] if found else []
    return []


def read_value(request: Request) -> Any:
    """Read the body in the form its Content-Type names; an empty body is None.

    Size and depth of what comes back are within the limits.
    """
    check_size(request.body)
    media = body_media(request.headers.get("content-type", ""))
    if not request.body:
        return None
    if media == PROTOBUF:
        value = decode_body(request.body)
    elif media == YAML:
        value = parse_yaml(request.body, DEPTH_LIMIT)
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
