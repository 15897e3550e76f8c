"""Serve the API over HTTPS: a thin adapter that knows TLS and aiohttp, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import zlib
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from holdfast.apiserver.answers import StreamResponse, failure
from holdfast.apiserver.authentication import Authenticator
from holdfast.apiserver.body import BODY_LIMIT
from holdfast.apiserver.credentials import Credentials, server_context
from holdfast.apiserver.server import ApiServer
from holdfast.client.transport import Request, Response
from holdfast.errors import Details, HoldfastError, TooLarge, TooManyRequests

GZIP_FROM = 128 * 1024  # smaller answers cost more to pack than to send, as upstream found
_GZIP_STEP = 256 * 1024
IN_FLIGHT_LIMIT = 600
_LINE_LIMIT = 256 * 1024  # selectors stand in the request line, tokens in a header
SHUTDOWN_SECONDS = 5.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class HttpsFront:
    """A listening server; ``url`` is where."""

    url: str
    _runner: web.ServerRunner

    async def close(self) -> None:
        """Stop listening and let running requests end."""
        await self._runner.cleanup()


class _Adapter:
    """Turn aiohttp requests into ours and our answers into aiohttp's."""

    def __init__(self, server: ApiServer, authenticator: Authenticator) -> None:
        self._server = server
        self._authenticator = authenticator
        self._in_flight = 0

    async def __call__(self, incoming: web.BaseRequest) -> web.StreamResponse:
        self._in_flight += 1
        try:
            outcome = await self._answer(incoming)
            if isinstance(outcome, Response):
                return await _plain(outcome, incoming)
        finally:
            self._in_flight -= 1
        return await _streamed(outcome, incoming)

    async def _answer(self, incoming: web.BaseRequest) -> Response | StreamResponse:
        try:
            if self._in_flight > IN_FLIGHT_LIMIT:
                raise TooManyRequests(
                    "too many requests, please try again later", Details(retry_after_seconds=1)
                )
            headers = _headers(incoming)
            self._authenticator.check_host(headers.get("host", ""), headers.get("origin", ""))
            transport = incoming.transport
            peer = transport.get_extra_info("peercert") if transport else None
            user = self._authenticator.authenticate(peer, headers.pop("authorization", ""))
            body = await _body(incoming)
        except HoldfastError as error:
            return failure(error)
        url = incoming.rel_url
        request = Request(incoming.method, url.path, dict(url.query), headers, body)
        return await self._server.handle(request, user)


def _headers(incoming: web.BaseRequest) -> dict[str, str]:
    """Read headers by lower-case name; repeated ones are joined, as HTTP allows."""
    headers: dict[str, str] = {}
    for key, value in incoming.headers.items():
        name = key.lower()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


async def _body(incoming: web.BaseRequest) -> bytes:
    if not incoming.can_read_body:
        return b""
    try:
        return await incoming.read()
    except web.HTTPRequestEntityTooLarge as large:
        raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}") from large


async def _plain(outcome: Response, incoming: web.BaseRequest) -> web.Response:
    body, headers = outcome.body, dict(outcome.headers)
    if (
        len(body) >= GZIP_FROM
        and "content-encoding" not in headers
        and "gzip" in incoming.headers.get("accept-encoding", "")
    ):
        body = await _gzip(body)
        headers["content-encoding"] = "gzip"
    return web.Response(status=outcome.status, headers=headers, body=body)


async def _gzip(body: bytes) -> bytes:
    """Pack a large body in steps, so that other requests are not held up meanwhile."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = []
    for start in range(0, len(body), _GZIP_STEP):
        parts.append(packer.compress(body[start : start + _GZIP_STEP]))
        await asyncio.sleep(0)
    return b"".join([*parts, packer.flush()])


async def _streamed(outcome: StreamResponse, incoming: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(status=outcome.status, headers=dict(outcome.headers))
    response.enable_chunked_encoding()
    try:
        await response.prepare(incoming)
        async for batch in outcome.batches:
            await response.write(b"".join(batch))
        await response.write_eof()
    except ConnectionError:
        _log.debug("a watcher hung up")
    finally:
        await outcome.close()
    return response


async def serve_https(
    server: ApiServer, host: str, port: int, credentials: Credentials
) -> HttpsFront:
    """Listen on an address (port 0: any free one) and serve until closed."""
    adapter = _Adapter(server, Authenticator(credentials, (host,)))
    low = web.Server(
        adapter,
        request_factory=_make_request,
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=90.0,
        max_line_size=_LINE_LIMIT,
        max_field_size=_LINE_LIMIT,
    )
    runner = web.ServerRunner(low, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=server_context(credentials))
    await site.start()
    bound = runner.addresses[0][1]
    shown = f"[{host}]" if ":" in host else host
    return HttpsFront(f"https://{shown}:{bound}", runner)


def _make_request(
    message: Any, payload: Any, protocol: RequestHandler, writer: Any, task: Any
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT
    )
