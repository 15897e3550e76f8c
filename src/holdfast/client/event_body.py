"""Encode core/v1 Events as JSON.

Each pod needs an event, so a scheduler encodes events very often. The constant fields are encoded
once, as bytes without the closing brace: a retry, and a repetition that is counted before the event
was written, only append the count and the time. References to objects are encoded as the structs
that they are, without a dict in between.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from holdfast.api import scheme
from holdfast.api.meta import Object, ObjectReference
from holdfast.api.resource import Resource
from holdfast.api.timestamps import rfc3339

_encode = msgspec.json.Encoder().encode
_RESOURCE_OF: dict[type, Resource[Any]] = {
    value.type: value for value in vars(scheme).values() if isinstance(value, Resource)
}


def object_reference(regarding: Object | ObjectReference) -> ObjectReference:
    """Return a reference to an object; the kind comes from the type if the object omits it."""
    if isinstance(regarding, ObjectReference):
        return regarding
    resource = _RESOURCE_OF.get(type(regarding))
    return ObjectReference(
        api_version=regarding.api_version or (resource.api_version if resource else ""),
        kind=regarding.kind or (resource.kind if resource else ""),
        namespace=regarding.namespace,
        name=regarding.name,
        uid=regarding.uid,
        resource_version=regarding.metadata.resource_version,
    )


def event_name(regarding: ObjectReference, source: str, now: float, number: int) -> str:
    """Return a unique name, even if several components record events in one microsecond."""
    source_hash = zlib.crc32(source.encode()) & 0xFFFF
    return f"{regarding.name}.{int(now * 1e6):x}{source_hash:04x}{number:04x}"


def event_body(
    name: str,
    regarding: ObjectReference,
    what: dict[str, str],
    *,
    source: str,
    instance: str,
    now: float,
    related: ObjectReference | None = None,
) -> bytes:
    """Encode the constant fields; ``with_count`` adds count, time and the closing brace."""
    body: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": regarding.namespace or "default"},
        "involvedObject": regarding, **what,
        "source": {"component": source}, "reportingComponent": source,
        "reportingInstance": instance, "firstTimestamp": rfc3339(now),
    }  # fmt: skip
    if related is not None:
        body["related"] = related
    try:
        return _encode(body)[:-1]
    except UnicodeEncodeError:  # half a surrogate pair, from a user's plugin
        body["message"] = what["message"].encode(errors="replace").decode()
        return _encode(body)[:-1]


def with_count(body: bytes, count: int, last: float) -> bytes:
    """Return the complete body with the number of occurrences and the time of the last."""
    return b'%b,"count":%d,"lastTimestamp":"%b"}' % (body, count, rfc3339(last).encode())


def count_patch(count: int, last: float) -> bytes:
    """Return a merge patch of the number of occurrences and the time of the last."""
    return b'{"count":%d,"lastTimestamp":"%b"}' % (count, rfc3339(last).encode())
