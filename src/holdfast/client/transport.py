"""The Transport protocol between a Client and an API server, and two wrappers.

Two transports implement it: ``client.http.HttpTransport`` for any API server and
``apiserver.inprocess.InProcessTransport`` for the embedded one. One shared test suite
(tests/client/transport_suite.py) runs on both. Two more wrap a transport: ``ThrottledTransport``
limits the requests per second, ``LeaseGuardedTransport`` sends writes only while a lease is held.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import msgspec

from holdfast.runtime.clock import Clock

_READS = frozenset({"GET", "HEAD"})


class Request(msgspec.Struct, frozen=True):
    """An HTTP request: method, path, query, headers (lower-case names), body.

    A struct, because every request makes one: creating it takes an eighth of the time of a
    dataclass.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    write_check: Callable[[], None] | None = None
    """Called immediately before the request is sent; an exception prevents that."""
    repeated: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """All values of the received query parameters that were sent more than once."""


class Response(msgspec.Struct, frozen=True):
    """A complete response; a status of 400 or more is not an exception."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """A streamed response, such as newline-delimited watch events or a log.

    Iteration stops when the server ends the stream; a lost connection raises Unavailable. With a
    status other than 200 the complete body is the only item.
    """

    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield one line at a time, without its newline."""
        ...


class Transport(Protocol):
    """Send requests to an API server; connection failures raise Unavailable."""

    async def send(self, request: Request) -> Response:
        """Send a request and return the complete response."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send a request and stream the response; leaving the block closes the connection."""
        ...

    async def close(self) -> None:
        """Close the connections; the transport is unusable afterwards."""
        ...


class ThrottledTransport:
    """Limit requests to ``qps`` per second with bursts of ``burst``, in their order.

    The limits are those of ``clientConnection`` in a KubeSchedulerConfiguration.
    """

    def __init__(self, transport: Transport, clock: Clock, *, qps: float, burst: int) -> None:
        self._transport = transport
        self._clock = clock
        self._interval = 1.0 / qps
        self._burst_seconds = burst / qps
        self._next_due = clock.monotonic() - self._burst_seconds
        """When the latest request would have been sent at ``qps`` without bursts."""

    async def send(self, request: Request) -> Response:
        """Send a request when the limit allows it."""
        await self._wait_for_turn()
        return await self._transport.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a stream when the limit allows it; the stream itself is not limited."""
        await self._wait_for_turn()
        async with self._transport.stream(request) as response:
            yield response

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()

    async def _wait_for_turn(self) -> None:
        now = self._clock.monotonic()
        self._next_due = max(self._next_due, now - self._burst_seconds) + self._interval
        if self._next_due > now:
            await self._clock.sleep(self._next_due - now)


class LeaseGuardedTransport:
    """Refuse writes when ``write_check`` raises, for a process that must hold a lease to write.

    ``write_check`` is called before each write and again immediately before the write is sent: in
    between, the write may have waited for the rate limit, for a connection or because the process
    was suspended. Reads are always sent.
    """

    def __init__(self, inner: Transport, write_check: Callable[[], None]) -> None:
        self._inner = inner
        self.write_check = write_check

    async def send(self, request: Request) -> Response:
        """Send a request, if it is a read or ``write_check`` does not raise."""
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
        """Open a stream, which only reads."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


def write_check_of(transport: Transport) -> Callable[[], None] | None:
    """Return the check to call before a write that does not use this transport, or None."""
    return transport.write_check if isinstance(transport, LeaseGuardedTransport) else None
