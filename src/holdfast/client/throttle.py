"""A transport that sends no more than so many requests a second (``clientConnection.qps``)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.client.transport import Request, Response, Stream, Transport
from holdfast.clock import Clock


class ThrottledTransport:
    """Let ``burst`` requests through at once and ``qps`` a second from then on, in their order."""

    def __init__(self, transport: Transport, clock: Clock, *, qps: float, burst: int) -> None:
        self._transport = transport
        self._clock = clock
        self._pace = 1.0 / qps
        self._credit = burst / qps
        self._due = clock.monotonic() - self._credit
        """When the latest request was due had none been let through early."""

    async def send(self, request: Request) -> Response:
        """Send one request when it is its turn."""
        await self._turn()
        return await self._transport.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Begin to read when it is its turn; what then comes is not held back."""
        await self._turn()
        async with self._transport.stream(request) as answer:
            yield answer

    async def close(self) -> None:
        """Release connections."""
        await self._transport.close()

    async def _turn(self) -> None:
        now = self._clock.monotonic()
        self._due = max(self._due, now - self._credit) + self._pace
        if self._due > now:
            await self._clock.sleep(self._due - now)
