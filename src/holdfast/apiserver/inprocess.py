"""Reach the API server without a wire: the same answers, nothing copied."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.apiserver.server import ApiServer
from holdfast.apiserver.user import ADMIN, User
from holdfast.apiserver.wire.responses import StreamResponse
from holdfast.client.transport import Request, Response, Stream
from holdfast.errors import Unavailable


@dataclass(slots=True)
class _Lines:
    """A stream of lines taken from the server's batches."""

    status: int
    headers: Mapping[str, str]
    _lines: AsyncIterator[bytes]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._lines


async def _lines(answer: StreamResponse) -> AsyncIterator[bytes]:
    async for batch in answer.batches:
        for line in batch:
            yield line[:-1]


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


class InProcessTransport:
    """Carry requests of one user straight into the server's ``handle``."""

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        self._server = server
        self._user = user
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Send one request and return the whole answer."""
        answer = await self._handle(request)
        if isinstance(answer, Response):
            return answer
        body = b"".join([line + b"\n" async for line in _lines(answer)])
        return Response(answer.status, answer.headers, body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Send one request and read the answer as it comes; leaving the block hangs up."""
        answer = await self._handle(request)
        if isinstance(answer, Response):
            yield _Lines(answer.status, answer.headers, _whole(answer.body))
            return
        try:
            yield _Lines(answer.status, answer.headers, _lines(answer))
        finally:
            await answer.close()

    async def close(self) -> None:
        """Refuse further requests."""
        self._closed = True

    async def _handle(self, request: Request) -> Response | StreamResponse:
        if self._closed:
            raise Unavailable("the transport is closed")
        if request.write_check is not None:
            request.write_check()
        return await self._server.handle(request, self._user)
