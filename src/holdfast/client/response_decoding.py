"""Decode responses of an API server into typed values: objects, lists, watch events, errors.

A watch event is decoded in one pass if its object matches the type, as nearly all objects do.
Otherwise the envelope is decoded first, then the object. A bookmark, which is rare and small, is
decoded once more for its annotations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from holdfast.api.decode import decode_object
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.client.transport import Response
from holdfast.runtime.errors import (
    Cause,
    Details,
    HoldfastError,
    Invalid,
    Retryable,
    Unavailable,
    from_status,
)

T = TypeVar("T")
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list, or one page of it, and the resource version to watch from."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """ADDED, MODIFIED, DELETED or BOOKMARK; the object of a bookmark has only its version."""

    type: str
    object: T
    resource_version: str
    initial_events_end: bool = False


class UnreadableObject(Invalid):
    """An object on the server does not match the type of its Resource.

    The error contains what an informer needs to continue: the object's key, uid and version, the
    field, the type of the watch event, and the raw object.
    """

    def __init__(
        self, resource: Resource[Any], raw: dict[str, Any], why: str, event_type: str = ""
    ) -> None:
        self.raw = raw
        raw_metadata = raw.get("metadata")
        metadata = raw_metadata if isinstance(raw_metadata, dict) else {}
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        self.key = f"{namespace}/{name}" if namespace else str(name)
        self.uid = str(metadata.get("uid", ""))
        self.resource_version = str(metadata.get("resourceVersion", ""))
        self.event_type = event_type
        self.field, self.why = _field_of(why)
        super().__init__(
            f'{resource.plural} "{self.key}" cannot be read: {self.field}: {self.why}; '
            f"correct the object on the server",
            Details(
                name=str(name),
                group=resource.group,
                kind=resource.plural,
                causes=(Cause(self.field, self.why),),
            ),
        )


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_envelope = msgspec.json.Decoder(_Envelope)
_raw_list = msgspec.json.Decoder(_RawList)
_object = msgspec.json.Decoder(Object)


def decode_typed(data: bytes | msgspec.Raw, res: Resource[T], event_type: str = "") -> T:
    """Decode one object as its resource's type; UnreadableObject names the invalid field."""
    try:
        return decode_object(data, res.type)
    except msgspec.ValidationError as mismatch:
        raise UnreadableObject(res, _raw(data), str(mismatch), event_type) from mismatch
    except msgspec.DecodeError as broken:
        raise Unavailable(f"the response of the server is not JSON: {broken}") from broken


def decode_page(
    body: bytes, res: Resource[T], unreadable: Callable[[UnreadableObject], None] | None
) -> Listing[T]:
    """Decode one page of a list; ``unreadable`` is called for objects that do not match."""
    try:
        page = _raw_list.decode(body)
    except msgspec.DecodeError as broken:
        raise Unavailable(f"the list of {res.plural} cannot be decoded: {broken}") from broken
    items: list[T] = []
    for raw in page.items or ():
        try:
            items.append(_with_kind(decode_typed(raw, res), res))
        except UnreadableObject as mismatch:
            if unreadable is None:
                raise
            unreadable(mismatch)
    return Listing(tuple(items), page.metadata.resource_version, page.metadata.continue_)


def _with_kind(obj: T, res: Resource[T]) -> T:
    """Add apiVersion and kind, which lists of built-in kinds omit for their objects."""
    if isinstance(obj, Object):
        if not obj.kind:
            named = msgspec.structs.replace(obj, api_version=res.api_version, kind=res.kind)
            return cast("T", named)
    elif isinstance(obj, dict) and "kind" not in obj:
        return cast("T", {"apiVersion": res.api_version, "kind": res.kind, **obj})
    return obj


def decode_event(line: bytes, res: Resource[T]) -> WatchEvent[T]:
    """Decode one line of a watch; an ERROR event is raised as an exception.

    Nearly all lines are objects that match their type: these are decoded in one pass.
    """
    event = _decode_object_event(line, res)
    if event is not None:
        return event
    try:
        envelope = _envelope.decode(line)
    except msgspec.DecodeError as broken:
        raise Unavailable(f"a watch event cannot be decoded: {broken}") from broken
    if envelope.type == "ERROR":
        status = msgspec.json.decode(envelope.object)
        raise from_status(status.get("code", 500), status)
    obj = decode_typed(envelope.object, res, envelope.type)
    if envelope.type == "BOOKMARK":
        meta = _object.decode(envelope.object).metadata
        end = meta.annotations.get(INITIAL_EVENTS_END) == "true"
        return WatchEvent("BOOKMARK", obj, meta.resource_version, end)
    if isinstance(obj, Object):
        return WatchEvent(envelope.type, obj, obj.metadata.resource_version)
    if isinstance(obj, dict):
        return WatchEvent(envelope.type, obj, obj.get("metadata", {}).get("resourceVersion", ""))
    return WatchEvent(envelope.type, obj, _object.decode(envelope.object).metadata.resource_version)


def _decode_object_event(line: bytes, res: Resource[T]) -> WatchEvent[T] | None:
    """Decode an event with an object of the resource's type; None: decode it in two passes."""
    kind: Any = res.type
    decoder = _event_decoder(kind)
    if decoder is None:
        return None
    try:
        event = decoder.decode(line)
    except msgspec.DecodeError:
        return None
    if event.type in ("BOOKMARK", "ERROR"):
        return None
    return WatchEvent(event.type, event.object, event.object.metadata.resource_version)


@cache
def _event_decoder(kind: Any) -> msgspec.json.Decoder[Any] | None:
    """Return the decoder of events with objects of a type, or None if that is not an Object."""
    if not (isinstance(kind, type) and issubclass(kind, Object)):
        return None
    envelope = msgspec.defstruct("Envelope", [("type", str), ("object", kind)], gc=False)
    return msgspec.json.Decoder(envelope)


def error_from_response(response: Response) -> HoldfastError:
    """Return the exception for a response with a status of 400 or more."""
    try:
        status = msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        status = {"message": response.body[:500].decode(errors="replace")}
    error = from_status(response.status, status if isinstance(status, dict) else {})
    wait = response.headers.get("retry-after", "")
    if isinstance(error, Retryable) and error.after is None and wait.isdigit():
        error.after = float(wait)
    return error


def _raw(data: bytes | msgspec.Raw) -> dict[str, Any]:
    raw = msgspec.json.decode(data)
    return raw if isinstance(raw, dict) else {}


def _field_of(why: str) -> tuple[str, str]:
    """Split a message of msgspec into the path of the field and the problem.

    >>> _field_of("Expected `int`, got `str` - at `$.spec.replicas`")
    ('spec.replicas', 'Expected `int`, got `str`')
    """
    problem, _, path = why.partition(" - at `")
    return path.rstrip("`").removeprefix("$").removeprefix(".") or "object", problem
