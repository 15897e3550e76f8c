"""The one thread that writes: it commits whatever is queued as one transaction.

There is no waiting for company: while one commit is under way the next batch gathers. A
failed commit breaks the writer: everything behind it was decided on a state that never
came to be, so it fails too, until ``recover`` has committed something again.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.store.database import Database, LogRow
from holdfast.store.objects import StoredObject, StoreEvent

T = TypeVar("T")

BATCH = 256


@dataclass(frozen=True, slots=True, eq=False)
class PendingWrite:
    """A decided change on its way to the disk, and who waits for it."""

    event: StoreEvent
    done: asyncio.Future[StoredObject]


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseTask:
    """Anything else to be done with the database, between two batches."""

    run: Callable[[Database], Any]
    done: asyncio.Future[Any]
    last: bool = False


class WriterThread:
    """Own the database once the store is loaded; report to the event loop."""

    def __init__(
        self,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        committed: Callable[[Sequence[PendingWrite]], None],
        failed: Callable[[Sequence[PendingWrite], Exception], None],
    ) -> None:
        self._database, self._loop = database, loop
        self._committed, self._failed = committed, failed
        self._queue: queue.SimpleQueue[PendingWrite | DatabaseTask] = queue.SimpleQueue()
        self._broken: Exception | None = None
        self._under_way = 0  # counted on the loop
        # A daemon, so that a program that forgets to close the store can still end.
        self._thread = threading.Thread(target=self._work, name="holdfast-store", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Tell whether something is queued or not reported yet."""
        return self._under_way > 0

    def enqueue(self, write: PendingWrite) -> None:
        """Queue a write; ``committed`` or ``failed`` will be called with it on the loop."""
        self._under_way += 1
        self._queue.put(write)

    async def run(self, run: Callable[[Database], T]) -> T:
        """Run something in the writer thread after all that is queued, and await its result."""
        done: asyncio.Future[T] = self._loop.create_future()
        self._under_way += 1
        self._queue.put(DatabaseTask(run, done))
        return await done

    async def recover(self, after: int) -> list[LogRow]:
        """Commit a trial; if it holds, accept writes again and return the log after a revision."""

        def trial(database: Database) -> list[LogRow]:
            database.test_commit()
            rows = list(database.log(after))
            self._broken = None
            return rows

        return await self.run(trial)

    async def stop(self) -> None:
        """Commit what is queued, close the database, end the thread."""
        closed: asyncio.Future[None] = self._loop.create_future()
        self._under_way += 1
        self._queue.put(DatabaseTask(Database.close, closed, last=True))
        await closed
        self._thread.join()

    def _work(self) -> None:
        while True:
            batch, job = self._take()
            if batch:
                self._commit(batch)
            if job is not None:
                self._run(job)
                if job.last:
                    return
            elif self._broken is None:
                self._database.checkpoint(idle=self._queue.empty())

    def _take(self) -> tuple[list[PendingWrite], DatabaseTask | None]:
        """Wait for something, then take what else is there, up to a job or a full batch."""
        batch: list[PendingWrite] = []
        item = self._queue.get()
        while True:
            if isinstance(item, DatabaseTask):
                return batch, item
            batch.append(item)
            if len(batch) == BATCH:
                return batch, None
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, None

    def _commit(self, batch: list[PendingWrite]) -> None:
        if self._broken is None:
            try:
                self._database.commit([write.event for write in batch])
            except Exception as error:  # whatever it was, the thread must live to report it
                self._broken = error
            else:
                return self._report(len(batch), self._committed, batch)
        return self._report(len(batch), self._failed, batch, self._broken)

    def _run(self, job: DatabaseTask) -> None:
        try:
            result = job.run(self._database)
        except Exception as error:
            self._report(1, _fail, job.done, error)
        else:
            self._report(1, _finish, job.done, result)

    def _report(self, count: int, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is gone, and with it everybody who waits
            self._loop.call_soon_threadsafe(self._deliver, count, call, arguments)

    def _deliver(self, count: int, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._under_way -= count
        call(*arguments)


def _finish(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
