"""The kind Namespace: finalizers in the spec, the phase, ``/finalize``."""

from __future__ import annotations

from holdfast.api import group_scheduling, names, scheme
from holdfast.api.decode import JsonObject
from holdfast.api.group_scheduling import not_read
from holdfast.client.transport import Response
from holdfast.server.descriptor import (
    AdmissionPlugin,
    DeletionStrategy,
    KindDescriptor,
    Subresource,
    selectable_fields,
)
from holdfast.server.kinds.printers import cluster
from holdfast.server.operation import Operation
from holdfast.server.schema.stored_objects import decode
from holdfast.server.unimplemented_features import UnimplementedFeatures, UnimplementedField
from holdfast.server.verbs.metadata import check_version, updated_metadata
from holdfast.server.verbs.rendering import object_response
from holdfast.server.verbs.request_object import read_body
from holdfast.server.verbs.storing import with_type_first
from holdfast.server.verbs.updating import latest_object, store_update

_PROTECTED = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that cannot be deleted."""
_FINALIZER = "kubernetes"


def admit_namespace(op: Operation, obj: JsonObject, old: JsonObject | None) -> None:
    """Add the finalizer to the spec of a new namespace."""
    if old is None:
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)


def has_spec_finalizers(obj: JsonObject) -> bool:
    """Return whether the spec of a namespace has finalizers."""
    return bool((obj.get("spec") or {}).get("finalizers"))


def mark_terminating(obj: JsonObject, grace_seconds: int) -> None:
    """Set the phase Terminating; a namespace has no grace period."""
    obj["status"] = (obj.get("status") or {}) | {"phase": "Terminating"}


async def finalize(op: Operation) -> Response:
    """Replace the finalizers in the spec of a namespace."""
    new = read_body(op)
    previous = latest_object(op)
    old = decode(previous)
    check_version(new, old, op.descriptor)
    finalizers = (new.get("spec") or {}).get("finalizers") or []
    merged = {**old, "spec": {"finalizers": finalizers} if finalizers else {}}
    merged["metadata"] = updated_metadata(new, old, op.descriptor)
    return object_response(
        op, await store_update(op, previous, old, with_type_first(merged, op.descriptor))
    )


_UNIMPLEMENTED_FIELDS = tuple(
    UnimplementedField(
        ("metadata", part, key), not_read(key, group_scheduling.NO_QUOTAS), has_event=True
    )
    for key in group_scheduling.NAMESPACE_KEYS
    for part in ("annotations", "labels")
)

NAMESPACES = KindDescriptor(
    scheme.NAMESPACES,
    name_check=names.dns_label,
    admission_plugins=(AdmissionPlugin(mutate=admit_namespace),),
    subresources={"finalize": Subresource({"update": finalize}, ("update",))},
    fields_kept_on_update=("spec",),
    printer=cluster.NAMESPACE,
    selectable_fields=selectable_fields("status.phase"),
    deletion=DeletionStrategy(
        mark_deleting=mark_terminating,
        blocks_removal=has_spec_finalizers,
        returns_object=True,
        protected_names=_PROTECTED,
    ),
    is_namespace=True,
    unimplemented=UnimplementedFeatures(fields=_UNIMPLEMENTED_FIELDS),
)
