"""The verb update, and functions that all updates of objects share."""

from __future__ import annotations

from functools import partial

from holdfast.api.decode import JsonObject
from holdfast.client.transport import Response
from holdfast.runtime.errors import BadRequest
from holdfast.server.operation import Operation
from holdfast.server.schema.object_schema import content_changed
from holdfast.server.schema.stored_objects import decode, value_builder
from holdfast.server.store import StoredObject
from holdfast.server.verbs.admission import admit
from holdfast.server.verbs.metadata import (
    check_namespace,
    check_version,
    metadata_of,
    updated_metadata,
)
from holdfast.server.verbs.pod_specs import with_stored_pod_claims
from holdfast.server.verbs.rendering import object_response
from holdfast.server.verbs.request_object import read_body
from holdfast.server.verbs.storing import commit, encode_dry_run, with_type_first


async def update(op: Operation) -> Response:
    """Replace an object or its status, and return it as stored."""
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
    """Return the object of the path, including pending writes; raise NotFound if there is none."""
    stored = op.context.store.latest(op.key)
    if stored is None:
        raise op.not_found()
    return stored


async def update_object(
    op: Operation, previous: StoredObject, old: JsonObject, new: JsonObject
) -> bytes:
    """Admit and store the next version of an object; return its stored bytes.

    A write without changes is not stored and causes no event. When the last finalizer of an object
    under deletion is removed, the object is deleted.
    """
    check_version(new, old, op.descriptor)
    merged = (
        _status_only(op, new, old)
        if op.request_info.subresource == "status"
        else _without_status_change(op, with_stored_pod_claims(op.descriptor, new, old), old)
    )
    merged["metadata"] = updated_metadata(merged, old, op.descriptor)
    merged = await admit(op, merged, old)
    if op.descriptor.has_generation and content_changed(merged, old):
        merged["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return await store_update(op, previous, old, with_type_first(merged, op.descriptor))


async def store_update(
    op: Operation, previous: StoredObject, old: JsonObject, new: JsonObject
) -> bytes:
    """Store an admitted version unless it is unchanged; delete the object if it is removable."""
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    if new == old:
        return previous.value
    if op.dry_run:
        return encode_dry_run(new, previous)
    store = op.context.store
    if is_removable(op, new):
        return await commit(op, partial(store.delete, previous, value_builder(new)))
    return await commit(op, partial(store.update, previous, value_builder(new)))


def is_removable(op: Operation, obj: JsonObject) -> bool:
    """Return whether the deletion of an object has begun and nothing blocks its removal."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if meta.get("deletionGracePeriodSeconds"):
        return False
    return not op.descriptor.deletion.blocks_removal(obj)


def _without_status_change(op: Operation, new: JsonObject, old: JsonObject) -> JsonObject:
    """Return the new object with the status of the old one."""
    if op.descriptor.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    for part in op.descriptor.fields_kept_on_update:
        new[part] = old.get(part, {})
    return new


def _status_only(op: Operation, new: JsonObject, old: JsonObject) -> JsonObject:
    """Return the old object with the status, labels and annotations of the new one."""
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
