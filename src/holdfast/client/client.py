"""The typed client every component holds: get, list, watch, create, update, patch, delete.

Reading is typed: a Resource says as what. Writing is not: whoever changes an object sends a patch
or the edited raw object, so that fields we do not know survive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.api.decode import decode_object
from holdfast.api.meta import Object
from holdfast.api.resource import Resource
from holdfast.client.transport import Request, Response, Transport
from holdfast.errors import Unavailable, from_status

T = TypeVar("T")


class PatchType(Enum):
    """The ways to change part of an object."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A consistent list and the version to watch from."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """ADDED, MODIFIED, DELETED or BOOKMARK; ``object`` of a bookmark has only its version."""

    type: str
    object: T
    resource_version: str
    initial_events_end: bool = False


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


@lru_cache(maxsize=64)
def _object_decoder() -> msgspec.json.Decoder[Object]:
    return msgspec.json.Decoder(Object)


class Client:
    """Talk to one API server through whichever transport it was given."""

    def __init__(self, transport: Transport, user_agent: str = "holdfast") -> None:
        self.transport = transport
        self._headers = {"accept": "application/json", "user-agent": user_agent}

    async def get(self, res: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object; NotFound if it is not there."""
        answer = await self._call("GET", res.path(namespace, name))
        return decode_object(answer.body, res.type)

    async def list(
        self,
        res: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """Read a collection (one page of it when ``limit`` is set)."""
        query = _query(
            labelSelector=labels, fieldSelector=fields, limit=str(limit or ""),
            resourceVersion=resource_version, **{"continue": continue_token},
        )  # fmt: skip
        answer = await self._call("GET", res.path(namespace), query)
        page = _raw_list.decode(answer.body)
        items = tuple(decode_object(raw, res.type) for raw in page.items or ())
        return Listing(items, page.metadata.resource_version, page.metadata.continue_)

    async def watch(
        self,
        res: Resource[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        timeout_seconds: int = 0,
        initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Follow a collection from a version on; ends when the server ends the stream.

        An ERROR event is raised as the exception it stands for (410: Expired).
        """
        query = _query(
            watch="true", allowWatchBookmarks="true", resourceVersion=resource_version,
            labelSelector=labels, fieldSelector=fields, timeoutSeconds=str(timeout_seconds or ""),
        )  # fmt: skip
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        request = Request("GET", res.path(namespace), query, self._headers)
        async with self.transport.stream(request) as stream:
            if stream.status != 200:
                body = b"".join([part async for part in stream])
                _raise_for(Response(stream.status, stream.headers, body))
            async for line in stream:
                if line:
                    yield _event(line, res)

    async def create(
        self, res: Resource[T], obj: Mapping[str, Any], namespace: str = "",
        *, name: str = "", subresource: str = "",
    ) -> T:  # fmt: skip
        """Create an object (or POST to a subresource of one) and return what was stored."""
        path = res.path(namespace, name, subresource)
        answer = await self._call("POST", path, body=msgspec.json.encode(obj))
        return decode_object(answer.body, res.type)

    async def bind(self, namespace: str, pod: str, binding: Mapping[str, Any]) -> None:
        """POST a Binding: put the pod on its target node."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding"
        await self._call("POST", path, body=msgspec.json.encode(binding))

    async def update(self, res: Resource[T], obj: Mapping[str, Any], *, subresource: str = "") -> T:
        """PUT a whole raw object; its resourceVersion guards against lost updates."""
        meta = obj["metadata"]
        path = res.path(meta.get("namespace", ""), meta["name"], subresource)
        answer = await self._call("PUT", path, body=msgspec.json.encode(obj))
        return decode_object(answer.body, res.type)

    async def patch(
        self,
        res: Resource[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Any],
        namespace: str = "",
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        """Change part of an object."""
        query = _query(fieldManager=field_manager, force="true" if force else "")
        answer = await self._call(
            "PATCH", res.path(namespace, name, subresource), query,
            msgspec.json.encode(patch), type.value,
        )  # fmt: skip
        return decode_object(answer.body, res.type)

    async def delete(
        self,
        res: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
    ) -> None:
        """Ask for deletion; preconditions that do not hold raise Conflict."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if conditions := _query(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = conditions
        if propagation:
            options["propagationPolicy"] = propagation
        await self._call("DELETE", res.path(namespace, name), body=msgspec.json.encode(options))

    async def raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path and return the bytes (discovery, health)."""
        return (await self._call("GET", path, query)).body

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> Response:
        headers = {**self._headers, "content-type": content_type} if body else self._headers
        answer = await self.transport.send(Request(method, path, query or {}, headers, body))
        if answer.status >= 400:
            _raise_for(answer)
        return answer


def _query(**parts: str) -> dict[str, str]:
    return {name: value for name, value in parts.items() if value}


def _raise_for(answer: Response) -> None:
    try:
        status = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        status = {"message": answer.body[:500].decode(errors="replace")}
    raise from_status(answer.status, status if isinstance(status, dict) else {})


def _event(line: bytes, res: Resource[T]) -> WatchEvent[T]:
    try:
        envelope = _envelope.decode(line)
    except msgspec.DecodeError as broken:
        raise Unavailable(f"the watch stream broke off inside an event: {broken}") from broken
    if envelope.type == "ERROR":
        status = msgspec.json.decode(envelope.object)
        raise from_status(status.get("code", 500), status)
    meta = _object_decoder().decode(envelope.object).metadata
    obj = decode_object(envelope.object, res.type)
    end = envelope.type == "BOOKMARK" and (
        meta.annotations.get("k8s.io/initial-events-end") == "true"
    )
    return WatchEvent(envelope.type, obj, meta.resource_version, end)
