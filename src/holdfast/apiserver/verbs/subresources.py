"""Which subresource answers which verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from holdfast.apiserver.kinds.subresources.binding import bind
from holdfast.apiserver.kinds.subresources.eviction import evict
from holdfast.apiserver.kinds.subresources.finalize import finalize
from holdfast.apiserver.kinds.subresources.log import read_log
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.patching import patch
from holdfast.apiserver.verbs.reading import get
from holdfast.apiserver.verbs.scale import scale
from holdfast.apiserver.verbs.updating import update
from holdfast.client.transport import Response
from holdfast.errors import NotAllowed, NotBuilt, NotFound

Handler = Callable[[Operation], Awaitable[Response]]


async def _get(op: Operation) -> Response:
    return get(op)


_HANDLERS: Mapping[str, Mapping[str, Handler]] = {
    "status": {"get": _get, "update": update, "patch": patch},
    "scale": {"get": scale, "update": scale, "patch": scale},
    "binding": {"create": bind},
    "eviction": {"create": evict},
    "log": {"get": read_log},
    "finalize": {"update": finalize},
}
_ELSEWHERE = {
    "attach": "attaching to containers",
    "exec": "running commands in containers",
    "portforward": "forwarding ports",
    "proxy": "proxying to pods, services and nodes",
    "ephemeralcontainers": "ephemeral containers",
    "resize": "resizing pods in place",
    "token": "service account tokens",
    "approval": "signing certificates",
}


async def answer_subresource(op: Operation) -> Response:
    """Answer a call on a subresource."""
    part = op.call.subresource
    if part.partition("/")[0] not in op.served.resource.subresources:
        raise NotFound("the server could not find the requested resource")
    if part.partition("/")[0] in _ELSEWHERE:
        what = _ELSEWHERE[part.partition("/")[0]]
        r = op.served.resource
        raise NotBuilt(f"{what} ({r.plural}/{part}) is not built yet in Holdfast")
    handlers = _HANDLERS.get(part)
    if handlers is None:
        raise NotFound("the server could not find the requested resource")
    handler = handlers.get(op.call.verb)
    if handler is None:
        raise NotAllowed("the server does not allow this method on the requested resource")
    return await handler(op)
