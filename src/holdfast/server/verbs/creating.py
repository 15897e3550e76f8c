"""The verb create: the namespace must be active, and features without effect get an event."""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.group_scheduling import NOT_IMPLEMENTED
from holdfast.api.meta import ObjectReference
from holdfast.client.event_body import event_body, event_name, with_count
from holdfast.client.transport import Request, Response
from holdfast.runtime.errors import (
    AlreadyExists,
    Cause,
    Details,
    Forbidden,
    HoldfastError,
    NotFound,
)
from holdfast.server.descriptor import KindDescriptor
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import is_terminating, value_builder
from holdfast.server.store import ObjectKey
from holdfast.server.user import ADMIN
from holdfast.server.verbs.admission import admit
from holdfast.server.verbs.metadata import generate_name, metadata_of, new_metadata
from holdfast.server.verbs.rendering import object_response
from holdfast.server.verbs.request_object import read_body
from holdfast.server.verbs.storing import commit, encode_dry_run, with_type_first
from holdfast.server.wire.negotiation import PLAIN_JSON
from holdfast.server.wire.request_info import RequestInfo

_NAME_TRIES = 8
_log = logging.getLogger(__name__)
_COMPONENT = "apiserver"


async def create(op: Operation) -> Response:
    """Create an object and return it as stored."""
    value = await create_object(op, read_body(op))
    if (event := _unimplemented_event(op, value)) is not None:
        await _record(*event)
    return object_response(op, value, 201)


async def _record(op: Operation, event: JsonObject) -> None:
    """Store an event; a failure is only logged, because the object of the event is stored."""
    try:
        await create_object(op, event)
    except HoldfastError as refused:
        _log.warning("event %s is not stored: %s", event["metadata"]["name"], refused)


async def create_object(op: Operation, obj: JsonObject) -> bytes:
    """Admit and store a new object; return its stored bytes."""
    meta = metadata_of(obj)
    prefix = "" if meta.get("name") else str(meta.get("generateName") or "")
    _check_namespace_active(op, str(meta.get("name") or prefix))
    obj = prepare_for_create(obj, op.descriptor, op.request_info.namespace, op.context.clock.now())
    if prefix:
        obj["metadata"] = {"name": generate_name(prefix, op.context.rng), **obj["metadata"]}
    obj = with_type_first(await admit(op, obj, None), op.descriptor)
    return await _store(op, obj, prefix)


def prepare_for_create(
    obj: JsonObject, descriptor: KindDescriptor, namespace: str, now: float
) -> JsonObject:
    """Set the metadata of a new object, and remove its status."""
    obj["metadata"] = new_metadata(obj, descriptor, namespace, now)
    if descriptor.has_status and not descriptor.keeps_status_on_create:
        obj.pop("status", None)
    return obj


async def _store(op: Operation, obj: JsonObject, prefix: str) -> bytes:
    store, meta = op.context.store, obj["metadata"]
    tries = _NAME_TRIES if prefix else 1
    for retries_left in reversed(range(tries)):
        key = op.descriptor.key(op.request_info.namespace, meta["name"])
        try:
            if op.dry_run:
                if store.latest(key) is not None:
                    raise AlreadyExists(f"{key.display_name} already exists", key.details)
                return encode_dry_run(obj, None)
            return await commit(op, partial(store.create, key, value_builder(obj)))
        except AlreadyExists:
            if not retries_left:
                raise
            meta["name"] = generate_name(prefix, op.context.rng)
    raise AssertionError("the loop above returns or raises")


def _check_namespace_active(op: Operation, name: str) -> None:
    """Raise NotFound if the namespace does not exist, Forbidden if it is terminating."""
    space = op.request_info.namespace
    if not op.descriptor.resource.namespaced or not space:
        return
    namespace = op.context.store.latest(ObjectKey("", "namespaces", "", space))
    if namespace is None:
        raise NotFound(f'namespaces "{space}" not found', Details(name=space, kind="namespaces"))
    if is_terminating(namespace):
        key = op.descriptor.key(space, name)
        message = f"namespace {space} is being terminated"
        raise Forbidden(
            f"{key.display_name} is forbidden: unable to create new content in namespace {space} "
            "because it is being terminated",
            Details(
                name=name,
                group=key.group,
                kind=key.plural,
                causes=(Cause("metadata.namespace", message, "NamespaceTerminating"),),
            ),
        )


def _unimplemented_event(op: Operation, stored: bytes) -> tuple[Operation, JsonObject] | None:
    """Return an event about a created object, and the operation that creates the event.

    The event is for clients other than kubectl, which do not show the warnings of a response.
    Returns None if the object has an effect, or if a component of the cluster created it.
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
