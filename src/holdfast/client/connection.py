"""One kept-alive connection to an API server: one request and its answer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import cast

from holdfast.client.answer import Answer, Malformed
from holdfast.client.transport import Response

MOST_UNREAD = 4 << 20
"""Bytes of a stream that may wait for their reader before the server is made to wait."""


class Broken(ConnectionError):
    """The connection ended before its answer did."""


class Connection(asyncio.Protocol):
    """Asks one thing at a time. Whoever holds it decides when it is free for the next.

    ``lost`` is called once, when the connection has ended for whatever reason.
    """

    def __init__(self, lost: Callable[[Connection], None]) -> None:
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._news: asyncio.Future[None] | None = None
        self._whole = True
        self._unread = 0
        self._paused = False
        self._failure: Exception | None = None
        self.ended = False
        self.idle_since = 0.0

    # --- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in what the server says."""
        answer = self._answer
        if answer is None:
            self.abort()  # nobody asked
            return
        try:
            answer.feed(data)
        except Malformed as odd:
            self.fail(Broken(str(odd)))
            return
        if self._whole:
            if answer.done:
                self._wake()
            return
        self._unread += len(data)
        if self._unread > MOST_UNREAD and not self._paused and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True
        self._wake()

    def connection_lost(self, why: Exception | None) -> None:
        """Tell whoever waits, and whoever holds us."""
        self.ended = True
        answer = self._answer
        if answer is not None and not answer.done and not answer.end():
            self._failure = self._failure or why or Broken("the server hung up")
        self._wake()
        self._lost(self)

    # --- our side ---------------------------------------------------------------------------

    @property
    def reusable(self) -> bool:
        """Whether another request may follow the one that was answered."""
        answer = self._answer
        return not self.ended and (answer is None or (answer.done and not answer.closes))

    async def ask(self, method: str, data: bytes) -> Response:
        """Send a request and wait for the whole answer."""
        answer = self._begin(method, data, whole=True)
        await self._until_news()
        parts = answer.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return Response(answer.status, answer.headers, body)

    async def open(self, method: str, data: bytes) -> None:
        """Send a request and wait for the ``head`` of its answer; ``parts`` has the rest."""
        answer = self._begin(method, data, whole=False)
        while not answer.status:
            await self._until_news()

    @property
    def head(self) -> tuple[int, Mapping[str, str]]:
        """Status and headers of the answer."""
        assert self._answer is not None
        return self._answer.status, self._answer.headers

    async def parts(self) -> AsyncIterator[bytes]:
        """The body of the answer that was opened, piece by piece as it comes."""
        answer = self._answer
        assert answer is not None
        while True:
            if answer.parts:
                parts, answer.parts = answer.parts, []
                self._go_on()
                for part in parts:
                    yield part
            elif answer.done:
                return
            else:
                await self._until_news()

    def fail(self, why: Exception) -> None:
        """Give up on the answer that is awaited, and on the connection."""
        self.ended = True
        if self._answer is not None and not self._answer.done:
            self._failure = self._failure or why
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def abort(self) -> None:
        """Hang up at once: a polite end of TLS would wait for a peer who is still talking."""
        self.fail(Broken("we hung up"))

    def _begin(self, method: str, data: bytes, *, whole: bool) -> Answer:
        assert self._transport is not None
        if self.ended:
            raise Broken("the connection has ended")
        self._answer, self._whole = Answer(method), whole
        self._transport.write(data)
        return self._answer

    async def _until_news(self) -> None:
        answer = self._answer
        assert answer is not None
        if self._failure is None and not self.ended and not (self._whole and answer.done):
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
        if self._failure is not None and (self._whole or not answer.parts):
            raise self._failure

    def _go_on(self) -> None:
        self._unread = 0
        if self._paused and self._transport is not None and not self.ended:
            self._transport.resume_reading()
            self._paused = False

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
