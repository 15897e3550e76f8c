"""The store: check writes and read objects in memory, commit in batches, then publish events.

A write runs on the event loop, without awaiting: it checks preconditions, takes the next revision,
calls ``build`` for the bytes and enqueues the write. A writer thread commits all queued writes as
one transaction. The future completes only after COMMIT; then readers see the object and watchers
get the event, in revision order.

``get``, ``list``, ``list_at``, ``dependents`` and ``revision`` return committed state only, which
is all that a client may see: after a crash, a revision that was not durable could be assigned again
with other content. ``latest`` includes queued writes; the next write builds on it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from holdfast.runtime import errors
from holdfast.runtime.clock import Clock
from holdfast.server.store.backup import restore, write_backup
from holdfast.server.store.committed_objects import load_objects, objects_before, replay
from holdfast.server.store.data_directory import DataDirectory
from holdfast.server.store.database import Database, WriteFault
from holdfast.server.store.database_file import check_file, convert_sqlite_errors, is_damage
from holdfast.server.store.indexing import index_object
from holdfast.server.store.objects import (
    EventType,
    IndexFunc,
    ObjectKey,
    Retention,
    StoredObject,
    StoreEvent,
    check_value_size,
)
from holdfast.server.store.read_only_mode import ReadOnlyMode
from holdfast.server.store.revision_file import RevisionFile, RevisionGaps
from holdfast.server.store.watch import Subscription, WatchCache
from holdfast.server.store.writer_thread import PendingWrite, WriterThread

log = logging.getLogger(__name__)
__all__ = ["Store", "ValueBuilder", "restore"]

ValueBuilder = Callable[[int], bytes]
"""Return the bytes to store, given the revision to write as ``metadata.resourceVersion``."""
Objects = list[StoredObject]
ResourceKeys = list[tuple[str, str]]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Store:
    """The versioned objects and the watch history of one data directory."""

    def __init__(
        self,
        directory: DataDirectory,
        database: Database,
        clock: Clock,
        index: IndexFunc,
        retention: Retention,
        *,
        writer: type[WriterThread],
    ) -> None:
        self.cluster_uid: str = database.meta("cluster_uid")
        self._directory, self._clock, self._index = directory, clock, index
        self._retention = retention
        self._loop = asyncio.get_running_loop()
        self._pending_writes: dict[ObjectKey, PendingWrite] = {}
        self._read_only_mode = ReadOnlyMode(directory.path, clock, self._recover)
        self._transaction: list[PendingWrite] | None = None
        self._closed = False
        self._compaction: asyncio.Task[None] | None = None
        self._uncompacted = self._uncompacted_bytes = 0
        self._watch_caches: dict[tuple[str, str], WatchCache] = {}
        self._last_changes: dict[tuple[str, str], int] = {}
        self._load(database, directory.revision_file)
        self._writer = writer(database, self._loop, self._committed, self._failed)

    @classmethod
    def open(
        cls,
        directory: Path,
        clock: Clock,
        *,
        index: IndexFunc = index_object,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        fault: WriteFault | None = None,
        writer: type[WriterThread] = WriterThread,
    ) -> Store:
        """Open or create the store of a directory; call it inside the running event loop.

        Raises StoreLocked if another process uses the directory. ``fault`` and other classes of
        ``writer`` are for tests: ``fault`` is called in the writer thread inside each transaction,
        before COMMIT, and may raise.
        """
        with ExitStack() as cleanup:
            data_directory = DataDirectory(directory)
            cleanup.callback(data_directory.release)
            check_file(data_directory.database)
            with convert_sqlite_errors(data_directory.database):
                database = Database(data_directory.database, fault, data_directory.revision_file)
                cleanup.callback(database.close_without_checkpoint)
                store = cls(data_directory, database, clock, index, retention, writer=writer)
            cleanup.pop_all()
        return store

    def _load(self, database: Database, revision_file: RevisionFile) -> None:
        self._compact_revision: int = database.meta("compact_rv")
        self._revision = int(database.meta("last_rv"))
        self._assigned = max(self._revision, revision_file.reserved - 1)
        self._gaps = RevisionGaps(database.gaps())
        if self._assigned > self._revision:
            self._gaps.add(self._revision, self._assigned + 1)
            database.set_gaps(self._gaps.as_list())
        if revision_file.committed > self._revision:
            log.error(
                "%s ends at revision %d although revision %d was committed: what was written in "
                "between is lost (the file was truncated, or replaced by an older one); revisions "
                "continue at %d, and clients that have seen a lost one must list again",
                database.path, self._revision, revision_file.committed, self._assigned + 1,
            )  # fmt: skip
        self._objects = load_objects(database, self._index)
        self._compacted = database.compact_revisions()
        for resource, revision in self._compacted.items():
            self._watch_caches[resource] = WatchCache(self._retention, revision, self._gaps)
        for event in replay(database.log(), self._objects, self._index):
            self._watch_cache(event.key.group, event.key.plural).extend((event,))

    async def close(self) -> None:
        """Commit queued writes, close all subscriptions, release the directory."""
        if self._closed:
            return
        self._closed = True
        await self._read_only_mode.close()
        if self._compaction is not None:
            self._compaction.cancel()
            with suppress(asyncio.CancelledError):
                await self._compaction
        await self._writer.stop()
        for watch_cache in self._watch_caches.values():
            watch_cache.close()
        self._directory.release()

    async def run(self) -> None:
        """Compact every ``retention.seconds`` until cancelled."""
        while True:
            await self._clock.sleep(self._retention.seconds)
            with suppress(errors.Unavailable):  # the disk is full: compaction is tried again later
                await self.compact()

    @property
    def busy(self) -> bool:
        """Return whether writes or tasks are pending; a virtual clock waits for them."""
        return self._writer.busy

    @property
    def read_only_reason(self) -> str:
        """Return why writes are rejected at present, "" if they are accepted."""
        return self._read_only_mode.reason

    # Read committed objects.

    @property
    def revision(self) -> int:
        """Return the newest committed revision, which is the resourceVersion of a list made now."""
        return self._revision

    def last_change(self, group: str, plural: str) -> int:
        """Return the newest committed revision of a resource's objects since the store opened."""
        return self._last_changes.get((group, plural), 0)

    @property
    def resources(self) -> ResourceKeys:
        """Return the (group, plural) of every resource that has objects."""
        return self._objects.resources

    def get(self, key: ObjectKey) -> StoredObject | None:
        """Return a committed object, or None."""
        return self._objects.get(key)

    def list(
        self,
        group: str,
        plural: str,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Objects:
        """List, in key order, the objects that have all these label and field values.

        Labels, ``spec.nodeName`` and ``involvedObject.*`` are looked up in an index.
        """
        return self._objects.select(group, plural, namespace, labels, fields)

    def list_at(
        self, revision: int, group: str, plural: str, namespace: str | None = None
    ) -> Objects:
        """List objects as they were at a revision; raises Expired if it was compacted."""
        watch_cache = self._watch_cache(group, plural)
        since = watch_cache.read(watch_cache.position_after(revision))
        now = self._objects.select(group, plural, namespace)
        later_events = [e for e in since if not namespace or e.key.namespace == namespace]
        return objects_before(now, later_events) if later_events else now

    def dependents(self, uid: str) -> Objects:
        """List the objects, of any resource, with this uid in their owner references."""
        return self._objects.dependents(uid)

    # Write.

    def latest(self, key: ObjectKey) -> StoredObject | None:
        """Return an object including pending writes, or None; the next write builds on it."""
        write = self._pending_writes.get(key)
        if write is None:
            return self._objects.get(key)
        return None if write.event.change is EventType.DELETED else write.event.object

    def create(self, key: ObjectKey, build: ValueBuilder) -> asyncio.Future[StoredObject]:
        """Enqueue a new object; raises AlreadyExists. The future completes after COMMIT."""
        if self.latest(key) is not None:
            raise errors.AlreadyExists(f"{key.display_name} already exists", key.details)
        return self._enqueue(EventType.ADDED, key, None, build)

    def update(self, previous: StoredObject, build: ValueBuilder) -> asyncio.Future[StoredObject]:
        """Enqueue the next version of ``previous``; raises Conflict or NotFound if it is stale."""
        self.check_latest(previous)
        return self._enqueue(EventType.MODIFIED, previous.key, previous, build)

    def delete(self, previous: StoredObject, build: ValueBuilder) -> asyncio.Future[StoredObject]:
        """Enqueue the deletion of ``previous``; ``build`` returns the object of the watch event."""
        self.check_latest(previous)
        return self._enqueue(EventType.DELETED, previous.key, previous, build)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes that are enqueued in the block together, or none of them."""
        assert self._transaction is None, "transactions are not nested"
        writes = self._transaction = []
        try:
            yield
        finally:
            self._transaction = None
            if writes:
                self._writer.enqueue(*writes)

    def check_latest(self, previous: StoredObject) -> None:
        """Raise Conflict or NotFound unless this is the newest version, pending writes included."""
        key, latest = previous.key, self.latest(previous.key)
        if latest is None:
            raise errors.NotFound(f"{key.display_name} not found", key.details)
        if latest.revision != previous.revision:
            raise errors.Conflict(
                f"Operation cannot be fulfilled on {key.display_name}: {MODIFIED}", key.details
            )

    def _enqueue(
        self, change: EventType, key: ObjectKey, previous: StoredObject | None, build: ValueBuilder
    ) -> asyncio.Future[StoredObject]:
        self._check_open()
        self._read_only_mode.check_writable()
        revision = self._assigned + 1
        value = build(revision)
        check_value_size(key, value)
        stored = StoredObject(key, revision, value, self._index(key, value))
        assert self._assigned + 1 == revision, "build must not write to the store"
        self._assigned = revision
        event = StoreEvent(change, stored, previous, int(self._clock.now() * 1000))
        write = PendingWrite(event, self._loop.create_future())
        self._pending_writes[key] = write
        if self._transaction is None:
            self._writer.enqueue(write)
        else:
            self._transaction.append(write)
        return write.done

    # Watch.

    def watch(
        self,
        group: str,
        plural: str,
        from_revision: int,
        accept: Callable[[StoreEvent], bool] | None = None,
    ) -> Subscription:
        """Subscribe to the events of a resource after a revision; raises Expired if compacted.

        ``accept`` filters events before the reader is woken, so that thousands of subscriptions
        to few events each are cheap. The caller must reject a revision newer than ``revision``.
        """
        self._check_open()
        watch_cache = self._watch_cache(group, plural)
        return Subscription(watch_cache, from_revision, accept, lambda: self._revision)

    def _watch_cache(self, group: str, plural: str) -> WatchCache:
        watch_cache = self._watch_caches.get((group, plural))
        if watch_cache is None:
            watch_cache = WatchCache(self._retention, self._compact_revision, self._gaps)
            self._watch_caches[group, plural] = watch_cache
        return watch_cache

    def check_not_in_gap(self, revision: int) -> None:
        """Raise Expired for a revision that may have been assigned but is not in the store."""
        self._gaps.check(revision)

    # Callbacks of the writer thread, on the event loop.

    def _committed(self, batch: Sequence[PendingWrite]) -> None:
        self._apply([write.event for write in batch])
        for write in batch:
            if self._pending_writes.get(write.event.key) is write:
                del self._pending_writes[write.event.key]
            if not write.done.done():
                write.done.set_result(write.event.object)

    def _apply(self, events: Sequence[StoreEvent]) -> None:
        events_by_resource: dict[tuple[str, str], list[StoreEvent]] = {}
        for event in events:
            if event.change is EventType.DELETED:
                self._objects.remove(event.key)
            else:
                self._objects.put(event.object)
            events_by_resource.setdefault((event.key.group, event.key.plural), []).append(event)
            self._revision = event.revision
        for (group, plural), changes in events_by_resource.items():
            self._last_changes[group, plural] = changes[-1].revision
            self._watch_cache(group, plural).extend(changes)
        self._uncompacted += len(events)
        self._uncompacted_bytes += sum(len(event.object.value) for event in events)
        retention = self._retention
        too_many = (
            self._uncompacted >= retention.max_events
            or self._uncompacted_bytes >= retention.max_bytes
        )
        if too_many and self._compaction is None:
            self._compaction = self._loop.create_task(self._compact_by_volume())

    def _failed(self, batch: Sequence[PendingWrite], error: Exception) -> None:
        """Fail all pending writes: they build on writes that were not committed."""
        self._pending_writes.clear()
        for write in batch:
            if not write.done.done():
                write.done.set_exception(self._read_only_mode.unavailable(error))
        self._read_only_mode.enter(error)

    async def _recover(self) -> None:
        """Make a trial commit; apply commits that are stored although they reported an error."""
        rows = await self._writer.recover(self._revision)
        self._apply(list(replay(rows, self._objects, self._index)))

    # Compaction and backup.

    async def compact(self, now: float | None = None) -> None:
        """Delete events that are older than the retention."""
        self._check_open()
        when = self._clock.now() if now is None else now
        compactable = {
            resource: cache.compactable_revision(when)
            for resource, cache in self._watch_caches.items()
        }
        self._uncompacted = self._uncompacted_bytes = 0
        raised = {
            r: revision
            for r, revision in compactable.items()
            if revision > self._compacted.get(r, 0)
        }
        if not raised:
            return
        try:
            more = await self._writer.run(lambda database: database.compact(raised))
            while more:
                more = await self._writer.run(lambda database: database.compact({}))
        except (sqlite3.Error, OSError) as error:
            if is_damage(error):
                self._read_only_mode.enter(error)
            raise self._read_only_mode.unavailable(error) from error
        self._compacted |= raised
        for resource, revision in raised.items():
            self._watch_caches[resource].compact(revision)

    async def _compact_by_volume(self) -> None:
        with suppress(errors.Unavailable):
            await self.compact()
        self._compaction = None

    async def backup(self, path: Path) -> None:
        """Write a consistent copy to a new file of mode 0600; writes wait until it is complete."""
        self._check_open()
        await self._writer.run(lambda database: write_backup(database, path))

    def _check_open(self) -> None:
        if self._closed:
            raise errors.Unavailable(f"the store in {self._directory.path} is closed")
