"""The store: decide and read in memory, commit in groups, publish what is durable.

The event loop is the only decider. A write call checks, takes the next revision, lets
``build`` make the bytes, enters the overlay and queues, all without awaiting; a writer
thread commits whatever is queued as one transaction. Only after COMMIT the future
completes, readers see the object and watchers get the event, in revision order.

Two views: ``get``, ``list``, ``list_at``, ``dependents`` and ``revision`` show what is
committed, which is all a client may ever see (a revision shown before it is durable could
be reused with other content after a crash). ``latest`` adds what is queued: decide on it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from holdfast import errors
from holdfast.clock import Clock
from holdfast.store.backup import restore, write_backup
from holdfast.store.committed_objects import load_objects, objects_before, replay
from holdfast.store.data_directory import DataDirectory
from holdfast.store.database import Database, WriteFault
from holdfast.store.indexing import index_object
from holdfast.store.integrity import check_file, convert_sqlite_errors, is_damage
from holdfast.store.objects import (
    EventType,
    IndexFunc,
    ObjectKey,
    Retention,
    StoredObject,
    StoreEvent,
)
from holdfast.store.read_only_mode import ReadOnlyMode
from holdfast.store.revision_file import RevisionFile, RevisionGaps
from holdfast.store.watch import Subscription, WatchCache
from holdfast.store.writer_thread import PendingWrite, WriterThread

log = logging.getLogger(__name__)
__all__ = ["MAX_VALUE", "Store", "ValueBuilder", "check_value_size", "restore"]

ValueBuilder = Callable[[int], bytes]
"""Make the bytes to store, given the revision to embed as ``metadata.resourceVersion``."""
Objects = list[StoredObject]
ResourceKeys = list[tuple[str, str]]

MAX_VALUE = 1_572_864
"""The largest object, as etcd's default request limit: 1.5 MiB."""
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def check_value_size(key: ObjectKey, value: bytes) -> None:
    """Refuse an object over the limit."""
    if len(value) > MAX_VALUE:
        words = f"{key.display_name} is {len(value)} bytes long; the limit is {MAX_VALUE}"
        raise errors.TooLarge(words, key.details)


