"""The verb update, and what every way of changing an object shares."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.shapes import content_changed
from holdfast.apiserver.schema.stored_objects import builder, decode
from holdfast.apiserver.verbs.admission import admit
from holdfast.apiserver.verbs.incoming import read_body
from holdfast.apiserver.verbs.metadata import (
    check_namespace,
    check_version,
    metadata_of,
    next_metadata,
)
from holdfast.apiserver.verbs.writing import pretended, show, typed_first
from holdfast.client.transport import Response
from holdfast.errors import BadRequest
from holdfast.store import Stored


async def update(op: Operation) -> Response:
    """Replace an object (or its status) and answer with what was stored."""
    new = read_body(op)
    meta = metadata_of(new)
    check_namespace(meta, op.call.namespace if op.served.resource.namespaced else "")
    name = meta.setdefault("name", op.call.name)
    if name != op.call.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({op.call.name})"
        )
    previous = current(op)
    old = decode(previous)
    return show(op, await write(op, previous, old, new))


def current(op: Operation) -> Stored:
    """Read the object the path names, including writes under way, or raise its 404."""
    stored = op.context.store.latest(op.key)
    if stored is None:
        raise op.not_found()
    return stored


async def write(op: Operation, previous: Stored, old: JsonObject, new: JsonObject) -> bytes:
    """Check and keep the next version of an object; returns its stored bytes.

    A write that changes nothing keeps the version and tells nobody. The last finalizer to go
    from a dying object takes the object with it.
    """
    check_version(new, old, op.served)
    merged = _status_only(op, new, old) if op.call.subresource == "status" else _main(op, new, old)
    merged["metadata"] = next_metadata(merged, old, op.served)
    merged = await admit(op, merged, old)
    if op.served.counts_generations and content_changed(merged, old):
        merged["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return await keep(op, previous, old, typed_first(merged, op.served))


async def keep(op: Operation, previous: Stored, old: JsonObject, new: JsonObject) -> bytes:
    """Store a new version that has been decided on, unless it says nothing new."""
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    if new == old:
        return previous.value
    if op.dry_run:
        return pretended(new, previous)
    store = op.context.store
    if is_finished(op, new):
        return (await store.delete(previous, builder(new))).value
    return (await store.update(previous, builder(new))).value


def is_finished(op: Operation, obj: JsonObject) -> bool:
    """Tell whether nothing holds a dying object any more."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if meta.get("deletionGracePeriodSeconds"):
        return False
    return not op.served.deletion.is_held(obj)


def _main(op: Operation, new: JsonObject, old: JsonObject) -> JsonObject:
    """Take all but the status."""
    if op.served.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    for part in op.served.update_keeps:
        new[part] = old.get(part, {})
    return new


def _status_only(op: Operation, new: JsonObject, old: JsonObject) -> JsonObject:
    """Take nothing but the status and what of the metadata goes with it."""
    merged = {**old, "metadata": dict(old["metadata"])}
    merged.pop("status", None)
    if new.get("status") is not None:
        merged["status"] = new["status"]
    for part in op.served.status_metadata:
        value = metadata_of(new).get(part)
        merged["metadata"].pop(part, None)
        if value:
            merged["metadata"][part] = value
    return merged
