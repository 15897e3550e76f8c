"""The seam between a Client and an API server: one request in, one answer out.

Two transports implement it: ``client.http.HttpTransport`` for any API server and
``apiserver.inprocess.InProcessTransport`` for the embedded one. One shared test suite
(tests/client/transport_suite.py) passes on both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


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
