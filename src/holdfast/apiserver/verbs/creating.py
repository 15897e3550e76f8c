"""The verb create."""

from __future__ import annotations

import logging
from functools import partial

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import KindDescriptor
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.stored_objects import value_builder
from holdfast.apiserver.verbs.admission import admit
from holdfast.apiserver.verbs.metadata import generate_name, metadata_of, new_metadata
from holdfast.apiserver.verbs.namespace_lifecycle import check_namespace_active
from holdfast.apiserver.verbs.object_encoding import (
    encode_dry_run,
    object_response,
    with_type_first,
)
from holdfast.apiserver.verbs.request_object import read_body
from holdfast.apiserver.verbs.storing import commit
from holdfast.apiserver.verbs.unimplemented_events import unimplemented_event
from holdfast.client.transport import Response
from holdfast.errors import AlreadyExists, HoldfastError

_NAME_TRIES = 8
_log = logging.getLogger(__name__)


async def create(op: Operation) -> Response:
    """Create an object and return it as stored."""
    value = await create_object(op, read_body(op))
    if (event := unimplemented_event(op, value)) is not None:
        await _record(*event)
    return object_response(op, value, 201)


async def _record(op: Operation, event: JsonObject) -> None:
    """Store an event; the object that it is about is stored, so that a failure is only logged."""
    try:
        await create_object(op, event)
    except HoldfastError as refused:
        _log.warning("event %s is not stored: %s", event["metadata"]["name"], refused)


async def create_object(op: Operation, obj: JsonObject) -> bytes:
    """Admit and store a new object; return its stored bytes."""
    meta = metadata_of(obj)
    prefix = "" if meta.get("name") else str(meta.get("generateName") or "")
    check_namespace_active(op, str(meta.get("name") or prefix))
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
