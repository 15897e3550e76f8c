"""A work queue of keys with delays and rate-limited requeues, like client-go's.

Two things differ from client-go's. ``add`` does not queue a key at once if it has failed eight
times in a row. The failing work often writes something, the write causes an event, and the event
adds the key: such work was retried without a pause, with a traceback in the log each time.

Delays end when the clock is set. They are measured with the monotonic clock, which does not jump,
but some keys wait for a time of day: a reservation could outlive its end by ten minutes.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.client.backoff import Backoff
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import Conflict, Retryable
from holdfast.runtime.repeated_log import Repeats

RETRY = Backoff(first=0.005, limit=300.0)
SLOW_AFTER_FAILURES = 8
"""After this many consecutive failures of a key, ``add`` no longer queues it at once."""
SLOW_ADD_SECONDS = 1.0
"""The delay of ``add`` for such a key: its failing work may cause the event that adds it."""

_RNG = random.Random()
"""Shared by all queues: each would be seeded from the system."""

log = logging.getLogger(__name__)


class QueueClosed(Exception):
    """The queue was shut down and is empty."""


class QueueObserver(Protocol):
    """Gets notified of what a queue does; times are seconds of the queue's monotonic clock."""

    def added(self, key: str, now: float) -> None:
        """Note that a key was queued."""

    def started(self, key: str, now: float) -> None:
        """Note that a worker got a key."""

    def finished(self, key: str, now: float) -> None:
        """Note that a worker is done with a key."""

    def retried(self) -> None:
        """Note that a key will be queued again, at once or after a delay."""


class WorkQueue:
    """Keys waiting for a worker.

    A key is *queued* (once), *delayed* (until a time) or *processing* (a worker has it). A key
    added while it is processing is queued when the worker is done: two workers never have the same
    key, and no addition is lost. All methods except ``get`` and ``wait_until_idle`` return at once
    and may be called from event handlers.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        backoff: Backoff = RETRY,
        rng: random.Random | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        self.clock = clock
        self._backoff = backoff
        self._rng = rng or _RNG
        self._observer = observer
        self._queue: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._due: dict[str, float] = {}
        self._delayed: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._failures: dict[str, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        self._closed = False

    def __len__(self) -> int:
        """Return the number of queued and delayed keys, without those being processed."""
        return len(self._dirty) + len(self._due)

    @property
    def ready(self) -> int:
        """The number of keys that a worker could get now."""
        return len(self._queue)

    def add(self, key: str) -> None:
        """Queue a key, unless it is queued; this ends a delay of the key.

        A key that has failed many times in a row is delayed by a second instead.
        """
        if self._failures.get(key, 0) >= SLOW_AFTER_FAILURES:
            self.add_after(key, SLOW_ADD_SECONDS)
        else:
            self._add_now(key)

    def _add_now(self, key: str) -> None:
        if self._closed or key in self._dirty:
            return
        self._due.pop(key, None)
        self._dirty.add(key)
        if self._observer is not None:
            self._observer.added(key, self.clock.monotonic())
        self._idle.clear()
        if key not in self._processing:
            self._queue.append(key)
            self._wake_one()

    def add_after(self, key: str, seconds: float) -> None:
        """Queue a key after a delay; if it has a delay already, the shorter one counts."""
        if self._observer is not None and not self._closed:
            self._observer.retried()
        if seconds <= 0:
            self._add_now(key)
            return
        due = self.clock.monotonic() + seconds
        if self._closed or key in self._dirty or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        self._idle.clear()
        heapq.heappush(self._delayed, (due, next(self._order), key))
        self._set_timer()

    def release_delayed(self) -> None:
        """Queue all delayed keys now."""
        for key in tuple(self._due):
            self._add_now(key)

    async def follow_clock_steps(self) -> None:
        """Queue all delayed keys whenever the clock is set, because some wait for a time of day.

        The worker delays a key again if it is not yet due.
        """
        while True:
            await self.clock.wait_for_step()
            self.release_delayed()

    def add_rate_limited(self, key: str, after: float | None = None) -> None:
        """Queue a failed key again, after a delay that grows with each consecutive failure."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, max(self._backoff.delay(failures, self._rng), after or 0.0))

    def forget(self, key: str) -> None:
        """Reset the failures of a key that succeeded or no longer exists."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Return the number of consecutive failures of a key."""
        return self._failures.get(key, 0)

    async def get(self) -> str:
        """Wait for the next key and return it; the worker must call ``done``.

        Raises QueueClosed after ``shutdown``, when the queue is empty.
        """
        while not self._queue:
            if self._closed:
                raise QueueClosed
            wakeup = asyncio.get_running_loop().create_future()
            self._getters.append(wakeup)
            try:
                await wakeup
            except asyncio.CancelledError:
                if wakeup.done() and not wakeup.cancelled():
                    self._wake_one()
                raise
        key = self._queue.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        if self._observer is not None:
            self._observer.started(key, self.clock.monotonic())
        return key

    def done(self, key: str) -> None:
        """Mark a key as processed; it is queued again if it was added during the work."""
        self._processing.discard(key)
        if self._observer is not None:
            self._observer.finished(key, self.clock.monotonic())
        if key in self._dirty:
            self._queue.append(key)
            self._wake_one()
        self._set_idle_if_empty()

    def shutdown(self) -> None:
        """Accept no more keys and drop the delayed ones; workers finish the queued ones."""
        self._closed = True
        self._due.clear()
        self._delayed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for wakeup in self._getters:
            if not wakeup.done():
                wakeup.set_result(None)
        self._getters.clear()
        self._set_idle_if_empty()

    async def wait_until_idle(self) -> None:
        """Wait until no key is queued, delayed or processing."""
        await self._idle.wait()

    def _wake_one(self) -> None:
        while self._getters:
            wakeup = self._getters.popleft()
            if not wakeup.done():
                wakeup.set_result(None)
                return

    def _set_idle_if_empty(self) -> None:
        if not (self._dirty or self._processing or self._due):
            self._idle.set()

    def _set_timer(self) -> None:
        earliest = self._delayed[0][0]
        if self._timer is not None:
            if self._timer_at <= earliest:
                return
            self._timer.cancel()
        self._timer_at = earliest
        self._timer = asyncio.create_task(self._release_due())

    async def _release_due(self) -> None:
        while self._delayed:
            self._timer_at = self._delayed[0][0]
            await self.clock.sleep(self._timer_at - self.clock.monotonic())
            now = self.clock.monotonic()
            while self._delayed and self._delayed[0][0] <= now:
                due, _, key = heapq.heappop(self._delayed)
                if self._due.get(key) == due:
                    del self._due[key]
                    self._add_now(key)
        self._timer = None


