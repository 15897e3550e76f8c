"""The history of each resource and those who follow it.

All subscribers read the same list of events, each from a place of its own: one event costs
a subscriber nothing until it reads, and one that is slow holds nothing up.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from holdfast import errors
from holdfast.store.objects import Retention, StoreEvent
from holdfast.store.revision_file import RevisionGaps

BATCH = 512
"""So many events are handed out at once; then others get a turn."""


class WatchCache:
    """What happened to one resource after ``compact_revision``, and who waits for more."""

    def __init__(self, retention: Retention, floor: int, gaps: RevisionGaps) -> None:
        self.compact_revision = floor
        self._gaps = gaps
        self.waiting: set[Subscription] = set()
        self.subscribers: set[Subscription] = set()
        self._retention = retention
        self._events: list[StoreEvent] = []
        self._forgotten = 0
        self._bytes = 0

    @property
    def end(self) -> int:
        """Give the place after the newest event, counted from the first ever held."""
        return self._forgotten + len(self._events)

    def position_after(self, revision: int) -> int:
        """Find the first event after a revision; raises Expired if some are gone."""
        if revision < self.compact_revision:
            raise errors.Expired(f"too old resource version: {revision} ({self.compact_revision})")
        self._gaps.check(revision)
        return self._forgotten + bisect_right(self._events, revision, key=_REVISION)

    def read(self, place: int, limit: int | None = None) -> list[StoreEvent]:
        """Read events from a place on."""
        start = place - self._forgotten
        assert start >= 0, "events before the floor were asked for"
        return self._events[start : None if limit is None else start + limit]

    def fell_behind(self, place: int, began_behind: int) -> bool:
        """Tell whether a reader at this place is too slow; where it began is not its fault."""
        behind = self.end - place - began_behind
        return place < self._forgotten or behind > self._retention.max_lag

    def extend(self, events: Sequence[StoreEvent]) -> None:
        """Add what was committed and wake those who wait for it."""
        self._events.extend(events)
        self._bytes += _size(events)
        most, most_bytes = self._retention.max_events, self._retention.max_bytes
        if len(self._events) > most * 9 // 8:  # not one by one: it moves the rest
            self._forget(len(self._events) - most)
        if self._bytes > most_bytes * 9 // 8:
            self._forget(self._oldest_of(self._bytes - most_bytes))
        for subscription in tuple(self.waiting):
            subscription.notify(events)

    def _oldest_of(self, size: int) -> int:
        """Count the oldest events that have so many bytes together, without the newest one."""
        count = 0
        while size > 0 and count < len(self._events) - 1:
            size -= len(self._events[count].object.value)
            count += 1
        return count

    def compactable_revision(self, now: float) -> int:
        """Tell up to which revision history may be forgotten at a time."""
        oldest = int((now - self._retention.seconds) * 1000)
        floor = self.compact_revision
        for event in self._events[: max(0, len(self._events) - self._retention.min_events)]:
            if event.time_ms >= oldest:
                break
            floor = event.revision
        return floor

    def compact(self, floor: int) -> None:
        """Drop the events up to a revision."""
        if floor > self.compact_revision:
            self._forget(bisect_right(self._events, floor, key=_REVISION))
            self.compact_revision = floor

    def _forget(self, count: int) -> None:
        if count:
            self.compact_revision = self._events[count - 1].revision
            self._forgotten += count
            self._bytes -= _size(self._events[:count])
            del self._events[:count]

    def close(self) -> None:
        """End all who follow."""
        for subscription in tuple(self.subscribers):
            subscription.close()


class Subscription:
    """Follow one resource: ``async for batch in subscription`` yields lists of events.

    Events come in revision order, first what is retained after ``from_revision``, then
    live. The iteration ends when somebody calls ``close``, when the store closes, or when
    the reader fell too far behind: then ``overrun`` is True, and a new watch from
    ``revision`` goes on without a gap (or is told Expired).
    """

    def __init__(
        self,
        history: WatchCache,
        from_revision: int,
        accept: Callable[[StoreEvent], bool] | None,
        committed: Callable[[], int],
    ) -> None:
        self.overrun = False
        self.closed = False
        self._history = history
        self._accept = accept
        self._committed = committed
        self._place = history.position_after(from_revision)
        self._began_behind = history.end - self._place
        self._seen = from_revision
        self._waiter: asyncio.Future[None] | None = None
        history.subscribers.add(self)

    @property
    def revision(self) -> int:
        """Tell up to where everything was handed out; what a bookmark may say."""
        if self.closed or self._place != self._history.end:
            return self._seen
        return max(self._seen, self._committed())

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> list[StoreEvent]:
        """Wait for the next events, at most a few hundred at once."""
        while not self.closed:
            if self._history.fell_behind(self._place, self._began_behind):
                self.overrun = True
                self.close()
            elif self._place < self._history.end:
                if batch := self._take():
                    return batch
                await asyncio.sleep(0)  # a long stretch of what is not wanted
            else:
                await self._wait()
        raise StopAsyncIteration

    def _take(self) -> list[StoreEvent]:
        batch = self._history.read(self._place, BATCH)
        if self._accept is not None:
            wanted = [event for event in batch if self._accept(event)]
        else:
            wanted = batch
        self._place += len(batch)
        self._seen = batch[-1].revision
        return wanted

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        self._history.waiting.add(self)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._history.waiting.discard(self)

    def notify(self, events: Sequence[StoreEvent]) -> None:
        """Wake the reader if one of these new events is for it; only called while it waits."""
        if self._accepts_any(events):
            self._wake()
        else:
            self._place, self._seen = self._history.end, events[-1].revision

    def _accepts_any(self, events: Sequence[StoreEvent]) -> bool:
        if self._accept is None:
            return True
        try:
            return any(map(self._accept, events))
        except Exception:
            return True  # the reader will meet it again in its own task, where it belongs

    def close(self) -> None:
        """End the iteration; calling it again does nothing."""
        if not self.closed:
            self._seen = self.revision
            self.closed = True
            self._history.subscribers.discard(self)
            self._wake()

    def _wake(self) -> None:
        self._history.waiting.discard(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _size(events: Sequence[StoreEvent]) -> int:
    return sum(len(event.object.value) for event in events)


_REVISION = attrgetter("revision")
