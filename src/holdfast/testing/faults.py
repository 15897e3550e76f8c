"""A transport that injects reproducible faults of networks and servers.

``Fault("unavailable_after", method="POST", path="/pods")`` lets the next matching request fail.
``Chances(conflict=0.1)`` lets requests fail at random, with a seeded generator.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from holdfast.client.transport import Request, Response, Stream, Transport
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Conflict, Expired, HoldfastError, Unavailable, status_of

Trouble = Literal[
    "conflict",  # 409, nothing written
    "unavailable",  # 503, nothing written
    "unavailable_after",  # written, and then 503
    "lost",  # written, and then the connection breaks
    "expired",  # a watch ends with 410
    "cut",  # a watch breaks off between two lines
    "torn",  # a watch breaks off inside a line
    "ended",  # a watch ends cleanly
    "delay",
]
ON_WRITES: tuple[Trouble, ...] = ("conflict", "unavailable", "unavailable_after", "lost", "delay")
ON_READS: tuple[Trouble, ...] = ("unavailable", "delay")
ON_STREAMS: tuple[Trouble, ...] = ("unavailable", "expired", "cut", "torn", "ended", "delay")


@dataclass(frozen=True, slots=True)
class Fault:
    """Let ``times`` requests with this method and path fail; a watch after ``lines`` lines."""

    trouble: Trouble
    method: str = ""
    path: str = ""
    times: int = 1
    lines: int = 0
    seconds: float = 1.0
    watch: bool | None = None

    def hits(self, request: Request, troubles: tuple[Trouble, ...]) -> bool:
        """Return whether the fault applies to a request."""
        watching = "watch" in request.query
        return (
            self.trouble in troubles
            and self.method in ("", request.method)
            and self.path in request.path
            and (self.watch is None or self.watch == watching)
        )


@dataclass(frozen=True, slots=True)
class Chances:
    """The probability of each fault per request; a watch fails after up to ``lines`` lines."""

    conflict: float = 0.0
    unavailable: float = 0.0
    unavailable_after: float = 0.0
    lost: float = 0.0
    expired: float = 0.0
    cut: float = 0.0
    torn: float = 0.0
    ended: float = 0.0
    delay: float = 0.0
    lines: int = 5
    seconds: float = 1.0


@dataclass(slots=True)
class FaultyTransport:
    """Sends requests through ``inner`` and lets some fail; ``injected_faults`` lists the faults."""

    inner: Transport
    faults: Iterable[Fault] = ()
    chances: Chances = Chances()
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    clock: Clock | None = None
    enabled: bool = True
    injected_faults: list[tuple[Trouble, str, str]] = field(default_factory=list)
    _left: list[tuple[Fault, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._left = [(fault, fault.times) for fault in self.faults]

    def add(self, *faults: Fault) -> None:
        """Add faults."""
        self._left.extend((fault, fault.times) for fault in faults)

    async def send(self, request: Request) -> Response:
        """Send one request, with the fault that applies to it."""
        writes = request.method not in ("GET", "HEAD")
        fault = self._choose(request, ON_WRITES if writes else ON_READS)
        if fault is None:
            return await self.inner.send(request)
        match fault.trouble:
            case "conflict":
                return _error_response(Conflict("injected: the object has been modified"))
            case "unavailable":
                return _error_response(Unavailable("injected: nothing was written"))
            case "delay":
                await self._wait(fault)
                return await self.inner.send(request)
        await self.inner.send(request)
        if fault.trouble == "lost":
            raise Unavailable("injected: the connection broke; the write took effect")
        return _error_response(Unavailable("injected: the write took effect"))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a stream that may break."""
        fault = self._choose(request, ON_STREAMS)
        if fault is not None and fault.trouble == "unavailable":
            raise Unavailable("injected: the connection was refused")
        if fault is not None and fault.trouble == "delay":
            await self._wait(fault)
            fault = None
        async with self.inner.stream(request) as stream:
            yield stream if fault is None else _FailingStream(stream, fault)

    async def close(self) -> None:
        """Close the inner transport."""
        await self.inner.close()

    def _choose(self, request: Request, troubles: tuple[Trouble, ...]) -> Fault | None:
        if not self.enabled:
            return None
        fault = self._scripted(request, troubles) or self._at_random(troubles)
        if fault is not None:
            self.injected_faults.append((fault.trouble, request.method, request.path))
        return fault

    def _scripted(self, request: Request, troubles: tuple[Trouble, ...]) -> Fault | None:
        for at, (fault, left) in enumerate(self._left):
            if left > 0 and fault.hits(request, troubles):
                self._left[at] = (fault, left - 1)
                return fault
        return None

    def _at_random(self, troubles: tuple[Trouble, ...]) -> Fault | None:
        drawn = self.rng.random()
        for trouble in troubles:
            drawn -= getattr(self.chances, trouble)
            if drawn < 0:
                lines = self.rng.randint(0, self.chances.lines)
                return Fault(trouble, lines=lines, seconds=self.chances.seconds)
        return None

    async def _wait(self, fault: Fault) -> None:
        if self.clock is None:
            raise ValueError("FaultyTransport needs a clock to delay requests: pass clock=")
        await self.clock.sleep(fault.seconds)


class _FailingStream:
    """A stream that fails after some lines."""

    def __init__(self, inner: Stream, fault: Fault) -> None:
        self.status = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self._inner = inner
        self._fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.status != 200:
            async for part in self._inner:
                yield part
            return
        left = self._fault.lines
        torn = self._fault.trouble == "torn"
        lines = aiter(self._inner)
        while left > 0 or torn:
            line = await anext(lines, None)
            if line is None:
                return
            if left == 0:
                yield line[: len(line) // 2]
                return
            left -= 1
            yield line
        for last in self._last_lines():
            yield last

    def _last_lines(self) -> Iterable[bytes]:
        match self._fault.trouble:
            case "expired":
                status = status_of(Expired("injected: too old resource version"))
                return [msgspec.json.encode({"type": "ERROR", "object": status})]
            case "ended":
                return []
        raise Unavailable("injected: the stream was cut")


def _error_response(error: HoldfastError) -> Response:
    body = msgspec.json.encode(status_of(error))
    return Response(error.code, {"content-type": "application/json"}, body)
