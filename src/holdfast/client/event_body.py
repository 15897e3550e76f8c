"""What a core/v1 Event says, as JSON."""

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


def reference(about: Object | ObjectReference) -> ObjectReference:
    """Point at an object; lists leave its kind out, then the type tells it."""
    if isinstance(about, ObjectReference):
        return about
    resource = _RESOURCE_OF.get(type(about))
    return ObjectReference(
        api_version=about.api_version or (resource.api_version if resource else ""),
        kind=about.kind or (resource.kind if resource else ""),
        namespace=about.namespace,
        name=about.name,
        uid=about.uid,
        resource_version=about.metadata.resource_version,
    )


def event_name(about: ObjectReference, source: str, now: float, number: int) -> str:
    """A name that no other event has: components may report one object in one microsecond."""
    teller = zlib.crc32(source.encode()) & 0xFFFF
    return f"{about.name}.{int(now * 1e6):x}{teller:04x}{number:04x}"


def event_body(
    name: str,
    about: ObjectReference,
    what: dict[str, str],
    *,
    source: str,
    instance: str,
    now: float,
    related: ObjectReference | None = None,
) -> bytes:
    """Encode all that never changes; ``complete`` adds count, time and the closing brace."""
    body: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": about.namespace or "default"},
        "involvedObject": about, **what,
        "source": {"component": source}, "reportingComponent": source,
        "reportingInstance": instance, "firstTimestamp": rfc3339(now),
    }  # fmt: skip
    if related is not None:
        body["related"] = related
    try:
        return _encode(body)[:-1]
    except UnicodeEncodeError:  # half a surrogate pair, from a plugin of the user's
        body["message"] = what["message"].encode(errors="replace").decode()
        return _encode(body)[:-1]


def complete(body: bytes, count: int, last: float) -> bytes:
    """Add how often the event happened and when last."""
    return b'%b,"count":%d,"lastTimestamp":"%b"}' % (body, count, rfc3339(last).encode())


def count_patch(count: int, last: float) -> bytes:
    """A merge patch of how often the event happened and when last."""
    return b'{"count":%d,"lastTimestamp":"%b"}' % (count, rfc3339(last).encode())
