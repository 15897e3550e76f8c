"""Connections kept for the next request, and an eye on those whose answer takes too long."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from holdfast.client.connection import Connection

IDLE_SECONDS = 60.0
"""API servers hang up on idle connections after 90 s; a request must not meet that moment."""
LOOKS = 20
"""How often, during the time an answer may take, to look whether it took too long."""


class ConnectionPool:
    """Lends connections out, last used first, and makes new ones up to a limit.

    Looking after the time-outs of all of them together is cheaper than a timer for each request.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], most: int, answer_seconds: float
    ) -> None:
        self._connect = connect
        self._most = most
        self._answer_seconds = answer_seconds
        self._idle: list[Connection] = []
        self._lent: dict[Connection, float] = {}
        """When each connection was lent; it is given back when its answer is there."""
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._look: asyncio.TimerHandle | None = None

    async def take(self) -> tuple[Connection, bool]:
        """A connection to ask on, and whether it is a new one."""
        while len(self._lent) + self._connecting >= self._most:
            await self._turn()
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < IDLE_SECONDS:
                self._lend(connection, now)
                return connection, False
            connection.abort()
        self._connecting += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._next()
            raise
        finally:
            self._connecting -= 1
        self._lend(connection, asyncio.get_running_loop().time())
        return connection, True

    def give(self, connection: Connection) -> None:
        """Take a connection back; one whose answer is not complete is of no more use."""
        del self._lent[connection]
        if connection.reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()
        self._next()

    def drop_idle(self) -> None:
        """Hang up those nobody uses."""
        while self._idle:
            self._idle.pop().abort()

    def close(self) -> None:
        """Hang up everything."""
        self.drop_idle()
        for connection in tuple(self._lent):
            connection.fail(ConnectionAbortedError("the connection has been closed"))
        if self._look is not None:
            self._look.cancel()

    def _lend(self, connection: Connection, now: float) -> None:
        self._lent[connection] = now
        if self._look is None:
            self._look_later()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._look = loop.call_later(self._answer_seconds / LOOKS, self._end_the_late)

    def _end_the_late(self) -> None:
        self._look = None
        limit = asyncio.get_running_loop().time() - self._answer_seconds
        for connection, since in tuple(self._lent.items()):
            if since < limit:
                connection.fail(TimeoutError(f"no answer within {self._answer_seconds:g} s"))
        if self._lent:
            self._look_later()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()  # the turn was ours and we do not want it
            raise

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
