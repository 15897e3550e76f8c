"""The verbs delete and deletecollection: preconditions, grace, finalizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from holdfast.api.decode import JsonObject
from holdfast.api.timestamps import parse_rfc3339, rfc3339
from holdfast.apiserver.operation import Operation
from holdfast.apiserver.schema.stored_objects import decode, value_builder
from holdfast.apiserver.verbs.object_encoding import (
    encode_dry_run,
    object_response,
    with_type_first,
)
from holdfast.apiserver.verbs.rendering import render_list
from holdfast.apiserver.verbs.selection import selection_of
from holdfast.apiserver.verbs.updating import is_removable, latest_object
from holdfast.apiserver.wire.body import read_value
from holdfast.apiserver.wire.query_options import integer_option, invalid_option, unsupported_option
from holdfast.apiserver.wire.request_info import is_true
from holdfast.apiserver.wire.responses import encoded_response, success_response
from holdfast.client.transport import Response
from holdfast.errors import BadRequest, Conflict, Details, Forbidden, NotFound
from holdfast.store import StoredObject

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan")


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How something is to be deleted, from the body or from the query."""

    grace_period_seconds: Annotated[int, msgspec.Meta(le=(1 << 63) - 1)] | None = None
    preconditions: dict[str, str | None] | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


def read_options(op: Operation) -> DeleteOptions:
    """Read DeleteOptions from the body, else from the query."""
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
        words = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_option(kind, field, f'Invalid value: "{policy}": {words}')
    if policy not in _POLICIES:
        raise unsupported_option(kind, field, f'"{policy}"', (*_POLICIES, "nil"))


async def delete(op: Operation) -> Response:
    """Delete one object, at once or as its grace and finalizers allow."""
    options = read_options(op)
    if op.request_info.name in op.descriptor.deletion.protected_names:
        words = f"this {op.descriptor.resource.singular} may not be deleted"
        raise Forbidden(f"{op.key.display_name} is forbidden: {words}", op.details)
    previous = latest_object(op)
    check_preconditions(op, previous, options)
    value, gone = await delete_stored(op, previous, options)
    if gone and not op.descriptor.deletion.returns_object:
        details = op.details
        return success_response(Details(details.name, details.group, details.kind, previous.uid))
    return object_response(op, value)


def check_preconditions(op: Operation, previous: StoredObject, options: DeleteOptions) -> None:
    """Refuse to delete another incarnation or version than the one meant."""
    wanted: Mapping[str, str | None] = options.preconditions or {}
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid is not None and uid != previous.uid:
        words = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({previous.uid}). The object might have been deleted and then recreated"
        )
    elif version is not None and version != str(previous.revision):
        words = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({previous.revision}). The object might have been modified"
        )
    else:
        return
    r = op.descriptor.resource
    qualified = f"{r.kind}.{r.group}" if r.group else r.kind
    raise Conflict(
        f'Operation cannot be fulfilled on {qualified} "{previous.key.name}": {words}',
        Details(name=previous.key.name, group=r.group, kind=r.kind),
    )


async def delete_stored(
    op: Operation, previous: StoredObject, options: DeleteOptions
) -> tuple[bytes, bool]:
    """Delete or mark one stored object; returns its last bytes and whether it is gone."""
    old = decode(previous)
    new = with_type_first(begin_deletion(op, old, options), op.descriptor)
    gone = is_removable(op, new)
    store = op.context.store
    if op.dry_run or "All" in (options.dry_run or ()):
        return encode_dry_run(new, previous), gone
    if gone:
        _unmark(op, new, old)
        return (await store.delete(previous, value_builder(new))).value, True
    if new == old:
        return previous.value, False
    return (await store.update(previous, value_builder(new))).value, False


def _unmark(op: Operation, new: JsonObject, old: JsonObject) -> None:
    """Show a plainly deleted object as it was; what has grace, or lingered, carries the marks."""
    if op.descriptor.deletion.grace_seconds is None and not old["metadata"].get(
        "deletionTimestamp"
    ):
        new["metadata"] = dict(old["metadata"])


def begin_deletion(op: Operation, old: JsonObject, options: DeleteOptions) -> JsonObject:
    """Mark an object as dying."""
    known, deletion = old["metadata"], op.descriptor.deletion
    finalizers = next_finalizers(op, known.get("finalizers") or [], options)
    if deletion.finalizer and not known.get("deletionTimestamp"):
        finalizers = [*(f for f in finalizers if f != deletion.finalizer), deletion.finalizer]
    meta = {**known, "finalizers": finalizers}
    if not finalizers:
        del meta["finalizers"]
    if known.get("deletionTimestamp"):
        return _again(old, meta, options)
    grace = (
        deletion.grace_seconds(old, options.grace_period_seconds) if deletion.grace_seconds else 0
    )
    if known.get("generation") and (deletion.grace_seconds or finalizers):
        meta["generation"] = known["generation"] + 1
    meta["deletionTimestamp"] = rfc3339(op.context.clock.now() + grace)
    new = {**old, "metadata": meta}
    deletion.mark_deleting(new, grace)
    return new


def _again(old: JsonObject, meta: JsonObject, options: DeleteOptions) -> JsonObject:
    """Delete what is being deleted: grace may only get shorter."""
    before = meta.get("deletionGracePeriodSeconds") or 0
    wanted = options.grace_period_seconds
    if wanted is not None and 0 <= wanted < before:
        since = parse_rfc3339(meta["deletionTimestamp"]) - before
        meta["deletionTimestamp"] = rfc3339(since + wanted)
        meta["deletionGracePeriodSeconds"] = wanted
    return {**old, "metadata": meta}


def next_finalizers(op: Operation, known: list[str], options: DeleteOptions) -> list[str]:
    """Add or take away the garbage collector's finalizers, as the propagation policy says."""
    if not op.descriptor.deletion.has_dependents:
        return known
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        if ORPHAN in known or FOREGROUND in known:
            return known
        policy = "Orphan" if op.descriptor.deletion.orphans_by_default else "Background"
    others = [name for name in known if name not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return others + added


async def delete_collection(op: Operation) -> Response:
    """Delete every object a selector finds and answer with the list of them."""
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
            continue  # somebody else got to it first, or it is on its way already
        shown.append(value)
    return encoded_response(
        render_list(op, shown, {"resourceVersion": str(store.revision)}), 200, op.response_format
    )
