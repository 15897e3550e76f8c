"""The one thread that writes to the database: it commits all queued writes as one transaction.

The thread does not wait to fill a batch: writes queue up while a commit runs, so batches are larger
on a slower disk, and a single write is not delayed.

A write builds on the pending write before it (``Store.latest``). So all queued writes fail after a
failed commit, until a trial commit in ``recover`` succeeds. It is then unknown whether the failed
commit is on the disk, so ``recover`` also reads the log.

Writes that are enqueued together are in one batch, because a charge to a quota must be stored with
the object that it is for, or not at all.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.server.store.database import Database, LogRow
from holdfast.server.store.objects import StoredObject, StoreEvent

T = TypeVar("T")

BATCH = 256


@dataclass(frozen=True, slots=True, eq=False)
class PendingWrite:
    """A write that is not committed yet, and the future that completes after COMMIT."""

    event: StoreEvent
    done: asyncio.Future[StoredObject]


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseTask:
    """A function that the writer thread runs with the database, between two batches."""

    run: Callable[[Database], Any]
    done: asyncio.Future[Any]
    last: bool = False


class WriterThread:
    """Owns the database once the store is loaded; calls back on the event loop."""

    def __init__(
        self,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        committed: Callable[[Sequence[PendingWrite]], None],
        failed: Callable[[Sequence[PendingWrite], Exception], None],
    ) -> None:
        self._database, self._loop = database, loop
        self._committed, self._failed = committed, failed
        self._queue: queue.SimpleQueue[tuple[PendingWrite, ...] | DatabaseTask]
        self._queue = queue.SimpleQueue()
        self._failure: Exception | None = None
        self._pending = 0  # counted on the loop
        self._start()

    def _start(self) -> None:
        # A daemon, so that a program that does not close the store can still exit.
        self._thread = threading.Thread(target=self._work, name="holdfast-store", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Return whether a write or task is queued or not reported yet."""
        return self._pending > 0

    def enqueue(self, *writes: PendingWrite) -> None:
        """Enqueue writes for one transaction.

        ``committed`` or ``failed`` is called with them on the event loop.
        """
        self._pending += len(writes)
        self._put(writes)

    async def run(self, run: Callable[[Database], T]) -> T:
        """Run a function in the writer thread after all queued writes, and return its result."""
        done: asyncio.Future[T] = self._loop.create_future()
        self._pending += 1
        self._put(DatabaseTask(run, done))
        return await done

    async def recover(self, after: int) -> list[LogRow]:
        """Make a trial commit, accept writes again and return the log rows after a revision."""

        def trial(database: Database) -> list[LogRow]:
            database.test_commit()
            rows = list(database.log(after))
            self._failure = None
            return rows

        return await self.run(trial)

    async def stop(self) -> None:
        """Commit queued writes, close the database, end the thread."""
        closed: asyncio.Future[None] = self._loop.create_future()
        self._pending += 1
        self._put(DatabaseTask(Database.close, closed, last=True))
        await closed
        self._join()

    def _put(self, item: tuple[PendingWrite, ...] | DatabaseTask) -> None:
        self._queue.put(item)

    def _join(self) -> None:
        self._thread.join()

    def _work(self) -> None:
        while self._write_batch():
            pass

    def _write_batch(self) -> bool:
        """Commit a batch and run the task after it; return False after the last task."""
        batch, task = self._take()
        if batch:
            self._commit(batch)
        if task is not None:
            self._run(task)
            return not task.last
        if self._failure is None:
            self._database.checkpoint(idle=self._queue.empty())
        return True

    def _take(self) -> tuple[list[PendingWrite], DatabaseTask | None]:
        """Wait for writes or a task, then take more writes, up to a task or a full batch."""
        batch: list[PendingWrite] = []
        item = self._queue.get()
        while True:
            if isinstance(item, DatabaseTask):
                return batch, item
            batch += item
            if len(batch) >= BATCH:
                return batch, None
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, None

    def _commit(self, batch: list[PendingWrite]) -> None:
        if self._failure is None:
            try:
                self._database.commit([write.event for write in batch])
            except Exception as error:  # the thread must go on, to report any error
                self._failure = error
            else:
                return self._report(len(batch), self._committed, batch)
        return self._report(len(batch), self._failed, batch, self._failure)

    def _run(self, task: DatabaseTask) -> None:
        try:
            result = task.run(self._database)
        except Exception as error:
            self._report(1, _fail, task.done, error)
        else:
            self._report(1, _finish, task.done, result)

    def _report(self, count: int, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._deliver, count, call, arguments)

    def _deliver(self, count: int, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._pending -= count
        call(*arguments)


def _finish(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
