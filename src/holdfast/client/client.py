"""The typed client of all components: get, list, watch, create, update, patch, delete.

Objects are read as the type of their Resource. They are written untyped, as a patch or as the
edited raw object, so that fields unknown to the type are preserved.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec

from holdfast.api.names import path_segment
from holdfast.api.resource import Resource
from holdfast.client.response_decoding import (
    Listing,
    UnreadableObject,
    WatchEvent,
    decode_event,
    decode_page,
    decode_typed,
    error_from_response,
)
from holdfast.client.transport import Request, Response, Transport
from holdfast.runtime.errors import BadRequest

T = TypeVar("T")
OnUnreadable = Callable[[UnreadableObject], None]

__all__ = ["Client", "Listing", "OnUnreadable", "PatchType", "UnreadableObject", "WatchEvent"]


class PatchType(Enum):
    """The content types of a patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Client:
    """Send requests to one API server through a transport."""

    def __init__(
        self, transport: Transport, user_agent: str = "holdfast", *, impersonate: str = ""
    ) -> None:
        self.transport = transport
        self._user_agent = user_agent
        self._headers = {"accept": "application/json", "user-agent": user_agent}
        if impersonate:
            self._headers["impersonate-user"] = impersonate

    def impersonating(self, user: str) -> Client:
        """Return a client that acts as another user, on the same connections."""
        return Client(self.transport, self._user_agent, impersonate=user)

    async def get(self, res: Resource[T], name: str, namespace: str = "") -> T:
        """Return one object; raises NotFound.

        A name written by a user could lead to another path; such a name raises BadRequest.
        """
        for problem in path_segment(name):
            raise BadRequest(f"{res.kind} {name!r}: {problem}")
        response = await self._call("GET", res.path(namespace, name))
        return decode_typed(response.body, res)

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
        unreadable: OnUnreadable | None = None,
    ) -> Listing[T]:
        """List a collection, or one page of it when ``limit`` is set.

        An object that does not match its type raises UnreadableObject. With ``unreadable``, that
        function is called with the error instead and the other objects are returned.
        """
        query = _query(
            labelSelector=labels, fieldSelector=fields, limit=str(limit or ""),
            resourceVersion=resource_version, **{"continue": continue_token},
        )  # fmt: skip
        response = await self._call("GET", res.path(namespace), query)
        return decode_page(response.body, res, unreadable)

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
        unreadable: OnUnreadable | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Watch a collection from a resource version until the server ends the stream.

        An ERROR event is raised as an exception (410: Expired). An object that does not match its
        type raises UnreadableObject. With ``unreadable``, that function is called with the error
        instead and the watch continues. Call ``aclose()`` on the generator to stop earlier and
        close the connection.
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
                raise error_from_response(Response(stream.status, stream.headers, body))
            async for line in stream:
                if not line:
                    continue
                try:
                    event = decode_event(line, res)
                except UnreadableObject as broken:
                    if unreadable is None:
                        raise
                    unreadable(broken)
                    continue
                yield event

    async def create(
        self, res: Resource[T], obj: Mapping[str, Any], namespace: str = "",
        *, name: str = "", subresource: str = "",
    ) -> T:  # fmt: skip
        """Create an object, or POST to a subresource, and return the stored object."""
        path = res.path(namespace, name, subresource)
        response = await self._call("POST", path, body=msgspec.json.encode(obj))
        return decode_typed(response.body, res)

    async def bind(self, namespace: str, pod: str, binding: Mapping[str, Any]) -> None:
        """POST a Binding, which assigns the pod to its target node."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding"
        await self.write("POST", path, msgspec.json.encode(binding))

    async def write(
        self, method: str, path: str, body: bytes, content_type: str = "application/json"
    ) -> bytes:
        """Send an encoded body and check only the status of the response; return its body."""
        return (await self._call(method, path, None, body, content_type)).body

    async def update(self, res: Resource[T], obj: Mapping[str, Any], *, subresource: str = "") -> T:
        """Replace an object (PUT); its resourceVersion prevents lost updates."""
        meta = obj["metadata"]
        path = res.path(meta.get("namespace", ""), meta["name"], subresource)
        response = await self._call("PUT", path, body=msgspec.json.encode(obj))
        return decode_typed(response.body, res)

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
        """Patch an object and return the stored object."""
        query = _query(fieldManager=field_manager, force="true" if force else "")
        response = await self._call(
            "PATCH", res.path(namespace, name, subresource), query,
            msgspec.json.encode(patch), type.value,
        )  # fmt: skip
        return decode_typed(response.body, res)

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
        """Delete an object; raises Conflict if a precondition fails."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if conditions := _query(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = conditions
        if propagation:
            options["propagationPolicy"] = propagation
        await self._call("DELETE", res.path(namespace, name), body=msgspec.json.encode(options))

    async def delete_collection(self, res: Resource[Any], *, field_selector: str) -> None:
        """Delete all objects of a resource, in all namespaces, that the selector selects."""
        await self._call("DELETE", res.path("", ""), _query(fieldSelector=field_selector))

    async def raw(
        self, path: str, query: Mapping[str, str] | None = None, *, accept: str = ""
    ) -> bytes:
        """GET a path, for discovery or health, and return the body."""
        headers = {**self._headers, "accept": accept} if accept else self._headers
        response = await self.transport.send(Request("GET", path, query or {}, headers))
        return _checked(response).body

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
        response = await self.transport.send(Request(method, path, query or {}, headers, body))
        return _checked(response)


def _checked(response: Response) -> Response:
    if response.status >= 400:
        raise error_from_response(response)
    return response


def _query(**parts: str) -> dict[str, str]:
    return {name: value for name, value in parts.items() if value}
