"""The seam between a Client and an API server: one request in, one answer out.

Two transports implement it: ``client.http.HttpTransport`` for any API server and
``apiserver.inprocess.InProcessTransport`` for the embedded one. One shared test suite
(tests/client/transport_suite.py) passes on both. Two more wrap a transport: ``ThrottledTransport``
limits its requests a second, ``FencedTransport`` lets writes pass only while they are permitted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.clock import Clock

_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Request:
    """One call: method, path, query, headers (lower-case keys), body."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    permit: Callable[[], None] | None = None
    """Asked when the request is about to leave; what it raises keeps it from leaving."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer. Statuses of 400 and more are answers too, not exceptions."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that keeps coming: newline-delimited watch events, or a log.

    Iterating ends cleanly at the server's end of stream; a cut connection raises Unavailable.
    A non-200 status has its whole body as the only item.
    """

    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]:
        """One line (without its newline) at a time."""
        ...


class Transport(Protocol):
    """Carry requests to an API server. Connection failures raise Unavailable."""

    async def send(self, request: Request) -> Response:
        """Send one request and read the whole answer."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send one request and read the answer as it comes; leaving the block hangs up."""
        ...

    async def close(self) -> None:
        """Release connections; the transport is unusable afterwards."""
        ...


class ThrottledTransport:
    """Let ``burst`` requests through at once and ``qps`` a second from then on, in their order.

    The limits are those of ``clientConnection`` in a scheduler's configuration.
    """

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


class FencedTransport:
    """Write only while it is permitted, for a process that must hold a lease to change anything.

    ``permit`` is asked before every write and once more when the write is about to leave; it raises
    to stop it. A write may have waited in between: for its turn, for a connection, or because the
    whole process was stopped. Reads always pass.
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
