"""One HTTP connection: aiohttp's protocol with the limits it has not."""

from __future__ import annotations

import asyncio
import logging
from asyncio import sslproto
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from holdfast.apiserver.user import User
from holdfast.apiserver.wire.connections import Connections, IncomingConnection
from holdfast.apiserver.wire.responses import error_response
from holdfast.errors import BadRequest, HoldfastError
from holdfast.repeated_log import Repeats
from holdfast.settings import FrontLimits

_HEADER_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
_UNAUTHENTICATED_BUFFER = 32 * 1024  # bytes of TLS records waiting; asyncio's own is 256 KiB
_HANGING_UP = (ConnectionError, RequestPayloadError)
_repeats = Repeats()
_log = logging.getLogger(__name__)


class HttpConnection(RequestHandler):
    """Parse requests; say what the connection is doing so that it can be closed in time."""

    __slots__ = (
        "_connection", "_connections", "_discarding", "_limits", "_unparsed", "_user_of",
    )  # fmt: skip

    def __init__(
        self,
        manager: web.Server,
        connection: IncomingConnection,
        connections: Connections,
        limits: FrontLimits,
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
        """Bytes since the last request was parsed or answered."""
        self._discarding = False
        """Whether these belong to a body that is not wanted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve; a client certificate is known from here on."""
        self._connection.since = self._loop.time()
        if user := self._user_of(transport):
            self.set_user(user)
        elif isinstance(transport, sslproto._SSLProtocolTransport):
            transport.set_read_buffer_limits(_UNAUTHENTICATED_BUFFER)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._connections.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; a header may take neither too many bytes nor too long."""
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
        """Note since when the client does not read."""
        self._connection.blocked_since = self._loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        self._connection.blocked_since = None
        super().resume_writing()

    @contextmanager
    def handling(self, request: web.BaseRequest) -> Iterator[None]:
        """Count a request as being answered; what is left of its body is no header of the next."""
        self._connection.requests += 1
        try:
            yield
        finally:
            self._connection.requests -= 1
            self._unparsed = 0
            self._discarding = not request.content.is_eof()
            self._connection.since = self._loop.time()

    @property
    def over_limit(self) -> bool:
        """Whether the user of this connection has too many of them."""
        return self._connection.over_limit

    def set_user(self, user: User) -> None:
        """Note that the client has shown credentials."""
        if not user.is_anonymous:
            self._connections.authenticate(self._connection, user)

    def log_exception(self, *_args: Any, **kw: Any) -> None:
        """Log what aiohttp did not expect once a minute; a client that hangs up is expected."""
        raised = kw.get("exc_info")
        if self.transport is None or isinstance(raised, _HANGING_UP):
            return
        _repeats.log(
            _log, logging.ERROR, "answering a request failed", same=_origin(raised), exc_info=raised
        )

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is not HTTP with a Status of 400, and log only what is our own fault."""
        if status >= 500:
            self.log_exception(exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        said = (message or "").strip().partition("\n")[0].rstrip(":")
        error = HoldfastError("Internal error occurred") if status >= 500 else BadRequest(said)
        outcome = error_response(error)
        answer = web.Response(status=status, headers=dict(outcome.headers), body=outcome.body)
        answer.force_close()
        return answer


def _origin(raised: BaseException | None) -> tuple[object, ...]:
    """Name the place an exception was raised at: its message may hold what a client sent."""
    traced = raised.__traceback__ if raised is not None else None
    while traced is not None and traced.tb_next is not None:
        traced = traced.tb_next
    place = (traced.tb_frame.f_code.co_filename, traced.tb_lineno) if traced else ()
    return (type(raised), *place)
