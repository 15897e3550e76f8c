"""Events about new objects that nothing acts on: only kubectl shows the warnings of a response."""

from __future__ import annotations

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.group_scheduling import NOT_IMPLEMENTED
from holdfast.api.meta import ObjectReference
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.user import ADMIN
from holdfast.apiserver.wire.negotiation import PLAIN_JSON
from holdfast.apiserver.wire.request_info import RequestInfo
from holdfast.client.event_body import event_body, event_name, with_count
from holdfast.client.transport import Request

_COMPONENT = "apiserver"


def unimplemented_event(op: Operation, stored: bytes) -> tuple[Operation, JsonObject] | None:
    """Return an event about a created object, and the operation that creates the event.

    None: the object has an effect, or was made by a component of the cluster.
    """
    unimplemented = op.descriptor.unimplemented
    if not unimplemented.has_events or op.dry_run or op.user.is_component:
        return None
    obj = msgspec.json.decode(stored)
    messages = unimplemented.event_messages(obj)
    if not messages:
        return None
    context, resource, meta = op.context, op.descriptor.resource, obj["metadata"]
    regarding = ObjectReference(
        api_version=resource.api_version, kind=resource.kind,
        namespace=meta.get("namespace", ""), name=meta["name"], uid=meta["uid"],
    )  # fmt: skip
    now = context.clock.now()
    what = {"type": "Warning", "reason": NOT_IMPLEMENTED, "message": "; ".join(messages)}
    name = event_name(regarding, _COMPONENT, now, context.rng.randrange(0x10000))
    body = event_body(name, regarding, what, source=_COMPONENT, instance=_COMPONENT, now=now)
    event = msgspec.json.decode(with_count(body, 1, now))
    namespace = event["metadata"]["namespace"]
    descriptor = context.registry.find("", "v1", "events")
    info = RequestInfo("create", "", version="v1", namespace=namespace, plural="events")
    request = Request("POST", "")
    return Operation(context, info, descriptor, request, ADMIN, PLAIN_JSON), event
