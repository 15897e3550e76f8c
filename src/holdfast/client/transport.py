"""The seam between a Client and an API server: one request in, one answer out.

Two transports implement it: ``client.http.HttpTransport`` for any API server and
``apiserver.inprocess.InProcessTransport`` for the embedded one. One shared test suite
(tests/client/transport_suite.py) runs on both. Two more wrap a transport: ``ThrottledTransport``
limits the requests per second, ``LeaseGuardedTransport`` sends writes only while a lease is held.
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
    write_check: Callable[[], None] | None = None
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
        self._interval = 1.0 / qps
        self._burst_seconds = burst / qps
        self._next_due = clock.monotonic() - self._burst_seconds
        """When the latest request was due had none been let through early."""

    async def send(self, request: Request) -> Response:
        """Send one request when it is its turn."""
        await self._wait_for_turn()
        return await self._transport.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Begin to read when it is its turn; what then comes is not held back."""
        await self._wait_for_turn()
        async with self._transport.stream(request) as response:
            yield response

    async def close(self) -> None:
        """Release connections."""
        await self._transport.close()

    async def _wait_for_turn(self) -> None:
        now = self._clock.monotonic()
        self._next_due = max(self._next_due, now - self._burst_seconds) + self._interval
        if self._next_due > now:
            await self._clock.sleep(self._next_due - now)


class LeaseGuardedTransport:
    """Write only while it is permitted, for a process that must hold a lease to change anything.

    ``permit`` is asked before every write and once more when the write is about to leave; it raises
    to stop it. A write may have waited in between: for its turn, for a connection, or because the
    whole process was stopped. Reads always pass.
    """

    def __init__(self, inner: Transport, write_check: Callable[[], None]) -> None:
        self._inner = inner
        self.write_check = write_check

    async def send(self, request: Request) -> Response:
        """Send one request, if it is a read or permitted."""
        if request.method in _READS:
            return await self._inner.send(request)
        self.write_check()
        return await self._inner.send(
            Request(
                request.method, request.path, request.query, request.headers, request.body,
                self.write_check,
            )
        )  # fmt: skip

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Read as it comes."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the transport below."""
        await self._inner.close()


def write_check_of(transport: Transport) -> Callable[[], None] | None:
    """What to ask before something is changed by another way than through this transport."""
    return transport.write_check if isinstance(transport, LeaseGuardedTransport) else None
