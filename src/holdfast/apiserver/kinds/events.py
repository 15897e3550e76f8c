"""The kind of ``events.k8s.io``: the events of the core group in other words."""

from __future__ import annotations

from holdfast.api.decode import JsonObject
from holdfast.apiserver.descriptor import Conversion
from holdfast.apiserver.kinds.core import EVENTS
from holdfast.apiserver.kinds.untyped_resources import untyped_resource

# What core/v1 calls it: what events.k8s.io/v1 calls it.
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
