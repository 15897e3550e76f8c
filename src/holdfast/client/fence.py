"""Writes only while one may: a transport for whoever must hold a lease to change anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from holdfast.client.transport import Request, Response, Stream, Transport

_READS = frozenset({"GET", "HEAD"})


class FencedTransport:
    """Ask ``permit`` before every write, and once more when the write is about to leave.

    ``permit`` raises to stop it. A write may have waited in between: for its turn, for a
    connection, or because the whole process was stopped. Reads always pass.
    """

    def __init__(self, inner: Transport, permit: Callable[[], None]) -> None:
        self._inner = inner
        self.permit = permit

    async def send(self, request: Request) -> Response:
        """Send one request, if it is a read or permitted."""
        if request.method in _READS:
            return await self._inner.send(request)
        self.permit()
        return await self._inner.send(
            Request(
                request.method, request.path, request.query, request.headers, request.body,
                self.permit,
            )
        )  # fmt: skip

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Read as it comes."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the transport below."""
        await self._inner.close()


def permit_of(transport: Transport) -> Callable[[], None] | None:
    """What to ask before something is changed by another way than through this transport."""
    return transport.permit if isinstance(transport, FencedTransport) else None
