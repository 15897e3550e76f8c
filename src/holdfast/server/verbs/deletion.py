"""The verbs delete and deletecollection: preconditions, grace period, finalizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.client.transport import Response
from holdfast.runtime.errors import BadRequest, Conflict, Details, NotFound
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode, value_builder
from holdfast.server.store import StoredObject
from holdfast.server.verbs.admission import admit_deletion
from holdfast.server.verbs.rendering import object_response, render_list
from holdfast.server.verbs.selection import selection_of
from holdfast.server.verbs.storing import encode_dry_run, with_type_first
from holdfast.server.verbs.updating import is_removable, latest_object
from holdfast.server.wire.body import read_value
from holdfast.server.wire.query_options import integer_option, invalid_option, unsupported_option
from holdfast.server.wire.request_info import is_true
from holdfast.server.wire.responses import encoded_response, success_response

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan")


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The DeleteOptions of a request, from its body or query."""

    grace_period_seconds: Annotated[int, msgspec.Meta(le=(1 << 63) - 1)] | None = None
    preconditions: dict[str, str | None] | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


def read_options(op: Operation) -> DeleteOptions:
    """Read DeleteOptions from the body, or from the query if the body is empty."""
    query = op.request.query
    value = read_value(op.request)
    if value is None:
        value = {name: query[name] for name in ("propagationPolicy",) if name in query}
        if "orphanDependents" in query:
            value["orphanDependents"] = is_true(query["orphanDependents"])
        value["gracePeriodSeconds"] = integer_option(query, "gracePeriodSeconds")
    try:
        options = msgspec.convert(value, DeleteOptions)
    except msgspec.ValidationError as wrong:
        raise BadRequest(f"DeleteOptions: {wrong}") from wrong
    _check_options(options)
    return options


def _check_options(options: DeleteOptions) -> None:
    kind, field, policy = "DeleteOptions", "propagationPolicy", options.propagation_policy
    if policy is None:
        return
    if options.orphan_dependents is not None:
        message = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_option(kind, field, f'Invalid value: "{policy}": {message}')
    if policy not in _POLICIES:
        raise unsupported_option(kind, field, f'"{policy}"', (*_POLICIES, "nil"))


async def delete(op: Operation) -> Response:
    """Delete an object, at once or after its grace period and finalizers."""
    options = read_options(op)
    if op.request_info.name in op.descriptor.deletion.protected_names:
        message = f"this {op.descriptor.resource.singular} may not be deleted"
        raise op.forbidden(message)
    previous = latest_object(op)
    check_preconditions(op, previous, options)
    value, deleted = await delete_stored(op, previous, options)
    if deleted and not op.descriptor.deletion.returns_object:
        details = op.details
        return success_response(Details(details.name, details.group, details.kind, previous.uid))
    return object_response(op, value)


def check_preconditions(op: Operation, previous: StoredObject, options: DeleteOptions) -> None:
    """Raise Conflict if uid or resourceVersion do not match the preconditions."""
    wanted: Mapping[str, str | None] = options.preconditions or {}
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid is not None and uid != previous.uid:
        message = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({previous.uid}). The object might have been deleted and then recreated"
        )
    elif version is not None and version != str(previous.revision):
        message = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({previous.revision}). The object might have been modified"
        )
    else:
        return
    r = op.descriptor.resource
    qualified = f"{r.kind}.{r.group}" if r.group else r.kind
    raise Conflict(
        f'Operation cannot be fulfilled on {qualified} "{previous.key.name}": {message}',
        Details(name=previous.key.name, group=r.group, kind=r.kind),
    )


async def delete_stored(
    op: Operation, previous: StoredObject, options: DeleteOptions
) -> tuple[bytes, bool]:
    """Delete an object or begin its deletion; return its bytes and whether it is deleted."""
    old = decode(previous)
    admit_deletion(op, old)
    new = with_type_first(begin_deletion(op, old, options), op.descriptor)
    deleted = is_removable(op, new)
    store = op.context.store
    if op.dry_run or "All" in (options.dry_run or ()):
        return encode_dry_run(new, previous), deleted
    if deleted:
        _restore_metadata(op, new, old)
        return (await store.delete(previous, value_builder(new))).value, True
    if new == old:
        return previous.value, False
    return (await store.update(previous, value_builder(new))).value, False


def _restore_metadata(op: Operation, new: JsonObject, old: JsonObject) -> None:
    """Restore the metadata of an object that is deleted at once and has no grace period."""
    if op.descriptor.deletion.grace_seconds is None and not old["metadata"].get(
        "deletionTimestamp"
    ):
        new["metadata"] = dict(old["metadata"])


def begin_deletion(op: Operation, old: JsonObject, options: DeleteOptions) -> JsonObject:
    """Return the object with deletionTimestamp, grace period and finalizers set."""
    old_metadata, deletion = old["metadata"], op.descriptor.deletion
    finalizers = next_finalizers(op, old_metadata.get("finalizers") or [], options)
    if deletion.finalizer and not old_metadata.get("deletionTimestamp"):
        finalizers = [*(f for f in finalizers if f != deletion.finalizer), deletion.finalizer]
    meta = {**old_metadata, "finalizers": finalizers}
    if not finalizers:
        del meta["finalizers"]
    if old_metadata.get("deletionTimestamp"):
        return _shorten_grace(old, meta, options)
    grace = (
        deletion.grace_seconds(old, options.grace_period_seconds) if deletion.grace_seconds else 0
    )
    if old_metadata.get("generation") and (deletion.grace_seconds or finalizers):
        meta["generation"] = old_metadata["generation"] + 1
    meta["deletionTimestamp"] = rfc3339(op.context.clock.now() + grace)
    new = {**old, "metadata": meta}
    deletion.mark_deleting(new, grace)
    return new


def _shorten_grace(old: JsonObject, meta: JsonObject, options: DeleteOptions) -> JsonObject:
    """Delete an object again: the grace period may only become shorter."""
    before = meta.get("deletionGracePeriodSeconds") or 0
    wanted = options.grace_period_seconds
    if wanted is not None and 0 <= wanted < before:
        since = parse_rfc3339(meta["deletionTimestamp"]) - before
        meta["deletionTimestamp"] = rfc3339(since + wanted)
        meta["deletionGracePeriodSeconds"] = wanted
    return {**old, "metadata": meta}


def next_finalizers(op: Operation, finalizers: list[str], options: DeleteOptions) -> list[str]:
    """Add or remove the finalizers of garbage collection, by the propagation policy."""
    if not op.descriptor.deletion.has_dependents:
        return finalizers
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            return finalizers
        policy = "Orphan" if op.descriptor.deletion.orphans_by_default else "Background"
    others = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return others + added


async def delete_collection(op: Operation) -> Response:
    """Delete all selected objects and return the list of them."""
    options = read_options(op)
    selection, store = selection_of(op), op.context.store
    shown = []
    for stored in selection.list_now(store):
        previous = store.latest(stored.key)
        if previous is None:
            continue
        try:
            value, _ = await delete_stored(op, previous, options)
        except (Conflict, NotFound):
            continue  # another request has changed or deleted it
        shown.append(value)
    listed = await render_list(op, shown, {"resourceVersion": str(store.revision)})
    return encoded_response(listed, 200, op.response_format)
