"""Let go of a namespace: its controller takes the last finalizer away, and it is gone."""

from __future__ import annotations

from holdfast.apiserver.operation import Operation
from holdfast.apiserver.verbs.incoming import read_body
from holdfast.apiserver.verbs.metadata import check_version, next_metadata
from holdfast.apiserver.verbs.updating import current, keep
from holdfast.apiserver.verbs.writing import decode, show, typed_first
from holdfast.client.transport import Response


async def finalize(op: Operation) -> Response:
    """Replace the finalizers in a namespace's spec."""
    new = read_body(op)
    previous = current(op)
    old = decode(previous)
    check_version(new, old, op.served)
    finalizers = (new.get("spec") or {}).get("finalizers") or []
    merged = {**old, "spec": {"finalizers": finalizers} if finalizers else {}}
    merged["metadata"] = next_metadata(new, old, op.served)
    return show(op, await keep(op, previous, old, typed_first(merged, op.served)))
