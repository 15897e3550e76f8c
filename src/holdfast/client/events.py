"""Record core/v1 Events, which ``kubectl describe`` shows.

Recording never blocks and never fails: events are queued, a repeated event only increases the
count of the stored one, and an event that cannot be written after several attempts is dropped with
a log line. The first counts are written at once, later ones once a minute, because thousands of
unschedulable pods may repeat the same event.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict

import msgspec

from holdfast.api.meta import Object, ObjectReference
from holdfast.api.scheme import EVENTS
from holdfast.client.adaptive_limit import AdaptiveLimit
from holdfast.client.backoff import Backoff
from holdfast.client.client import Client, PatchType
from holdfast.client.event_body import (
    count_patch,
    event_body,
    event_name,
    object_reference,
    with_count,
)
from holdfast.client.workqueue import QueueClosed, WorkQueue
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import (
    AlreadyExists,
    HoldfastError,
    NotFound,
    Retryable,
    TooManyRequests,
    Unavailable,
)
from holdfast.runtime.repeated_log import Repeats

MAX_ATTEMPTS = 12
RETRY = Backoff(first=0.2, limit=5.0)
MAX_CACHED_EVENTS = 4096
MAX_PENDING = 50_000
"""Events that may wait to be written; further ones are dropped. An event takes about 1.7 KB."""
DRAIN_SECONDS, STALL_SECONDS = 30.0, 5.0
"""How long ``stop`` writes pending events: in total, and without a successful write."""
UNTHROTTLED_COUNT, COUNT_INTERVAL_SECONDS = 10, 60.0
"""The first counts are written at once; higher ones at this interval."""

EventKey = tuple[str, str, str, str, str]
"""Object, component, type, reason and message; events with the same key are one repeated event."""

log = logging.getLogger(__name__)

__all__ = ["EventRecorder", "object_reference"]


class EventRecorder:
    """Write the events of one component concurrently, those about one object in their order.

    ``AdaptiveLimit`` determines the number of writers. ``record`` may be called before ``start``.
    ``stop`` writes the pending events while writes succeed, for at most ``DRAIN_SECONDS``.
    """

    def __init__(
        self, client: Client, clock: Clock, *, component: str = "holdfast", instance: str = ""
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._instance = instance
        self._number = itertools.count(1)
        self._entries: OrderedDict[EventKey, EventEntry] = OrderedDict()
        """Events whose repetitions are counted, the most recent last."""
        self._pending = PendingEvents(clock)
        self._limit = AdaptiveLimit()
        self._writers: set[asyncio.Task[None]] = set()
        self._started = False
        self._repeats = Repeats(now=clock.monotonic)
        self._dropping = False

    def record(
        self,
        regarding: Object | ObjectReference,
        type_: str,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: Object | ObjectReference | None = None,
        component: str = "",
    ) -> None:
        """Record an event about an object; ``type_`` is Normal or Warning."""
        regarding = object_reference(regarding)
        source = component or self._component
        subject = f"{regarding.kind}/{regarding.namespace}/{regarding.name}/{regarding.uid}"
        key = (subject, source, type_, reason, message)
        entry = self._entries.get(key)
        now = self._clock.now()
        if entry is not None:
            self._entries.move_to_end(key)
            entry.count += 1
            entry.last = now
        elif self._accepts_new():
            name = event_name(regarding, source, now, next(self._number))
            what = {"type": type_, "reason": reason, "message": message}
            if action:
                what["action"] = action
            body = event_body(
                name, regarding, what, source=source, instance=self._instance or source, now=now,
                related=None if related is None else object_reference(related),
            )  # fmt: skip
            entry = self._entries[key] = EventEntry(key, regarding, name, body, 1, now)
            self._forget_oldest()
        else:
            return
        self._pending.add(entry)
        self._add_writers()

    def start(self) -> None:
        """Start writing in the background."""
        self._started = True
        self._add_writers()

    async def stop(self, seconds: float = DRAIN_SECONDS) -> None:
        """Write pending events for at most ``seconds``, as long as writes succeed, then stop."""
        self._pending.make_all_due()
        try:
            if self._started:
                await self._drain(seconds)
        finally:
            self._started = False
            self._pending.queue.shutdown()
            writers, self._writers = self._writers, set()
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
            if self._pending:
                log.warning("stopped with %d events not written", len(self._pending))

    async def _drain(self, seconds: float) -> None:
        drained = asyncio.create_task(self._pending.queue.wait_until_idle())
        deadline = self._clock.monotonic() + seconds
        while not drained.done() and (left := deadline - self._clock.monotonic()) > 0:
            before = self._pending.finished_count
            timer = asyncio.create_task(self._clock.sleep(min(left, STALL_SECONDS)))
            await asyncio.wait({drained, timer}, return_when=asyncio.FIRST_COMPLETED)
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)
            if self._pending.finished_count == before:
                break
        drained.cancel()
        await asyncio.gather(drained, return_exceptions=True)

    def _add_writers(self) -> None:
        """Start as many writers as there are pending events, up to the limit."""
        wanted = min(self._limit.limit, len(self._pending)) if self._started else 0
        while len(self._writers) < wanted:
            self._writers.add(asyncio.create_task(self._write_forever()))

    async def _write_forever(self) -> None:
        while True:
            try:
                subject = await self._pending.queue.get()
            except QueueClosed:
                return
            if len(self._writers) > self._limit.limit:
                self._writers -= {asyncio.current_task()}
                self._pending.queue.add(subject)
                self._pending.queue.done(subject)
                return
            try:
                await self._write_next(subject)
            finally:
                self._pending.queue.done(subject)

    async def _write_next(self, subject: str) -> None:
        """Write the next event about an object that is due."""
        entry = self._pending.next_due(subject)
        if entry is None:
            return
        sent = self._clock.monotonic()
        try:
            await self._send(entry)
        except Retryable as failure:
            if isinstance(failure, TooManyRequests | Unavailable):
                self._limit.overloaded(sent, self._clock.monotonic())
            self._failed(entry, failure)
        except HoldfastError as refused:
            self._give_up(entry, refused)
        else:
            now = self._clock.monotonic()
            self._limit.succeeded(sent, now, saturated=self._pending.queue.ready > 0)
            self._written(entry, now)
        self._add_writers()

    async def _send(self, entry: EventEntry) -> None:
        count, last = entry.count, entry.last
        path = EVENTS.path(entry.namespace)
        try:
            if entry.stored:
                await self._patch(entry, count, last)
            else:
                await self._client.write("POST", path, with_count(entry.body, count, last))
        except AlreadyExists:  # an earlier attempt was stored although its response failed
            await self._patch(entry, count, last)
        except NotFound:
            if not entry.stored:
                raise  # the namespace does not exist
            # Stored events expire after an hour.
            await self._client.write("POST", path, with_count(entry.body, count, last))
        entry.stored = count

    async def _patch(self, entry: EventEntry, count: int, last: float) -> None:
        path = EVENTS.path(entry.namespace, entry.name)
        patch = count_patch(count, last)
        await self._client.write("PATCH", path, patch, PatchType.MERGE.value)

    def _written(self, entry: EventEntry, now: float) -> None:
        entry.due = now + COUNT_INTERVAL_SECONDS if entry.stored >= UNTHROTTLED_COUNT else 0.0
        self._pending.remove(entry)
        if entry.count != entry.stored:
            self._pending.add(entry)

    def _failed(self, entry: EventEntry, failure: Retryable) -> None:
        entry.failures += 1
        if entry.failures < MAX_ATTEMPTS:
            wait = max(RETRY.delay(entry.failures), failure.after or 0.0)
            self._pending.retry(entry, wait)
        else:
            self._give_up(entry, failure)

    def _give_up(self, entry: EventEntry, failure: HoldfastError) -> None:
        self._pending.remove(entry)
        if not entry.stored:
            self._entries.pop(entry.key, None)
        # A single cause, such as a lost lease, may drop thousands of events.
        regarding = f"{entry.regarding.kind} {entry.regarding.name}"
        line = f"event {entry.key[3]} about {regarding} dropped: {failure}"
        self._repeats.log(log, logging.WARNING, line, same=type(failure).__name__)

    def _accepts_new(self) -> bool:
        if len(self._pending) < MAX_PENDING:
            self._dropping = False
            return True
        if not self._dropping:
            self._dropping = True
            log.warning("%d events are pending; dropping new ones", MAX_PENDING)
        return False

    def _forget_oldest(self) -> None:
        """Remove the oldest events from the cache, except those that are pending."""
        for _ in range(2):
            if len(self._entries) <= MAX_CACHED_EVENTS:
                return
            key, entry = self._entries.popitem(last=False)
            if entry.pending:
                self._entries[key] = entry


class EventEntry(msgspec.Struct, eq=False):
    """One event and its number of occurrences; ``stored`` is the count on the server."""

    key: EventKey
    regarding: ObjectReference
    name: str
    body: bytes
    count: int
    last: float
    stored: int = 0
    pending: bool = False
    due: float = 0.0
    """When it may be written (monotonic clock)."""
    failures: int = 0

    @property
    def subject(self) -> str:
        """The object that the event is about."""
        return self.key[0]

    @property
    def namespace(self) -> str:
        """The namespace of the event."""
        return self.regarding.namespace or "default"


class PendingEvents:
    """Events in the order they were recorded, for each object separately.

    ``queue`` holds the objects with pending events. A worker takes an object from it and writes the
    event that ``next_due`` returns, so the events about one object are written one after another.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, list[EventEntry]] = {}
        self._count = 0
        self.queue = WorkQueue(clock)
        self.finished_count = 0
        """How many events were written or dropped so far."""

    def __len__(self) -> int:
        return self._count

    def add(self, entry: EventEntry) -> None:
        """Add an event, to be written when it is due, unless it is already pending."""
        if not entry.pending:
            entry.pending = True
            self._count += 1
            self._entries.setdefault(entry.subject, []).append(entry)
            self.queue.add_after(entry.subject, entry.due - self._clock.monotonic())

    def remove(self, entry: EventEntry) -> None:
        """Remove an event that was written or dropped and queue the next one of its object."""
        entry.pending, entry.failures = False, 0
        self._count -= 1
        self.finished_count += 1
        entries = self._entries[entry.subject]
        entries.remove(entry)
        if entries:
            self.queue.add(entry.subject)
        else:
            del self._entries[entry.subject]

    def retry(self, entry: EventEntry, seconds: float) -> None:
        """Retry an event that could not be written after ``seconds``."""
        entry.due = self._clock.monotonic() + seconds
        self.queue.add(entry.subject)

    def make_all_due(self) -> None:
        """Make all events due now."""
        for entries in self._entries.values():
            for entry in entries:
                entry.due = 0.0
        self.queue.release_delayed()

    def next_due(self, subject: str) -> EventEntry | None:
        """Return the next due event about an object, or None and queue the object for later.

        An event waits for an earlier one whose creation is retried, but not for a count update.
        """
        now, wait = self._clock.monotonic(), float("inf")
        for entry in self._entries.get(subject, ()):
            if entry.due <= now:
                return entry
            wait = min(wait, entry.due - now)
            if not entry.stored:
                break
        if wait < float("inf"):
            self.queue.add_after(subject, wait)
        return None
