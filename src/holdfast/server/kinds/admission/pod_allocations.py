"""Let only the scheduler and admins write the annotations that record a pod's allocation.

A pod without a node may be created with such annotations, for example from a template that was
copied from a pod: the Binding overwrites or empties all of them. Until then they are marked, to
distinguish them from those that the scheduler writes before the Binding.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.api.allocation_keys import (
    ALLOCATION_ANNOTATIONS,
    FOREIGN_ALLOCATIONS,
    recorded_allocations,
)
from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.api.json_fields import map_at, text_at
from holdfast.api.scheduling_rights import WRITE_ALLOCATIONS
from holdfast.server.descriptor import AdmissionPlugin
from holdfast.server.operation import Operation

REFUSAL = f"only the scheduler may write it, which needs the {WRITE_ALLOCATIONS}"
WARNING = "only the scheduler writes it: it is overwritten or emptied when the pod is bound"


def _check(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
    """Raise Forbidden for a changed key; warn of those of a new pod, and mark them."""
    now, before = _recorded(new), _recorded(old or {})
    changed = [key for key in ALLOCATION_ANNOTATIONS if now.get(key) != before.get(key)]
    if old is None and not text_at(map_at(new, "spec"), "nodeName"):
        op.warnings.extend(f"{_path(key)}: {WARNING}" for key in changed)
        _mark(new, changed if changed and not op.has_right(WRITE_ALLOCATIONS) else [])
        return
    if changed:
        _require_right(op, changed, new)
    _mark(new, [key for key in foreign_keys(old or {}) if key not in changed])


def check_binding(op: Operation, binding: JsonMapping) -> None:
    """Raise Forbidden for a Binding that writes such annotations without the right."""
    if keys := list(_recorded(binding)):
        _require_right(op, keys)


def drop_foreign_keys(metadata: JsonObject, kept: Collection[str]) -> None:
    """Remove the foreign keys, and the mark, from the metadata of a pod that is being bound."""
    dropped = {FOREIGN_ALLOCATIONS, *foreign_keys({"metadata": metadata})} - set(kept)
    _set_annotations(
        metadata, {k: text for k, text in metadata["annotations"].items() if k not in dropped}
    )


def foreign_keys(pod: JsonMapping) -> list[str]:
    """Return the keys that a pod was created with and that no user with the right has written."""
    named = text_at(_annotations(pod), FOREIGN_ALLOCATIONS).split(",")
    return [key for key in ALLOCATION_ANNOTATIONS if key in named]


def _require_right(op: Operation, keys: list[str], pod: JsonMapping | None = None) -> None:
    if not op.has_right(WRITE_ALLOCATIONS):
        raise op.forbidden("; ".join(f"{_path(key)}: {REFUSAL}" for key in keys), pod)


def _mark(pod: JsonObject, keys: list[str]) -> None:
    """Set the mark, whatever the client sent."""
    annotations = _annotations(pod)
    if keys:
        annotations[FOREIGN_ALLOCATIONS] = ",".join(keys)
    elif annotations.pop(FOREIGN_ALLOCATIONS, None) is None:
        return
    _set_annotations(pod["metadata"], annotations)


def _set_annotations(metadata: JsonObject, annotations: JsonObject) -> None:
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations


def _recorded(obj: JsonMapping) -> JsonObject:
    return recorded_allocations(_annotations(obj))


def _annotations(obj: JsonMapping) -> JsonObject:
    return map_at(map_at(obj, "metadata"), "annotations")


def _path(key: str) -> str:
    return f"metadata.annotations[{key}]"


POD_ALLOCATIONS = AdmissionPlugin(mutate=_check)
