"""One HTTP connection: aiohttp's protocol with additional limits, and reading of bodies.

aiohttp reads a body before it calls the handler and has no time limit for a header. Here the
handler gets the header alone and reads the body later (``read_body``), when the user and the right
to do so are known. ``RequestHandler`` is not part of aiohttp's public interface, so pyproject.toml
requires the version that this was written for (decision 0009).

A refused request leaves the rest of its body on the connection. Those bytes must be discarded as a
body: when they counted as the next header, the server sent a 431 after the first response.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import sslproto
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from holdfast.runtime.errors import BadRequest, HoldfastError, TimedOut
from holdfast.runtime.repeated_log import Repeats
from holdfast.runtime.settings import ServerLimits
from holdfast.server.user import ANONYMOUS, User
from holdfast.server.wire.body import BODY_LIMIT, too_large
from holdfast.server.wire.connections import Connections, IncomingConnection
from holdfast.server.wire.in_flight import RequestInFlight
from holdfast.server.wire.responses import error_response

_HEADER_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
_UNAUTHENTICATED_BUFFER = 32 * 1024  # bytes of TLS records waiting; asyncio's default is 256 KiB
_CLOSED_BY_CLIENT = (ConnectionError, RequestPayloadError)
_repeats = Repeats()
_log = logging.getLogger(__name__)


class HttpConnection(RequestHandler):
    """Parses requests and tracks the state of the connection, so that it can be closed in time."""

    __slots__ = (
        "_connection", "_connections", "_discarding", "_limits", "_unparsed", "_user_of",
    )  # fmt: skip

    def __init__(
        self,
        manager: web.Server,
        connection: IncomingConnection,
        connections: Connections,
        limits: ServerLimits,
        user_of: Callable[[asyncio.BaseTransport], User | None],
    ) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=limits.idle_seconds,
            lingering_time=limits.linger_seconds,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.headers,
        )
        self._connection = connection
        self._connections = connections
        self._limits = limits
        self._user_of = user_of
        self._unparsed = 0
        """Bytes received since the last request was parsed or handled."""
        self._discarding = False
        """Whether these bytes belong to a body that is discarded."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving; the client certificate is available from here on."""
        self._connection.since = self._loop.time()
        if user := self._user_of(transport):
            self.set_user(user)
        elif isinstance(transport, sslproto._SSLProtocolTransport):
            transport.set_read_buffer_limits(_UNAUTHENTICATED_BUFFER)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection."""
        self._connections.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; limit the size and the duration of a header."""
        parsed = self._request_count
        super().data_received(data)
        if parsed != self._request_count:
            self._discarding = False
        if parsed != self._request_count or self._connection.requests:
            self._unparsed = 0
            self._connection.header_since = None
        elif data:
            self._unparsed += len(data)
            self._check_unparsed()

    def _check_unparsed(self) -> None:
        limits = self._limits
        if self._discarding:
            too_much = self._unparsed > limits.discarded_bytes and self._connection.user is None
            if too_much and not self._buffer_paused:
                self._pause_reading_for_buffer()
            return
        if self._connection.header_since is None:
            self._connection.header_since = self._loop.time()
        if self._unparsed > limits.header_bytes and self.transport is not None:
            self.transport.write(_HEADER_TOO_LARGE)
            self.force_close()

    def pause_writing(self) -> None:
        """Record that the client stopped reading."""
        self._connection.blocked_since = self._loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Record that the client reads again."""
        self._connection.blocked_since = None
        super().resume_writing()

    @contextmanager
    def handling(self, request: web.BaseRequest) -> Iterator[None]:
        """Count a request as in progress; the rest of its body is discarded afterwards."""
        self._connection.requests += 1
        try:
            yield
        finally:
            self._connection.requests -= 1
            self._unparsed = 0
            self._discarding = not request.content.is_eof()
            self._connection.since = self._loop.time()

    @property
    def user(self) -> User:
        """The authenticated user."""
        return self._connection.user or ANONYMOUS

    @property
    def over_limit(self) -> bool:
        """Whether the user of this connection has too many connections."""
        return self._connection.over_limit

    def set_user(self, user: User) -> None:
        """Set the authenticated user; an anonymous one is ignored."""
        if not user.is_anonymous:
            self._connections.authenticate(self._connection, user)

    def log_exception(self, *_args: Any, **kw: Any) -> None:
        """Log an unexpected exception at most once a minute; closed connections are not logged."""
        exception = kw.get("exc_info")
        if self.transport is None or isinstance(exception, _CLOSED_BY_CLIENT):
            return
        _repeats.log(
            _log,
            logging.ERROR,
            "handling a request failed",
            same=_origin(exception),
            exc_info=exception,
        )

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to invalid HTTP with a Status of 400; log only errors of the server."""
        if status >= 500:
            self.log_exception(exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already begun")
        reason = (message or "").strip().partition("\n")[0].rstrip(":")
        error = HoldfastError("Internal error occurred") if status >= 500 else BadRequest(reason)
        status_response = error_response(error)
        response = web.Response(
            status=status, headers=dict(status_response.headers), body=status_response.body
        )
        response.force_close()
        return response


def _origin(exception: BaseException | None) -> tuple[object, ...]:
    """Return where an exception was raised.

    Its message may contain data of a client, which could vary the data to fill the log.
    """
    traceback = exception.__traceback__ if exception is not None else None
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno) if traceback else ()
    return (type(exception), *place)


async def read_body(
    incoming: web.BaseRequest, in_flight: RequestInFlight, seconds: float, limit: int = BODY_LIMIT
) -> bytes:
    """Return the body; raises TooLarge, TimedOut, TooManyRequests or BadRequest."""
    if not incoming.can_read_body:
        return b""
    size = incoming.content_length
    if size is not None and size > limit:
        raise too_large(limit)
    compressed = "content-encoding" in incoming.headers
    in_flight.reserve_body(limit if size is None or compressed else size)
    await _send_continue(incoming)
    try:
        if incoming.content.is_eof():
            return await incoming.read()
        async with asyncio.timeout(seconds):
            return await incoming.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(limit) from error
    except RequestPayloadError as error:
        raise BadRequest(f"the body cannot be read: {error}") from error
    except TimeoutError as error:
        raise TimedOut(
            "Timeout: request did not complete within requested timeout - context deadline exceeded"
        ) from error


async def _send_continue(incoming: web.BaseRequest) -> None:
    """Send 100 Continue to a client that waits for it before sending its body."""
    expected = incoming.headers.get("expect", "")
    if not expected or incoming.version < HttpVersion11:
        return
    if expected.lower() != "100-continue":
        raise BadRequest(f'the expectation "{expected}" is not supported')
    writer: Any = incoming.writer
    await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    writer.output_size = 0  # the response has not begun
