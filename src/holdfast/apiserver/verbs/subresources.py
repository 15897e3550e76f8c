"""The subresources status and scale, common to all kinds, and the dispatch to any subresource."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.apiserver.descriptor import KindDescriptor, Subresource
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.patching import patch
from holdfast.apiserver.verbs.reading import get
from holdfast.apiserver.verbs.scale import SCALE, scale
from holdfast.apiserver.verbs.updating import update
from holdfast.apiserver.wire.responses import ServerResponse
from holdfast.client.transport import Response
from holdfast.errors import NotAllowed, NotBuilt, NotFound

_GET_PATCH_UPDATE = ("get", "patch", "update")


async def _get(op: Operation) -> Response:
    return get(op)


SHARED: Mapping[str, Subresource] = {
    "status": Subresource({"get": _get, "update": update, "patch": patch}, _GET_PATCH_UPDATE),
    "scale": Subresource({"get": scale, "update": scale, "patch": scale}, _GET_PATCH_UPDATE, SCALE),
}


def subresource_of(descriptor: KindDescriptor, name: str) -> Subresource | None:
    """Return a subresource of a kind, or None."""
    if name not in descriptor.resource.subresources:
        return None
    return descriptor.subresources.get(name) or SHARED.get(name)


async def handle_subresource(op: Operation) -> ServerResponse:
    """Handle a request for a subresource."""
    name = op.request_info.subresource
    found = subresource_of(op.descriptor, name.partition("/")[0])
    if found is None:
        raise NotFound("the server could not find the requested resource")
    if found.unimplemented:
        plural = op.descriptor.resource.plural
        raise NotBuilt(f"{found.unimplemented} ({plural}/{name}) is not built yet in Holdfast")
    if "/" in name:
        raise NotFound("the server could not find the requested resource")
    handler = found.handlers.get(op.request_info.verb)
    if handler is None:
        raise NotAllowed("the server does not allow this method on the requested resource")
    return await handler(op)
