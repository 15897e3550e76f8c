"""The verb update, and what every way of changing an object shares."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.object_schema import content_changed
from holdfast.apiserver.schema.stored_objects import decode, value_builder
from holdfast.apiserver.verbs.admission import admit
from holdfast.apiserver.verbs.metadata import (
    check_namespace,
    check_version,
    metadata_of,
    updated_metadata,
)
from holdfast.apiserver.verbs.object_encoding import (
    encode_dry_run,
    object_response,
    with_type_first,
)
from holdfast.apiserver.verbs.request_object import read_body
from holdfast.client.transport import Response
from holdfast.errors import BadRequest
from holdfast.store import StoredObject


async def update(op: Operation) -> Response:
    """Replace an object (or its status) and answer with what was stored."""
    new = read_body(op)
    meta = metadata_of(new)
    check_namespace(meta, op.request_info.namespace if op.descriptor.resource.namespaced else "")
    name = meta.setdefault("name", op.request_info.name)
    if name != op.request_info.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL "
            f"({op.request_info.name})"
        )
    previous = latest_object(op)
    old = decode(previous)
    return object_response(op, await update_object(op, previous, old, new))


def latest_object(op: Operation) -> StoredObject:
    """Read the object the path names, including writes under way, or raise its 404."""
    stored = op.context.store.latest(op.key)
    if stored is None:
        raise op.not_found()
    return stored


async def update_object(
    op: Operation, previous: StoredObject, old: JsonObject, new: JsonObject
) -> bytes:
    """Check and keep the next version of an object; returns its stored bytes.

    A write that changes nothing keeps the version and tells nobody. The last finalizer to go
    from a dying object takes the object with it.
    """
    check_version(new, old, op.descriptor)
    merged = (
        _status_only(op, new, old)
        if op.request_info.subresource == "status"
        else _main(op, new, old)
    )
    merged["metadata"] = updated_metadata(merged, old, op.descriptor)
    merged = await admit(op, merged, old)
    if op.descriptor.has_generation and content_changed(merged, old):
        merged["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return await store_update(op, previous, old, with_type_first(merged, op.descriptor))


async def store_update(
    op: Operation, previous: StoredObject, old: JsonObject, new: JsonObject
) -> bytes:
    """Store a new version that has been decided on, unless it says nothing new."""
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    if new == old:
        return previous.value
    if op.dry_run:
        return encode_dry_run(new, previous)
    store = op.context.store
    if is_removable(op, new):
        return (await store.delete(previous, value_builder(new))).value
    return (await store.update(previous, value_builder(new))).value


def is_removable(op: Operation, obj: JsonObject) -> bool:
    """Tell whether nothing holds a dying object any more."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if meta.get("deletionGracePeriodSeconds"):
        return False
    return not op.descriptor.deletion.blocks_removal(obj)


def _main(op: Operation, new: JsonObject, old: JsonObject) -> JsonObject:
    """Take all but the status."""
    if op.descriptor.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    for part in op.descriptor.fields_kept_on_update:
        new[part] = old.get(part, {})
    return new


def _status_only(op: Operation, new: JsonObject, old: JsonObject) -> JsonObject:
    """Take nothing but the status and what of the metadata goes with it."""
    merged = {**old, "metadata": dict(old["metadata"])}
    merged.pop("status", None)
    if new.get("status") is not None:
        merged["status"] = new["status"]
    for part in op.descriptor.status_metadata:
        value = metadata_of(new).get(part)
        merged["metadata"].pop(part, None)
        if value:
            merged["metadata"][part] = value
    return merged
