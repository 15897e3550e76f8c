"""The watch cache of each resource, and the subscriptions to it.

All subscriptions read the same list of events, each at its own position: an event costs a
subscription nothing until it reads, and a slow subscription does not delay the others. A queue for
each subscription would need a limit of its size and a copy of each event.

The list is limited by age, number and bytes. When only the number was limited, one ConfigMap of 1
MB that was changed again and again filled the memory, and the disk until the next compaction.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from holdfast.runtime import errors
from holdfast.server.store.objects import Retention, StoreEvent
from holdfast.server.store.revision_file import RevisionGaps

BATCH = 512
"""The most events returned at once, so that other tasks can run in between."""


class WatchCache:
    """The events of one resource after ``compact_revision``, and the subscriptions to them."""

    def __init__(self, retention: Retention, revision: int, gaps: RevisionGaps) -> None:
        self.compact_revision = revision
        self._gaps = gaps
        self.waiting: set[Subscription] = set()
        self.subscribers: set[Subscription] = set()
        self._retention = retention
        self._events: list[StoreEvent] = []
        self._removed = 0
        self._bytes = 0

    @property
    def end(self) -> int:
        """Return the position after the newest event, counted from the first event ever added."""
        return self._removed + len(self._events)

    def position_after(self, revision: int) -> int:
        """Return the position of the first event after a revision; raises Expired if compacted."""
        if revision < self.compact_revision:
            raise errors.Expired(f"too old resource version: {revision} ({self.compact_revision})")
        self._gaps.check(revision)
        return self._removed + bisect_right(self._events, revision, key=_REVISION)

    def read(self, position: int, limit: int | None = None) -> list[StoreEvent]:
        """Return the events from a position on."""
        start = position - self._removed
        assert start >= 0, "compacted events were requested"
        return self._events[start : None if limit is None else start + limit]

    def fell_behind(self, position: int, initial_lag: int) -> bool:
        """Return whether a reader lags too far, not counting its lag at the start."""
        lag = self.end - position - initial_lag
        return position < self._removed or lag > self._retention.max_lag

    def extend(self, events: Sequence[StoreEvent]) -> None:
        """Add committed events and notify the waiting subscriptions."""
        self._events.extend(events)
        self._bytes += _size(events)
        max_events, max_bytes = self._retention.max_events, self._retention.max_bytes
        # Removing moves the remaining events, so it is done for many events at once.
        if len(self._events) > max_events * 9 // 8:
            self._remove(len(self._events) - max_events)
        if self._bytes > max_bytes * 9 // 8:
            self._remove(self._count_oldest(self._bytes - max_bytes))
        for subscription in tuple(self.waiting):
            subscription.notify(events)

    def _count_oldest(self, size: int) -> int:
        """Count the oldest events that have this many bytes together, without the newest event."""
        count = 0
        while size > 0 and count < len(self._events) - 1:
            size -= len(self._events[count].object.value)
            count += 1
        return count

    def compactable_revision(self, now: float) -> int:
        """Return the revision up to which events may be deleted at the time ``now``."""
        oldest_ms = int((now - self._retention.seconds) * 1000)
        revision = self.compact_revision
        for event in self._events[: max(0, len(self._events) - self._retention.min_events)]:
            if event.time_ms >= oldest_ms:
                break
            revision = event.revision
        return revision

    def compact(self, revision: int) -> None:
        """Delete the events up to a revision."""
        if revision > self.compact_revision:
            self._remove(bisect_right(self._events, revision, key=_REVISION))
            self.compact_revision = revision

    def _remove(self, count: int) -> None:
        if count:
            self.compact_revision = self._events[count - 1].revision
            self._removed += count
            self._bytes -= _size(self._events[:count])
            del self._events[:count]

    def close(self) -> None:
        """Close all subscriptions."""
        for subscription in tuple(self.subscribers):
            subscription.close()


class Subscription:
    """A subscription to one resource: ``async for batch in subscription`` yields lists of events.

    Events are in revision order: first the retained events after ``from_revision``, then new ones.
    The iteration ends after ``close``, when the store closes, or when the reader lags too far:
    then ``overrun`` is True, and a new watch from ``revision`` continues without a gap (or raises
    Expired).
    """

    def __init__(
        self,
        watch_cache: WatchCache,
        from_revision: int,
        accept: Callable[[StoreEvent], bool] | None,
        committed: Callable[[], int],
    ) -> None:
        self.overrun = False
        self.closed = False
        self._watch_cache = watch_cache
        self._accept = accept
        self._committed = committed
        self._position = watch_cache.position_after(from_revision)
        # A reader that lags too far is stopped. Its lag at the start does not count: when it did, a
        # watch that began far behind ended at once, as did each that continued it.
        self._initial_lag = watch_cache.end - self._position
        self._returned_revision = from_revision
        self._waiter: asyncio.Future[None] | None = None
        watch_cache.subscribers.add(self)

    @property
    def revision(self) -> int:
        """Return the revision up to which all events were returned, as for a bookmark."""
        if self.closed or self._position != self._watch_cache.end:
            return self._returned_revision
        return max(self._returned_revision, self._committed())

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> list[StoreEvent]:
        """Wait for the next events and return at most ``BATCH`` of them."""
        while not self.closed:
            if self._watch_cache.fell_behind(self._position, self._initial_lag):
                self.overrun = True
                self.close()
            elif self._position < self._watch_cache.end:
                if batch := self._take():
                    return batch
                await asyncio.sleep(0)  # no accepted event in the whole batch: let other tasks run
            else:
                await self._wait()
        raise StopAsyncIteration

    def _take(self) -> list[StoreEvent]:
        batch = self._watch_cache.read(self._position, BATCH)
        if self._accept is not None:
            accepted = [event for event in batch if self._accept(event)]
        else:
            accepted = batch
        self._position += len(batch)
        self._returned_revision = batch[-1].revision
        return accepted

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        self._watch_cache.waiting.add(self)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._watch_cache.waiting.discard(self)

    def notify(self, events: Sequence[StoreEvent]) -> None:
        """Wake the reader if it accepts one of the new events; only called while it waits."""
        if self._accepts_any(events):
            self._wake()
        else:  # move on without a switch to the reader's task
            self._position, self._returned_revision = self._watch_cache.end, events[-1].revision

    def _accepts_any(self, events: Sequence[StoreEvent]) -> bool:
        if self._accept is None:
            return True
        try:
            return any(map(self._accept, events))
        except Exception:
            return True  # the reader's own task raises the same error

    def close(self) -> None:
        """End the iteration; calling it again does nothing."""
        if not self.closed:
            self._returned_revision = self.revision
            self.closed = True
            self._watch_cache.subscribers.discard(self)
            self._wake()

    def _wake(self) -> None:
        self._watch_cache.waiting.discard(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _size(events: Sequence[StoreEvent]) -> int:
    return sum(len(event.object.value) for event in events)


_REVISION = attrgetter("revision")
