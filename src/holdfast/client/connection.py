"""Kept-alive HTTP connections to an API server, and the pool that limits their number.

One connection has one request in flight, so a slow request delays no other. The rest of the design
keeps the CPU time of a request low (decision 0005): parsing happens in ``data_received``, the task
wakes once for a complete response, and one timer checks all connections.

The connection that was used last is reused first. So only as many as the load needs stay in use,
and the others reach ``IDLE_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import cast

from holdfast.client.response_parser import MalformedResponse, ResponseParser
from holdfast.client.transport import Response

MAX_UNREAD_BYTES = 4 << 20
"""Reading from the socket pauses while this many bytes of a stream are unconsumed."""
IDLE_SECONDS = 60.0
"""API servers close idle connections after 90 s; older connections are not reused."""
TIMEOUT_CHECKS = 20
"""How many times per response timeout the connections are checked for it."""


class ConnectionLost(ConnectionError):
    """The connection ended before the response was complete."""


class Connection(asyncio.Protocol):
    """Send one request at a time; ``ConnectionPool`` decides when the next may follow.

    ``on_lost`` is called once, when the connection has ended.
    """

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._response: ResponseParser | None = None
        self._data_arrived: asyncio.Future[None] | None = None
        self._buffered = True
        self._unread = 0
        self._paused = False
        self._failure: Exception | None = None
        self.ended = False
        self.idle_since = 0.0

    # --- called by asyncio -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse the next bytes of the response."""
        response = self._response
        if response is None:
            self.abort()  # no request was sent
            return
        try:
            response.feed(data)
        except MalformedResponse as malformed:
            self.fail(ConnectionLost(str(malformed)))
            return
        if self._buffered:
            if response.done:
                self._wake()
            return
        self._unread += len(data)
        if self._unread > MAX_UNREAD_BYTES and not self._paused and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, why: Exception | None) -> None:
        """Wake the reader of the response and call ``on_lost``."""
        self.ended = True
        response = self._response
        if response is not None and not response.done and not response.feed_eof():
            self._failure = (
                self._failure or why or ConnectionLost("the server closed the connection")
            )
        self._wake()
        self._on_lost(self)

    # --- called by the pool and the transport ------------------------------------------------

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        response = self._response
        return not self.ended and (
            response is None or (response.done and not response.should_close)
        )

    async def send(self, method: str, data: bytes) -> Response:
        """Send a request and return the complete response."""
        response = self._begin(method, data, buffered=True)
        await self._wait_for_data()
        parts = response.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return Response(response.status, response.headers, body)

    async def open_stream(self, method: str, data: bytes) -> None:
        """Send a request and wait for the headers (``head``); ``parts`` yields the body."""
        response = self._begin(method, data, buffered=False)
        while not response.status:
            await self._wait_for_data()

    @property
    def head(self) -> tuple[int, Mapping[str, str]]:
        """Status and headers of the response."""
        assert self._response is not None
        return self._response.status, self._response.headers

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body as they arrive."""
        response = self._response
        assert response is not None
        while True:
            if response.parts:
                parts, response.parts = response.parts, []
                self._resume_reading()
                for part in parts:
                    yield part
            elif response.done:
                return
            else:
                await self._wait_for_data()

    def fail(self, why: Exception) -> None:
        """Close the connection and fail the pending response with ``why``."""
        self.ended = True
        if self._response is not None and not self._response.done:
            self._failure = self._failure or why
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def abort(self) -> None:
        """Close at once: an orderly TLS shutdown would wait for a peer that is still sending."""
        self.fail(ConnectionLost("the client closed the connection"))

    def _begin(self, method: str, data: bytes, *, buffered: bool) -> ResponseParser:
        assert self._transport is not None
        if self.ended:
            raise ConnectionLost("the connection has ended")
        self._response, self._buffered = ResponseParser(method), buffered
        self._transport.write(data)
        return self._response

    async def _wait_for_data(self) -> None:
        response = self._response
        assert response is not None
        if self._failure is None and not self.ended and not (self._buffered and response.done):
            self._data_arrived = asyncio.get_running_loop().create_future()
            try:
                await self._data_arrived
            finally:
                self._data_arrived = None
        if self._failure is not None and (self._buffered or not response.parts):
            raise self._failure

    def _resume_reading(self) -> None:
        self._unread = 0
        if self._paused and self._transport is not None and not self.ended:
            self._transport.resume_reading()
            self._paused = False

    def _wake(self) -> None:
        if self._data_arrived is not None and not self._data_arrived.done():
            self._data_arrived.set_result(None)


class ConnectionPool:
    """Reuse connections, most recently used first, and open new ones up to a limit.

    One timer checks the timeouts of all connections, which is cheaper than a timer per request.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        max_connections: int,
        response_seconds: float,
    ) -> None:
        self._connect = connect
        self._max_connections = max_connections
        self._response_seconds = response_seconds
        self._idle: list[Connection] = []
        self._in_use: dict[Connection, float] = {}
        """Connections with a pending response, and when each was acquired."""
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timeout_check: asyncio.TimerHandle | None = None

    async def acquire(self) -> tuple[Connection, bool]:
        """Return a connection and whether it is new; wait while the pool is at its limit."""
        while len(self._in_use) + self._connecting >= self._max_connections:
            await self._wait_for_slot()
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < IDLE_SECONDS:
                self._mark_in_use(connection, now)
                return connection, False
            connection.abort()
        self._connecting += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._wake_next()
            raise
        finally:
            self._connecting -= 1
        self._mark_in_use(connection, asyncio.get_running_loop().time())
        return connection, True

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool, or close it if its response is incomplete."""
        del self._in_use[connection]
        if connection.reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()
        self._wake_next()

    def close_idle(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().abort()

    def close(self) -> None:
        """Close all connections."""
        self.close_idle()
        for connection in tuple(self._in_use):
            connection.fail(ConnectionAbortedError("the connection has been closed"))
        if self._timeout_check is not None:
            self._timeout_check.cancel()

    def _mark_in_use(self, connection: Connection, now: float) -> None:
        self._in_use[connection] = now
        if self._timeout_check is None:
            self._schedule_timeout_check()

    def _schedule_timeout_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._timeout_check = loop.call_later(
            self._response_seconds / TIMEOUT_CHECKS, self._fail_timed_out
        )

    def _fail_timed_out(self) -> None:
        self._timeout_check = None
        limit = asyncio.get_running_loop().time() - self._response_seconds
        for connection, since in tuple(self._in_use.items()):
            if since < limit:
                connection.fail(TimeoutError(f"no response within {self._response_seconds:g} s"))
        if self._in_use:
            self._schedule_timeout_check()

    async def _wait_for_slot(self) -> None:
        wakeup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(wakeup)
        try:
            await wakeup
        except asyncio.CancelledError:
            if wakeup.done() and not wakeup.cancelled():
                self._wake_next()  # pass the slot on
            raise

    def _wake_next(self) -> None:
        while self._waiting:
            wakeup = self._waiting.popleft()
            if not wakeup.done():
                wakeup.set_result(None)
                return
