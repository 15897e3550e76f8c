"""A pool of kept-alive connections with a limit on their number and a response timeout."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from holdfast.client.connection import Connection

IDLE_SECONDS = 60.0
"""API servers close idle connections after 90 s; older connections are not reused."""
TIMEOUT_CHECKS = 20
"""How many times per response timeout the connections are checked for it."""


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
