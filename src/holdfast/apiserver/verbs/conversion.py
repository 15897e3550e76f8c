"""One stored object, several versions of it to see and to write.

Versions of equal shape differ in ``apiVersion`` alone. Events are one object under two groups,
each with its own words for the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.apiserver.registry import Served

Object = dict[str, Any]

# What core/v1 calls it: what events.k8s.io/v1 calls it.
EVENT_WORDS: Mapping[str, str] = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}


def outward(served: Served, value: bytes) -> bytes:
    """Show stored bytes under the version that was asked for."""
    wanted = served.resource.api_version
    if served.stored_as == wanted:
        return value
    if served.words:
        return msgspec.json.encode(outward_object(served, msgspec.json.decode(value)))
    old, new = f'"apiVersion":"{served.stored_as}"', f'"apiVersion":"{wanted}"'
    return value.replace(old.encode(), new.encode(), 1)


def outward_object(served: Served, obj: Object) -> Object:
    """Show a stored object in the words of the version that was asked for."""
    renamed = {served.words.get(key, key): value for key, value in obj.items()}
    return renamed | {"apiVersion": served.resource.api_version}


def inward(served: Served, obj: Object) -> Object:
    """Put what a client wrote into the words it is stored in."""
    if not served.words:
        return obj
    stored = {shown: kept for kept, shown in served.words.items()}
    return {stored.get(key, key): value for key, value in obj.items()} | {
        "apiVersion": served.stored_as
    }
