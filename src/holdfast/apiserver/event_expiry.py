"""Forget events an hour after they were last written, as every Kubernetes cluster does.

Nothing is remembered about single events: once a minute the newest revision is noted, and an event
whose revision was noted an hour ago has not been written since.
"""

from __future__ import annotations

import asyncio
from collections import deque

from holdfast.api.timestamps import parse_rfc3339
from holdfast.apiserver.operation import ServerContext
from holdfast.apiserver.schema.stored_objects import decode, value_builder
from holdfast.errors import HoldfastError
from holdfast.store import StoredObject

TTL_SECONDS = 3600.0
PASS_SECONDS = 60.0
_BATCH = 100
_EVENTS = ("", "events")


class EventExpiry:
    """Delete the events of a store as their hour is over."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._noted: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        """Forget what was old before the start, then go on once a minute until cancelled."""
        store, clock = self._context.store, self._context.clock
        now = clock.now()
        await self._forget([s for s in store.list(*_EVENTS) if _written(s) + TTL_SECONDS < now])
        while True:
            self._noted.append((clock.monotonic(), store.revision))
            await clock.sleep(PASS_SECONDS)
            floor = self._floor(clock.monotonic() - TTL_SECONDS)
            await self._forget([s for s in store.list(*_EVENTS) if s.revision <= floor])

    def _floor(self, then: float) -> int:
        """Find the newest revision there was at a time."""
        floor = -1
        while self._noted and self._noted[0][0] <= then:
            _, floor = self._noted.popleft()
        return floor

    async def _forget(self, old: list[StoredObject]) -> None:
        for start in range(0, len(old), _BATCH):
            await asyncio.gather(*map(self._delete, old[start : start + _BATCH]))

    async def _delete(self, stored: StoredObject) -> None:
        try:
            await self._context.store.delete(stored, value_builder(decode(stored)))
        except HoldfastError:
            return  # written or deleted meanwhile, or the disk is full: not this time


def _written(stored: StoredObject) -> float:
    """Read from an event of an earlier run when it was last written, near enough."""
    event = decode(stored)
    times = (event.get("lastTimestamp"), event["metadata"].get("creationTimestamp"))
    return max((parse_rfc3339(time) for time in times if time), default=0.0)
