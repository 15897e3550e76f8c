"""The verb create."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import Served
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.stored_objects import builder
from holdfast.apiserver.verbs.admission import admit
from holdfast.apiserver.verbs.incoming import read_body
from holdfast.apiserver.verbs.metadata import generate_name, metadata_of, new_metadata
from holdfast.apiserver.verbs.namespaces import check_namespace_lives
from holdfast.apiserver.verbs.writing import pretended, show, typed_first
from holdfast.client.transport import Response
from holdfast.errors import AlreadyExists

_NAME_TRIES = 8


async def create(op: Operation) -> Response:
    """Create an object and answer with what was stored."""
    value = await create_object(op, read_body(op))
    return show(op, value, 201)


async def create_object(op: Operation, obj: JsonObject) -> bytes:
    """Complete, check and keep a new object; returns its stored bytes."""
    meta = metadata_of(obj)
    prefix = "" if meta.get("name") else str(meta.get("generateName") or "")
    check_namespace_lives(op, str(meta.get("name") or prefix))
    obj = fresh(obj, op.served, op.call.namespace, op.context.clock.now())
    if prefix:
        obj["metadata"] = {"name": generate_name(prefix, op.context.rng), **obj["metadata"]}
    obj = typed_first(await admit(op, obj, None), op.served)
    return await _keep(op, obj, prefix)


def fresh(obj: JsonObject, served: Served, namespace: str, now: float) -> JsonObject:
    """Give an object its identity and take away what only the server writes."""
    obj["metadata"] = new_metadata(obj, served, namespace, now)
    if served.has_status and not served.keeps_status_on_create:
        obj.pop("status", None)
    return obj


async def _keep(op: Operation, obj: JsonObject, prefix: str) -> bytes:
    store, meta = op.context.store, obj["metadata"]
    tries = _NAME_TRIES if prefix else 1
    for left in reversed(range(tries)):
        key = op.served.key(op.call.namespace, meta["name"])
        try:
            if op.dry_run:
                if store.latest(key) is not None:
                    raise AlreadyExists(f"{key.words} already exists", key.details)
                return pretended(obj, None)
            return (await store.create(key, builder(obj))).value
        except AlreadyExists:
            if not left:
                raise
            meta["name"] = generate_name(prefix, op.context.rng)
    raise AssertionError("the loop above returns or raises")
