"""Serve the API over HTTPS: an adapter between aiohttp and ``ApiServer``.

A request is authenticated and authorized by its header, before its body is read.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from functools import partial

from aiohttp import ClientWebSocketResponse, WSMsgType, web
from yarl import URL

from holdfast.api.node_names import MESSAGE_BYTES, PING_SECONDS
from holdfast.client.transport import Request, Response
from holdfast.runtime.errors import BadRequest, HoldfastError, TooManyRequests
from holdfast.runtime.settings import ServerLimits
from holdfast.server.access.authentication import Authenticator
from holdfast.server.access.credentials import Credentials, server_tls_context
from holdfast.server.api_server import ApiServer
from holdfast.server.user import User
from holdfast.server.wire.connections import IncomingConnection
from holdfast.server.wire.http_connection import HttpConnection, read_body
from holdfast.server.wire.https_listener import HttpsServer, listen
from holdfast.server.wire.in_flight import InFlightLimits, RequestInFlight, too_many
from holdfast.server.wire.responses import (
    ServerResponse,
    StreamResponse,
    WebSocketProxy,
    error_response,
)

GZIP_MIN_BYTES = 128 * 1024  # smaller responses are not compressed, as upstream
_CHUNK_BYTES = 256 * 1024  # bytes compressed or sent before other tasks run
_log = logging.getLogger(__name__)


class _Adapter:
    """Converts aiohttp requests to ours, and our responses to aiohttp's."""

    def __init__(
        self, server: ApiServer, authenticator: Authenticator, limits: ServerLimits
    ) -> None:
        self._server = server
        self._authenticator = authenticator
        self._limits = limits
        self._in_flight = InFlightLimits(limits)

    async def __call__(self, incoming: web.BaseRequest) -> web.StreamResponse:
        connection = incoming.protocol
        assert isinstance(connection, HttpConnection)
        with connection.handling(incoming):
            try:
                headers = _headers(incoming)
                user = self._authenticate(incoming, headers, connection)
                in_flight = self._in_flight.acquire(user)
            except HoldfastError as error:
                rejection = await _send(error_response(error), incoming)
                if connection.over_limit:
                    rejection.force_close()  # the next connection is counted again
                return rejection
            try:
                response = await self._handle(incoming, headers, user, in_flight)
                if isinstance(response, Response):
                    return await _send(_reserve_memory(response, incoming, in_flight), incoming)
            finally:
                in_flight.release()
            if isinstance(response, WebSocketProxy):
                return await _connect_web_sockets(response, incoming)
            return await _stream(response, incoming)

    def user_of(
        self, transport: asyncio.BaseTransport, _connection: IncomingConnection
    ) -> User | None:
        """Return the user of the client certificate, or None."""
        peer = transport.get_extra_info("peercert")
        return self._authenticator.authenticate(peer, "") if peer else None

    def _authenticate(
        self, incoming: web.BaseRequest, headers: dict[str, str], connection: HttpConnection
    ) -> User:
        self._authenticator.check_host(headers.get("host", ""), headers.get("origin", ""))
        transport = incoming.transport
        peer = transport.get_extra_info("peercert") if transport else None
        user = self._authenticator.authenticate(peer, headers.pop("authorization", ""))
        connection.set_user(user)
        if connection.over_limit:
            raise too_many()
        return user

    async def _handle(
        self,
        incoming: web.BaseRequest,
        headers: dict[str, str],
        user: User,
        in_flight: RequestInFlight,
    ) -> ServerResponse:
        url = incoming.rel_url
        request = Request(incoming.method, url.path, _query(url), headers, repeated=_repeated(url))
        body = partial(read_body, incoming, in_flight, self._limits.body_seconds)
        return await self._server.handle(request, user, body)


def _query(url: URL) -> dict[str, str]:
    """Read the query; a repeated parameter has its first value, as in Go.

    ``dryRun`` is a list: all its values are joined, so that none of them is ignored.
    """
    query = dict(url.query)
    if len(values := dict.fromkeys(url.query.getall("dryRun", ()))) > 1:
        query["dryRun"] = ",".join(values)
    return query


def _repeated(url: URL) -> dict[str, tuple[str, ...]]:
    """Return all values of the parameters that are repeated, such as ``command`` of exec."""
    query = url.query
    if len(set(query)) == len(query):
        return {}
    return {name: tuple(values) for name in set(query) if len(values := query.getall(name)) > 1}