class Store:
    """Versioned objects and the watch log of one data directory."""

    def __init__(
        self,
        directory: DataDirectory,
        database: Database,
        clock: Clock,
        index: IndexFunc,
        retention: Retention,
    ) -> None:
        self.cluster_uid: str = database.meta("cluster_uid")
        self._directory, self._clock, self._index = directory, clock, index
        self._retention = retention
        self._loop = asyncio.get_running_loop()
        self._overlay: dict[ObjectKey, PendingWrite] = {}
        self._refusal = ReadOnlyMode(directory.path, clock, self._recover)
        self._closed = False
        self._compaction: asyncio.Task[None] | None = None
        self._uncompacted = self._uncompacted_bytes = 0
        self._histories: dict[tuple[str, str], WatchCache] = {}
        self._load(database, directory.revision_file)
        self._writer = WriterThread(database, self._loop, self._committed, self._failed)

    @classmethod
    def open(
        cls,
        directory: Path,
        clock: Clock,
        *,
        index: IndexFunc = index_object,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        fault: WriteFault | None = None,
    ) -> Store:
        """Open or create the store of a directory; call it inside the running loop.

        Raises StoreLocked when another process has the directory. ``fault`` is for tests:
        it runs in the writer thread inside each transaction, before COMMIT, and may raise.
        """
        with ExitStack() as objects_before:
            home = DataDirectory(directory)
            objects_before.callback(home.release)
            check_file(home.database)
            with convert_sqlite_errors(home.database):
                database = Database(home.database, fault, home.revision_file)
                objects_before.callback(database.close_without_checkpoint)
                store = cls(home, database, clock, index, retention)
            objects_before.pop_all()
        return store

    def _load(self, database: Database, mark: RevisionFile) -> None:
        self._floor: int = database.meta("compact_rv")
        self._revision = int(database.meta("last_rv"))
        self._assigned = max(self._revision, mark.reserved - 1)
        self._gaps = RevisionGaps(database.gaps())
        if self._assigned > self._revision:
            self._gaps.add(self._revision, self._assigned + 1)
            database.set_gaps(self._gaps.as_list())
        if mark.committed > self._revision:
            log.error(
                "%s ends at revision %d although revision %d was committed: what was written in "
                "between is lost (a file was cut, or replaced by an older one); revisions go on "
                "at %d, and clients that have seen a lost one must list again",
                database.path, self._revision, mark.committed, self._assigned + 1,
            )  # fmt: skip
        self._state = load_objects(database, self._index)
        self._compacted = database.compact_revisions()
        for resource, floor in self._compacted.items():
            self._histories[resource] = WatchCache(self._retention, floor, self._gaps)
        for event in replay(database.log(), self._state, self._index):
            self._history(event.key.group, event.key.plural).extend((event,))

    async def close(self) -> None:
        """Commit what is queued, end all subscriptions, release the directory."""
        if self._closed:
            return
        self._closed = True
        await self._refusal.close()
        if self._compaction is not None:
            self._compaction.cancel()
            with suppress(asyncio.CancelledError):
                await self._compaction
        await self._writer.stop()
        for history in self._histories.values():
            history.close()
        self._directory.release()

    async def run(self) -> None:
        """Compact every five minutes of the clock, until cancelled."""
        while True:
            await self._clock.sleep(self._retention.seconds)
            with suppress(errors.Unavailable):  # the disk is full: what is kept can wait
                await self.compact()

    @property
    def busy(self) -> bool:
        """Tell whether the writer thread has something under way; a virtual clock asks this."""
        return self._writer.busy

    @property
    def read_only_reason(self) -> str:
        """Say why writes are refused at present, "" if they are not."""
        return self._refusal.reason

    # Reading what is committed.

    @property
    def revision(self) -> int:
        """Give the newest committed revision: the resourceVersion of a list made now."""
        return self._revision

    @property
    def resources(self) -> ResourceKeys:
        """Name the (group, plural) of every resource that has objects."""
        return self._state.resources

    def get(self, key: ObjectKey) -> StoredObject | None:
        """Read one object as clients may see it."""
        return self._state.get(key)

    def list(
        self,
        group: str,
        plural: str,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Objects:
        """List objects in key order, those that carry all the given label and field pairs.

        Any label, ``spec.nodeName`` and ``involvedObject.*`` are looked up in an index.
        """
        return self._state.select(group, plural, namespace, labels, fields)

    def list_at(
        self, revision: int, group: str, plural: str, namespace: str | None = None
    ) -> Objects:
        """List objects as they were at a revision; raises Expired if history is gone."""
        history = self._history(group, plural)
        since = history.read(history.position_after(revision))
        now = self._state.select(group, plural, namespace)
        mine = [e for e in since if not namespace or e.key.namespace == namespace]
        return objects_before(now, mine) if mine else now

    def dependents(self, uid: str) -> Objects:
        """List the objects, of any resource, that name this uid as an owner."""
        return self._state.dependents(uid)

    # Deciding.

    def latest(self, key: ObjectKey) -> StoredObject | None:
        """Read one object including writes not committed yet: what a decision builds on."""
        write = self._overlay.get(key)
        if write is None:
            return self._state.get(key)
        return None if write.event.change is EventType.DELETED else write.event.object

    def create(self, key: ObjectKey, build: ValueBuilder) -> asyncio.Future[StoredObject]:
        """Queue a new object; raises AlreadyExists. The future completes after COMMIT."""
        if self.latest(key) is not None:
            raise errors.AlreadyExists(f"{key.display_name} already exists", key.details)
        return self._decide(EventType.ADDED, key, None, build)

    def update(self, previous: StoredObject, build: ValueBuilder) -> asyncio.Future[StoredObject]:
        """Queue the next version of ``previous``; raises Conflict or NotFound if it moved on."""
        self._check_latest(previous)
        return self._decide(EventType.MODIFIED, previous.key, previous, build)

    def delete(self, previous: StoredObject, build: ValueBuilder) -> asyncio.Future[StoredObject]:
        """Queue the removal; ``build`` makes the final object that watchers are shown."""
        self._check_latest(previous)
        return self._decide(EventType.DELETED, previous.key, previous, build)

    def _check_latest(self, previous: StoredObject) -> None:
        key, latest = previous.key, self.latest(previous.key)
        if latest is None:
            raise errors.NotFound(f"{key.display_name} not found", key.details)
        if latest.revision != previous.revision:
            raise errors.Conflict(
                f"Operation cannot be fulfilled on {key.display_name}: {MODIFIED}", key.details
            )

    def _decide(
        self, change: EventType, key: ObjectKey, previous: StoredObject | None, build: ValueBuilder
    ) -> asyncio.Future[StoredObject]:
        self._check_open()
        self._refusal.check_writable()
        revision = self._assigned + 1
        value = build(revision)
        check_value_size(key, value)
        stored = StoredObject(key, revision, value, self._index(key, value))
        assert self._assigned + 1 == revision, "build must not write to the store"
        self._assigned = revision
        event = StoreEvent(change, stored, previous, int(self._clock.now() * 1000))
        write = PendingWrite(event, self._loop.create_future())
        self._overlay[key] = write
        self._writer.enqueue(write)
        return write.done

    # Following.

    def watch(
        self,
        group: str,
        plural: str,
        from_revision: int,
        accept: Callable[[StoreEvent], bool] | None = None,
    ) -> Subscription:
        """Follow a resource from after a revision; raises Expired if history is gone.

        ``accept`` filters before waking the reader: with it, thousands of subscribers
        that each care for few events are cheap. A revision newer than ``revision`` is the
        caller's to refuse.
        """
        self._check_open()
        history = self._history(group, plural)
        return Subscription(history, from_revision, accept, lambda: self._revision)

    def _history(self, group: str, plural: str) -> WatchCache:
        history = self._histories.get((group, plural))
        if history is None:
            history = WatchCache(self._retention, self._floor, self._gaps)
            self._histories[group, plural] = history
        return history

    def check_not_in_gap(self, revision: int) -> None:
        """Raise Expired for a revision that may have been given out and is not in the store."""
        self._gaps.check(revision)

    # What the writer reports.

    def _committed(self, batch: Sequence[PendingWrite]) -> None:
        self._apply([write.event for write in batch])
        for write in batch:
            if self._overlay.get(write.event.key) is write:
                del self._overlay[write.event.key]
            if not write.done.done():
                write.done.set_result(write.event.object)

    def _apply(self, events: Sequence[StoreEvent]) -> None:
        news: dict[tuple[str, str], list[StoreEvent]] = {}
        for event in events:
            if event.change is EventType.DELETED:
                self._state.remove(event.key)
            else:
                self._state.put(event.object)
            news.setdefault((event.key.group, event.key.plural), []).append(event)
            self._revision = event.revision
        for (group, plural), changes in news.items():
            self._history(group, plural).extend(changes)
        self._uncompacted += len(events)
        self._uncompacted_bytes += sum(len(event.object.value) for event in events)
        kept = self._retention
        much = self._uncompacted >= kept.max_events or self._uncompacted_bytes >= kept.max_bytes
        if much and self._compaction is None:
            self._compaction = self._loop.create_task(self._compact_by_volume())

    def _failed(self, batch: Sequence[PendingWrite], error: Exception) -> None:
        """Forget everything not committed: it was decided on what never came to be."""
        self._overlay.clear()
        for write in batch:
            if not write.done.done():
                write.done.set_exception(self._refusal.unavailable(error))
        self._refusal.enter(error)

    async def _recover(self) -> None:
        """Commit for trial; a commit that reached the disk and was reported as failed counts."""
        rows = await self._writer.recover(self._revision)
        self._apply(list(replay(rows, self._state, self._index)))

    # Keeping house.

    async def compact(self, now: float | None = None) -> None:
        """Forget history older than the retention allows."""
        self._check_open()
        when = self._clock.now() if now is None else now
        floors = {resource: h.compactable_revision(when) for resource, h in self._histories.items()}
        self._uncompacted = self._uncompacted_bytes = 0
        moved = {r: floor for r, floor in floors.items() if floor > self._compacted.get(r, 0)}
        if not moved:
            return
        try:
            more = await self._writer.run(lambda database: database.compact(moved))
            while more:
                more = await self._writer.run(lambda database: database.compact({}))
        except (sqlite3.Error, OSError) as error:
            if is_damage(error):
                self._refusal.enter(error)
            raise self._refusal.unavailable(error) from error
        self._compacted |= moved
        for resource, floor in moved.items():
            self._histories[resource].compact(floor)

    async def _compact_by_volume(self) -> None:
        with suppress(errors.Unavailable):
            await self.compact()
        self._compaction = None

    async def backup(self, path: Path) -> None:
        """Write a consistent copy to a new file, mode 0600; writes wait meanwhile."""
        self._check_open()
        await self._writer.run(lambda database: write_backup(database, path))

    def _check_open(self) -> None:
        if self._closed:
            raise errors.Unavailable(f"the store in {self._directory.path} is closed")
