"""A transport that ends a driver's controller after one of its writes, as ``kill -9`` would."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from holdfast.client.transport import Request, Response, Stream, Transport

KILL_POINTS = {
    "finalizer": ("/resourceclaims/", False, b""),
    "status": ("/resourceclaims/", True, b""),
    "booking": ("/nodeinventories/", True, b""),
    "protection": ("/nodeinventories/", False, b"finalizers"),
    "begun": ("/nodeinventories/", True, b'"begun":true'),
    "result": ("/nodeinventories/", True, b'"result":'),
    "removal": ("/nodeinventories/", True, b'"remove"'),
    "answer": ("/podschedulings/", True, b""),
}
"""Writes of a controller: part of the path, whether it is the status subresource, and a part of
the body. ``protection`` protects an inventory, ``begun`` precedes the call of the author's
``allocate``, ``result`` follows it, and ``removal`` follows ``release``."""


class KillTransport:
    """Sends requests through ``inner`` up to the one that ends the process."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._point = ""
        self._before = False
        self.killed = asyncio.Event()
        """Set when the process has ended: it sends nothing more and gets no more responses."""

    def kill(self, *, after: str = "", before: str = "") -> None:
        """End the process after, or before, the next write of a kind of ``KILL_POINTS``."""
        if (after or before) not in KILL_POINTS:
            raise ValueError(f"no such write: {after or before}; one of {', '.join(KILL_POINTS)}")
        self._point, self._before = after or before, bool(before)

    async def send(self, request: Request) -> Response:
        """Send a request; the call never returns once the process has ended."""
        hit = self._matches(request)
        if hit and self._before:
            self.killed.set()
        if self.killed.is_set():
            await asyncio.Event().wait()
        response = await self._inner.send(request)
        if hit and response.status < 300:
            self.killed.set()
        if self.killed.is_set():
            await asyncio.Event().wait()
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Open a stream."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()

    def _matches(self, request: Request) -> bool:
        if not self._point or request.method != "PATCH" or self.killed.is_set():
            return False
        part, status, text = KILL_POINTS[self._point]
        return (
            part in request.path
            and request.path.endswith("/status") == status
            and text in request.body
        )
