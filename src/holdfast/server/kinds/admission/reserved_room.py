"""Require a right for pods that ignore reservations and so use room reserved for others.

Controllers create the pods of workloads and have the right. So the user who writes the template
must have it.
"""

from __future__ import annotations

from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.api.json_fields import map_at
from holdfast.api.reservation_names import IGNORED
from holdfast.api.scheduling_rights import USE_RESERVED_ROOM
from holdfast.server.descriptor import AdmissionPlugin
from holdfast.server.operation import Operation

REFUSAL = f"a pod that uses what is reserved for others needs the {USE_RESERVED_ROOM}"


def check_binding_labels(op: Operation, binding: JsonMapping) -> None:
    """Raise Forbidden for a Binding that lets a pod enter reserved room without the right."""
    if _ignores(binding) and not op.has_right(USE_RESERVED_ROOM):
        raise op.forbidden(_refusal())


def _entering(*path: str) -> AdmissionPlugin:
    """Return the plugin of a kind with a pod or a pod template at a path."""

    def check(op: Operation, new: JsonObject, old: JsonObject | None) -> None:
        if not _ignores(_at(new, path)) or (old is not None and _ignores(_at(old, path))):
            return
        if not op.has_right(USE_RESERVED_ROOM):
            raise op.forbidden(_refusal(*path), new)

    return AdmissionPlugin(mutate=check)


def _refusal(*path: str) -> str:
    return f"{'.'.join((*path, 'metadata.labels'))}[{IGNORED}]: {REFUSAL}"


def _at(obj: JsonMapping, path: tuple[str, ...]) -> JsonMapping:
    for key in path:
        obj = map_at(obj, key)
    return obj


def _ignores(pod: JsonMapping) -> bool:
    return map_at(map_at(pod, "metadata"), "labels").get(IGNORED) == "true"


POD = _entering()
POD_TEMPLATE = _entering("template")
WORKLOAD = _entering("spec", "template")
CRON_JOB = _entering("spec", "jobTemplate", "spec", "template")
