"""Delete Event objects an hour after their last write, as Kubernetes does.

Once a minute the newest revision is recorded. An event whose revision is not newer than the one
recorded an hour ago has not been written since.
"""

from __future__ import annotations

import asyncio
from collections import deque

from holdfast.api.timestamps import parse_rfc3339
from holdfast.runtime.errors import HoldfastError
from holdfast.server.operation import ServerContext
from holdfast.server.schema.stored_objects import decode, value_builder
from holdfast.server.store import StoredObject

TTL_SECONDS = 3600.0
PASS_SECONDS = 60.0
_BATCH = 100
_EVENTS = ("", "events")


class EventExpiry:
    """Deletes expired Event objects of a store."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._revisions: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        """Delete events that expired before the start, then check once a minute until cancelled."""
        store, clock = self._context.store, self._context.clock
        now = clock.now()
        await self._delete_all(
            [s for s in store.list(*_EVENTS) if _last_written(s) + TTL_SECONDS < now]
        )
        while True:
            self._revisions.append((clock.monotonic(), store.revision))
            await clock.sleep(PASS_SECONDS)
            expired_revision = self._revision_at(clock.monotonic() - TTL_SECONDS)
            await self._delete_all(
                [s for s in store.list(*_EVENTS) if s.revision <= expired_revision]
            )

    def _revision_at(self, monotonic_time: float) -> int:
        """Return the newest revision recorded up to a monotonic time, -1 if none."""
        expired_revision = -1
        while self._revisions and self._revisions[0][0] <= monotonic_time:
            _, expired_revision = self._revisions.popleft()
        return expired_revision

    async def _delete_all(self, events: list[StoredObject]) -> None:
        for start in range(0, len(events), _BATCH):
            await asyncio.gather(*map(self._delete, events[start : start + _BATCH]))

    async def _delete(self, stored: StoredObject) -> None:
        try:
            await self._context.store.delete(stored, value_builder(decode(stored)))
        except HoldfastError:
            return  # it was written or deleted, or the disk is full: the next pass tries again


def _last_written(stored: StoredObject) -> float:
    """Return the approximate time when an event of an earlier run was last written."""
    event = decode(stored)
    times = (event.get("lastTimestamp"), event["metadata"].get("creationTimestamp"))
    return max((parse_rfc3339(time) for time in times if time), default=0.0)
