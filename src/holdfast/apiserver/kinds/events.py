"""The kind of ``events.k8s.io``: the Events of the core group with other field names."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import Conversion
from holdfast.apiserver.kinds.core import EVENTS
from holdfast.apiserver.kinds.untyped_resources import untyped_resource

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


KINDS = (
    EVENTS.in_version(
        untyped_resource("events.k8s.io", "events", "Event", short=("ev",)),
        Conversion(_to_core, _from_core, _core_path),
    ),
)
