"""The kind Event: in the core group, and with other field names in ``events.k8s.io``."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.api.decode import JsonObject
from holdfast.server.descriptor import (
    Conversion,
    DeletionStrategy,
    KindDescriptor,
    SelectableField,
    selectable_fields,
    untyped_resource,
)
from holdfast.server.kinds.printers import cluster

# Names of fields in core/v1, and in events.k8s.io/v1.
_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def _to_core(event: JsonObject) -> JsonObject:
    return {_OLD_NAMES.get(key, key): value for key, value in event.items()}


def _from_core(event: JsonObject) -> JsonObject:
    return {_NEW_NAMES.get(key, key): value for key, value in event.items()}


def _core_path(path: str) -> str:
    head, dot, rest = path.partition(".")
    return f"{_OLD_NAMES.get(head, head)}{dot}{rest}"


_EVENT_FIELDS = {
    **selectable_fields(
        "involvedObject.kind", "involvedObject.name", "involvedObject.uid", indexed=True
    ),
    **selectable_fields(
        "involvedObject.namespace",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    "source": SelectableField(("source", "component")),
}
CORE_EVENTS = KindDescriptor(
    scheme.EVENTS,
    printer=cluster.EVENT,
    selectable_fields=_EVENT_FIELDS,
    deletion=DeletionStrategy(has_dependents=False),
)

KINDS = (
    CORE_EVENTS.in_version(
        untyped_resource("events.k8s.io", "events", "Event", short=("ev",)),
        Conversion(_to_core, _from_core, _core_path),
    ),
)
