"""The transport to an API server behind a proxy: HTTP/1.1 with keep-alive, on aiohttp."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from holdfast.client.endpoint import Endpoint, Timeouts
from holdfast.client.transport import Request, Response, Stream
from holdfast.errors import Unavailable

# A peer that vanished without a word is noticed after about a minute, as with client-go's pings.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_PATH_SAFE = "/:@!$&'()*+,;=~"
_FAILURES = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class ProxiedTransport:
    """Carry requests over a pool of kept-alive connections.

    Nothing is retried here, except a request the server refused for stale credentials: whoever
    sends a write must know whether it may be sent twice.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeouts: Timeouts | None = None,
        max_connections: int = 256,
    ) -> None:
        limits = timeouts or Timeouts()
        self._whole_answer = aiohttp.ClientTimeout(
            total=limits.request, sock_connect=limits.connect
        )
        self._endless = aiohttp.ClientTimeout(total=None, sock_connect=limits.connect)
        self._max_connections = max_connections
        self._session: aiohttp.ClientSession | None = None
        self._renewing: asyncio.Lock | None = None
        self._closed = False
        self._use(endpoint)

    async def send(self, request: Request) -> Response:
        """Send one request and read the whole answer."""
        try:
            answer = await self._open(request, self._whole_answer)
            async with answer:
                body = await answer.read()
        except _FAILURES as failure:
            raise self._unavailable(request, failure) from failure
        return Response(answer.status, _plain(answer.headers), body)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Send one request and read the answer as it comes; leaving the block hangs up."""
        try:
            answer = await self._open(request, self._endless)
        except _FAILURES as failure:
            raise self._unavailable(request, failure) from failure
        try:
            yield _HttpStream(answer, self._endpoint.url)
        finally:
            _hang_up(answer)

    async def close(self) -> None:
        """Close every connection; the transport is unusable afterwards."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            # Sockets are closed by callbacks of the loop, which may be about to end.
            await asyncio.sleep(0)

    async def _open(self, request: Request, limit: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        endpoint = self._endpoint
        answer = await self._request(request, limit)
        if answer.status != 401 or endpoint.renew is None:
            return answer
        answer.release()
        await self._renew(endpoint)
        return await self._request(request, limit)

    async def _request(
        self, request: Request, limit: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        endpoint = self._endpoint
        headers = dict(request.headers)
        if authorization := endpoint.header():
            headers["authorization"] = authorization
        extra: dict[str, Any] = {}
        if endpoint.proxy:
            extra["proxy"] = endpoint.proxy
        if endpoint.server_name:
            extra["server_hostname"] = endpoint.server_name
        return await self._open_session().request(
            request.method,
            self._url(request),
            data=request.body or None,
            headers=headers,
            ssl=self._tls if self._tls is not None else True,
            timeout=limit,
            allow_redirects=False,
            **extra,
        )

    def _use(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._tls = endpoint.tls()
        self._root = endpoint.url.rstrip("/")

    async def _renew(self, stale: Endpoint) -> None:
        """Replace stale credentials, once for all requests that met a 401 together."""
        if self._renewing is None:
            self._renewing = asyncio.Lock()
        async with self._renewing:
            if self._endpoint is stale and stale.renew is not None:
                self._use(await stale.renew())

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unavailable(f"the connection to {self._endpoint.url} has been closed")
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._max_connections,
                keepalive_timeout=90,
                ttl_dns_cache=30,
                socket_factory=_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                # A local network is faster than a decompressor.
                headers={"accept-encoding": "identity"},
                skip_auto_headers=("content-type",),
                read_bufsize=1 << 20,
            )
        return self._session

    def _url(self, request: Request) -> URL:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._root}{quote(request.path, safe=_PATH_SAFE)}{query}", encoded=True)

    def _unavailable(self, request: Request, failure: BaseException) -> Unavailable:
        what = str(failure) or type(failure).__name__
        return Unavailable(f"{request.method} {self._root}{request.path}: {what}")


class _HttpStream:
    """The lines of one answer, of any length."""

    def __init__(self, answer: aiohttp.ClientResponse, url: str) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = _plain(answer.headers)
        self._answer = answer
        self._where = url

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self.status != 200:
                yield await self._answer.read()
                return
            async for line in self._lines():
                yield line
        except _FAILURES as failure:
            what = str(failure) or type(failure).__name__
            raise Unavailable(f"the stream from {self._where} was cut: {what}") from failure

    async def _lines(self) -> AsyncIterator[bytes]:
        # The parts of a long line are joined once, when its end is there.
        parts: list[bytes] = []
        async for chunk in self._answer.content.iter_any():
            lines = chunk.split(b"\n")
            if len(lines) == 1:
                parts.append(chunk)
                continue
            if parts:
                parts.append(lines[0])
                lines[0] = b"".join(parts)
            parts = [lines.pop()]
            for line in lines:
                yield line
        if rest := b"".join(parts):
            yield rest


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """End a stream at once: a polite end of TLS would wait for a peer who is still talking."""
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.close()


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