def _headers(incoming: web.BaseRequest) -> dict[str, str]:
    """Return headers by lower-case name; repeated ones are joined by commas."""
    headers: dict[str, str] = {}
    for key, value in incoming.headers.items():
        name = key.lower()
        if not value.isascii() and not _is_utf8(value):
            raise BadRequest(f"the header {name} is not UTF-8")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def _is_utf8(text: str) -> bool:
    """Return whether a header was UTF-8: aiohttp decodes other bytes to lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _reserve_memory(
    response: Response, incoming: web.BaseRequest, in_flight: RequestInFlight
) -> Response:
    """Count a large response as memory in use; over the limit return 429 for a read."""
    if len(response.body) <= _CHUNK_BYTES:
        return response
    reads = incoming.method in ("GET", "HEAD") or "dryRun" in incoming.rel_url.query
    try:
        in_flight.reserve_response(len(response.body), refusable=reads)
    except TooManyRequests as error:
        return error_response(error)
    return response


async def _send(response: Response, incoming: web.BaseRequest) -> web.StreamResponse:
    """Send a response; a large one in chunks, as fast as the client reads it."""
    body, headers = response.body, dict(response.headers)
    if (
        len(body) >= GZIP_MIN_BYTES
        and "content-encoding" not in headers
        and "gzip" in incoming.headers.get("accept-encoding", "")
    ):
        body = await _gzip(body)
        headers["content-encoding"] = "gzip"
    if len(body) <= _CHUNK_BYTES or incoming.method == "HEAD":
        whole = web.Response(status=response.status, headers=headers, body=body)
        if not incoming.content.is_eof():
            whole.force_close()  # the rest of the request body is not read
        return whole
    stream = web.StreamResponse(status=response.status, headers=headers)
    stream.content_length = len(body)
    await stream.prepare(incoming)
    for start in range(0, len(body), _CHUNK_BYTES):
        await stream.write(body[start : start + _CHUNK_BYTES])
        await asyncio.sleep(0)
    await stream.write_eof()
    return stream


async def _gzip(body: bytes) -> bytes:
    """Compress a large body in chunks, so that other requests are not delayed."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = []
    for start in range(0, len(body), _CHUNK_BYTES):
        parts.append(compressor.compress(body[start : start + _CHUNK_BYTES]))
        await asyncio.sleep(0)
    return b"".join([*parts, compressor.flush()])


async def _stream(response: StreamResponse, incoming: web.BaseRequest) -> web.StreamResponse:
    stream = web.StreamResponse(status=response.status, headers=dict(response.headers))
    stream.enable_chunked_encoding()
    try:
        await stream.prepare(incoming)
        if incoming.method != "HEAD":
            async for batch in response.batches:
                await stream.write(b"".join(batch))
        await stream.write_eof()
    except ConnectionError:
        _log.debug("a client closed its watch")
    finally:
        await response.close()
    return stream


async def serve_https(
    server: ApiServer,
    host: str,
    port: int,
    credentials: Credentials,
    limits: ServerLimits | None = None,
) -> HttpsServer:
    """Listen on an address (port 0: any free port) and serve until closed."""
    limits = limits or ServerLimits()
    adapter = _Adapter(server, Authenticator(credentials, (host,)), limits)
    context = server_tls_context(credentials)
    return await listen(adapter, host, port, context, limits, user_of=adapter.user_of)


async def _connect_web_sockets(
    proxy: WebSocketProxy, incoming: web.BaseRequest
) -> web.StreamResponse:
    """Accept the client's WebSocket with the node's subprotocol; pass messages until one ends."""
    protocols = (proxy.node.protocol,) if proxy.node.protocol else ()
    client = web.WebSocketResponse(
        protocols=protocols, compress=False, max_msg_size=MESSAGE_BYTES, heartbeat=PING_SECONDS
    )
    try:
        await client.prepare(incoming)
        tasks = {
            asyncio.create_task(_pass_on(client, proxy.node)),
            asyncio.create_task(_pass_on(proxy.node, client)),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()
    finally:
        await proxy.close()
    return client


async def _pass_on(
    source: web.WebSocketResponse | ClientWebSocketResponse,
    target: web.WebSocketResponse | ClientWebSocketResponse,
) -> None:
    async for message in source:
        if message.type is WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
