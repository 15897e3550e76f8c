"""A transport to the API server in the same process, without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from holdfast.client.transport import Request, Response, Stream
from holdfast.runtime.errors import BadRequest, Unavailable
from holdfast.server.api_server import ApiServer
from holdfast.server.user import ADMIN, User
from holdfast.server.wire.responses import (
    ServerResponse,
    StreamResponse,
    WebSocketProxy,
    error_response,
)


@dataclass(slots=True)
class _Lines:
    """The lines of a streamed response."""

    status: int
    headers: Mapping[str, str]
    _lines: AsyncIterator[bytes]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._lines


async def _lines(response: StreamResponse) -> AsyncIterator[bytes]:
    async for batch in response.batches:
        for line in batch:
            yield line.removesuffix(b"\n")


async def _single_line(body: bytes) -> AsyncIterator[bytes]:
    yield body


class _OpenStream(AbstractAsyncContextManager[Stream]):
    """Waits for a response when the block is entered, and closes it at the end of the block."""

    __slots__ = ("_handle", "_request", "_response")

    def __init__(
        self,
        handle: Callable[[Request], Awaitable[Response | StreamResponse]],
        request: Request,
    ) -> None:
        self._handle, self._request = handle, request

    async def __aenter__(self) -> Stream:
        response = self._response = await self._handle(self._request)
        if isinstance(response, Response):
            return _Lines(response.status, response.headers, _single_line(response.body))
        return _Lines(response.status, response.headers, _lines(response))

    async def __aexit__(self, *_error: object) -> None:
        if not isinstance(self._response, Response):
            await self._response.close()


class InProcessTransport:
    """Passes the requests of one user to ``ApiServer.handle``."""

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        self._server = server
        self._user = user
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Send a request and return the response with its whole body."""
        response = await self._handle(request)
        if isinstance(response, Response):
            return response
        body = b"".join([line + b"\n" async for line in _lines(response)])
        return Response(response.status, response.headers, body)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send a request and stream the response; leaving the block closes the stream."""
        return _OpenStream(self._handle, request)

    async def close(self) -> None:
        """Reject further requests."""
        self._closed = True

    async def _handle(self, request: Request) -> Response | StreamResponse:
        if self._closed:
            raise Unavailable("the transport is closed")
        if request.write_check is not None:
            request.write_check()
        response: ServerResponse = await self._server.handle(request, self._user)
        if isinstance(response, WebSocketProxy):
            await response.close()
            return error_response(BadRequest("a WebSocket needs the HTTPS server"))
        return response
