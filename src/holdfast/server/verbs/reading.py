"""The verbs get and list."""

from __future__ import annotations

import base64
from bisect import bisect_right
from typing import Annotated, Any

import msgspec

from holdfast.client.transport import Response
from holdfast.runtime.errors import BadRequest, Expired, status_of
from holdfast.server.operation import Operation
from holdfast.server.store import StoredObject
from holdfast.server.verbs.rendering import object_response, render_list
from holdfast.server.verbs.selection import Selection, selection_of
from holdfast.server.wire.query_options import integer_option
from holdfast.server.wire.resource_versions import (
    check_not_newer,
    parse_resource_version,
    revision_to_list,
)
from holdfast.server.wire.responses import encoded_response

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_TOKEN_VERSION = "meta.k8s.io/v1"


class _Token(msgspec.Struct):
    """A decoded continue token."""

    v: str = ""
    rv: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] = 0
    start: str = ""


def get(op: Operation) -> Response:
    """Return one object."""
    stored = op.context.store.get(op.key)
    if stored is None:
        raise op.not_found()
    wanted = parse_resource_version(op.request.query.get("resourceVersion", ""))
    check_not_newer(wanted, op.context.store.revision)
    return object_response(op, stored.value)


async def list_objects(op: Operation) -> Response:
    """Return a list, or a page of it."""
    selection, query = selection_of(op), op.request.query
    limit = max(0, integer_option(query, "limit") or 0)
    if token := query.get("continue"):
        return await _next_page(op, selection, token, limit)
    exact = revision_to_list(query, op.context.store.revision, paged=bool(limit))
    if exact is None:
        revision = op.context.store.revision
        return await _page(op, selection, selection.list_now(op.context.store), revision, limit)
    return await _page(op, selection, selection.list_at(op.context.store, exact), exact, limit)


async def _page(
    op: Operation, selection: Selection, objects: list[StoredObject], revision: int, limit: int
) -> Response:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if limit and len(objects) > limit:
        metadata["continue"] = encode_continue(revision, objects[limit - 1].key.path)
        if selection.everything:
            metadata["remainingItemCount"] = len(objects) - limit
        objects = objects[:limit]
    listed = await render_list(op, [s.value for s in objects], metadata)
    return encoded_response(listed, 200, op.response_format)


async def _next_page(op: Operation, selection: Selection, token: str, limit: int) -> Response:
    if op.request.query.get("resourceVersion", "") not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    revision, start = decode_continue(token)
    store = op.context.store
    if revision < 0:  # the token of an Expired response: continue with the newest revision
        objects, revision = selection.list_now(store), store.revision
    else:
        check_not_newer(revision, store.revision)
        try:
            objects = selection.list_at(store, revision)
        except Expired:
            return _expired(start)
    paths = [stored.key.path for stored in objects]
    return await _page(op, selection, objects[bisect_right(paths, start) :], revision, limit)


def _expired(start: str) -> Response:
    """Return 410 with a token that continues the list at the newest revision."""
    status = status_of(Expired(_EXPIRED))
    status["metadata"] = {"continue": encode_continue(-1, start)}
    return encoded_response(msgspec.json.encode(status) + b"\n", 410)


def encode_continue(revision: int, last: str) -> str:
    """Return a continue token: the revision of all pages, and the last key returned."""
    token = _Token(_TOKEN_VERSION, revision, last)
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def decode_continue(text: str) -> tuple[int, str]:
    """Parse a continue token; raise BadRequest if it is invalid.

    >>> decode_continue(encode_continue(7, "default/a"))
    (7, 'default/a')
    """
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (ValueError, RecursionError, msgspec.DecodeError) as wrong:
        raise _bad_token(f": {wrong}") from wrong
    if token.v != _TOKEN_VERSION:
        raise _bad_token(f": server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise _bad_token(f": incorrect encoded start resourceVersion (version {token.v})")
    if not token.start:
        raise _bad_token(f": encoded start key empty (version {token.v})")
    return token.rv, token.start


def _bad_token(reason: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid{reason}")