OnFailure = Callable[[str, Exception, int], None]
"""Called with a key, the exception and the number of consecutive failures."""


async def run_workers(
    queue: WorkQueue,
    handle: Callable[[str], Awaitable[None]],
    *,
    workers: int = 1,
    name: str = "",
    failed: OnFailure | None = None,
) -> None:
    """Call ``handle`` for the keys of a queue until it is shut down; failed keys are requeued.

    A Conflict is expected and not logged. Other exceptions are logged once a minute per key; none
    ends a worker.
    """
    repeats = Repeats(now=queue.clock.monotonic)

    async def worker() -> None:
        while True:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            try:
                await handle(key)
                queue.forget(key)
            except Exception as failure:  # one invalid object must not stop the others
                _report(repeats, name, key, failure)
                queue.add_rate_limited(
                    key, failure.after if isinstance(failure, Retryable) else None
                )
                if failed is not None:
                    failed(key, failure, queue.failures(key))
            finally:
                queue.done(key)

    following = asyncio.create_task(queue.follow_clock_steps())
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(worker())
    finally:
        following.cancel()


def _report(repeats: Repeats, name: str, key: str, failure: Exception) -> None:
    if isinstance(failure, Conflict):
        log.debug("%s: %s: %s; trying again", name, key, failure)
        return
    same = (key, type(failure))
    if isinstance(failure, Retryable):
        queue = f"{name}: {key}: {failure}; trying again"
        repeats.log(log, logging.WARNING, queue, same=same)
    else:
        queue = f"{name}: {key} failed; trying again"
        repeats.log(log, logging.ERROR, queue, same=same, exc_info=failure)
