"""The SQLite database of a store; one thread at a time uses it.

Python releases the GIL at every step of a statement and, while the event loop is busy, waits up
to 5 ms to acquire it again. So a batch is written in few statements of many rows each, not with
``executemany``, which takes one step per row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.server.store import database_file
from holdfast.server.store.database_file import damaged_error
from holdfast.server.store.objects import EventType, ObjectKey, StoreEvent
from holdfast.server.store.revision_file import RevisionFile

WriteFault = Callable[[sqlite3.Connection], None]
"""Called inside each transaction before COMMIT; it may raise. For tests."""

CHECKPOINT_IDLE = 4 << 20
"""With this many bytes, the write-ahead log is checkpointed when no write is queued."""
CHECKPOINT_BUSY = 128 << 20
"""With this many bytes, it is checkpointed although writes are queued."""
CHUNKS = (256, 64, 16, 4, 1)
COMPACTION_ROWS = 1_000
PROBE_BYTES = 65_536

_COMPACTION = """
DELETE FROM log WHERE rv IN (
    SELECT rv FROM log JOIN res ON res.id = log.res
    WHERE rv <= (SELECT max(compact_rv) FROM res) AND rv <= compact_rv LIMIT ?)
"""
_UPSERT = "ON CONFLICT DO UPDATE SET uid = excluded.uid, rv = excluded.rv, val = excluded.val"


_CHANGES = frozenset(map(int, EventType))


class LogRow(NamedTuple):
    """One row of the log table."""

    revision: int
    key: ObjectKey
    change: EventType
    time_ms: int
    value: bytes
    previous_revision: int | None
    previous: bytes | None


class Database:
    """Read all objects and events at the start; commit, compact and copy afterwards."""

    def __init__(
        self, path: Path, fault: WriteFault | None = None, mark: RevisionFile | None = None
    ) -> None:
        self.path = path
        self._fault = fault
        self._mark = mark
        self._new_gaps: list[tuple[int, int]] | None = None
        self._bytes_since_checkpoint = 0
        self._connection = database_file.connect(path)
        try:
            database_file.migrate(self._connection, path)
            self._ids = self._read_ids()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Checkpoint the write-ahead log and close the file."""
        with suppress(sqlite3.Error):  # without a checkpoint the commits are durable too
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if self._mark is not None:
                with suppress(OSError):  # then more revisions than necessary stay reserved
                    self._mark.release_unused(self.meta("last_rv"))
        self._connection.close()

    def close_without_checkpoint(self) -> None:
        """Close a file that could not be loaded; nothing is written."""
        self._connection.close()

    # Read.

    def meta(self, name: str) -> Any:
        """Read one value of the meta table."""
        row = self._connection.execute("SELECT v FROM meta WHERE k = ?", (name,)).fetchone()
        wanted = str if name == "cluster_uid" else int
        if row is None or not isinstance(row[0], wanted):
            raise damaged_error(self.path, f"{name} is {row and row[0]!r}")
        return row[0]

    def gaps(self) -> list[tuple[int, int]]:
        """Return the gaps in the revisions, oldest first: (last before it, first after it)."""
        row = self._connection.execute("SELECT v FROM meta WHERE k = 'gaps'").fetchone()
        try:
            gaps = (
                [(int(before), int(after)) for before, after in json.loads(row[0])] if row else []
            )
        except (ValueError, TypeError) as wrong:
            raise damaged_error(self.path, f"gaps is {row[0]!r}") from wrong
        return gaps

    def set_gaps(self, gaps: list[tuple[int, int]]) -> None:
        """Store the gaps with the next commit; until then a restart finds the same gaps."""
        self._new_gaps = gaps

    def compact_revisions(self) -> dict[tuple[str, str], int]:
        """Return the compact revision of each (group, plural)."""
        compact_revision = self.meta("compact_rv")
        rows = self._connection.execute("SELECT grp, resource, compact_rv FROM res")
        return {(group, plural): max(compact_revision, own) for group, plural, own in rows}

    def objects(self) -> Iterator[tuple[ObjectKey, int, bytes]]:
        """Yield every object: key, revision, value."""
        names = {number: resource for resource, number in self._ids.items()}
        rows = self._connection.execute("SELECT res, ns, name, rv, val FROM obj")
        for number, namespace, name, revision, value in rows:
            self._check_row(namespace, name, revision, value)
            yield self._key(names, number, namespace, name), revision, value

    def log(self, after: int = 0) -> Iterator[LogRow]:
        """Yield the events after a revision, in order, without those that were compacted."""
        compacted = self.compact_revisions()
        names = {number: resource for resource, number in self._ids.items()}
        rows = self._connection.execute(
            "SELECT rv, res, ns, name, type, ts, val, prev_rv, prev FROM log"
            " WHERE rv > ? ORDER BY rv",
            (after,),
        )
        for rv, number, ns, name, change, time_ms, value, previous_rv, previous in rows:
            self._check_row(ns, name, rv, value)
            if not isinstance(previous, bytes | None):
                raise damaged_error(self.path, f"revision {rv} has no previous value")
            key = self._key(names, number, ns, name)
            if change not in _CHANGES:
                raise damaged_error(self.path, f"revision {rv} has an unknown event type")
            if rv > compacted[names[number]]:
                yield LogRow(rv, key, EventType(change), time_ms, value, previous_rv, previous)

    def _check_row(self, ns: Any, name: Any, revision: Any, value: Any) -> None:
        """Raise StoreDamaged if a column has another type, or the value is no text."""
        if not (isinstance(ns, str) and isinstance(name, str) and isinstance(revision, int)):
            raise damaged_error(self.path, f"the row {ns!r}/{name!r} at revision {revision!r}")
        if not isinstance(value, bytes):
            raise damaged_error(self.path, f"{ns}/{name} at revision {revision} has no value")
        try:
            str(value, "utf-8")
        except UnicodeDecodeError as wrong:
            place = f"{ns}/{name} at revision {revision}"
            raise damaged_error(self.path, f"{place} is not UTF-8: {wrong}") from wrong

    def _key(self, names: dict[int, tuple[str, str]], number: int, ns: str, name: str) -> ObjectKey:
        if number not in names:
            raise damaged_error(self.path, f"{ns}/{name} belongs to an unknown resource")
        return ObjectKey(*names[number], ns, name)

    def _read_ids(self) -> dict[tuple[str, str], int]:
        rows = self._connection.execute("SELECT id, grp, resource FROM res")
        return {(group, plural): number for number, group, plural in rows}

    # Write.

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            if self._fault is not None:
                self._fault(self._connection)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._ids = self._read_ids()
            raise

    def commit(self, events: Sequence[StoreEvent]) -> None:
        """Commit events in one transaction."""
        last = {event.key: event for event in events}
        if self._mark is not None:
            self._mark.reserve(events[-1].revision)
        with self._transaction() as connection:
            resource_ids = [self._resource_id(event.key) for event in events]
            self._insert("log", [_log_row(n, e) for n, e in zip(resource_ids, events, strict=True)])
            puts = [e for e in last.values() if e.change is not EventType.DELETED]
            self._insert("obj", [_object_row(self._resource_id(e.key), e) for e in puts], _UPSERT)
            for event in last.values():
                if event.change is EventType.DELETED:
                    connection.execute(
                        "DELETE FROM obj WHERE res = ? AND ns = ? AND name = ?",
                        (self._resource_id(event.key), event.key.namespace, event.key.name),
                    )
            connection.execute("UPDATE meta SET v = ? WHERE k = 'last_rv'", (events[-1].revision,))
            if self._new_gaps is not None:
                gaps = json.dumps(self._new_gaps)
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('gaps', ?)", (gaps,))
        self._new_gaps = None
        if self._mark is not None:
            self._mark.record_commit(events[-1].revision)
        self._bytes_since_checkpoint += sum(3 * len(event.object.value) + 500 for event in events)

    def _resource_id(self, key: ObjectKey) -> int:
        resource = (key.group, key.plural)
        number = self._ids.get(resource)
        if number is None:
            sql = "INSERT INTO res(grp, resource) VALUES (?, ?) RETURNING id"
            number = self._ids[resource] = self._connection.execute(sql, resource).fetchone()[0]
        return number

    def _insert(self, table: str, rows: list[tuple[Any, ...]], otherwise: str = "") -> None:
        start = 0
        while start < len(rows):
            size = next(n for n in CHUNKS if n <= len(rows) - start)
            chunk = rows[start : start + size]
            flat = [value for row in chunk for value in row]
            self._connection.execute(_insertion(table, len(chunk[0]), size) + otherwise, flat)
            start += size

    def compact(self, compact_revisions: Mapping[tuple[str, str], int]) -> bool:
        """Raise compact revisions, delete a batch of old log rows, return whether some are left.

        Writes wait while rows are deleted, so this is done in batches: call again with an empty
        mapping. Rows up to the compact revision are never read, so it is safe to stop in between.
        """
        with self._transaction() as connection:
            for (group, plural), revision in compact_revisions.items():
                connection.execute(
                    "UPDATE res SET compact_rv = ? WHERE grp = ? AND resource = ?",
                    (revision, group, plural),
                )
            deleted_rows = connection.execute(_COMPACTION, (COMPACTION_ROWS,)).rowcount
        return deleted_rows == COMPACTION_ROWS

    def test_commit(self) -> None:
        """Commit a trial value large enough to fail on a full disk, then delete it."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(?))", (PROBE_BYTES,)
            )
        with self._transaction() as connection:
            connection.execute("DELETE FROM meta WHERE k = 'probe'")

    def checkpoint(self, idle: bool) -> None:
        """Checkpoint the write-ahead log if it is large enough; ``idle``: no write is queued."""
        if self._bytes_since_checkpoint >= (CHECKPOINT_IDLE if idle else CHECKPOINT_BUSY):
            self._bytes_since_checkpoint = 0
            with suppress(sqlite3.Error):  # the next commit reports the error
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def copy(self, target: sqlite3.Connection) -> None:
        """Copy the whole database into another connection."""
        self._connection.backup(target)


def _log_row(number: int, event: StoreEvent) -> tuple[Any, ...]:
    before, key = event.previous, event.key
    return (
        event.revision, number, key.namespace, key.name, int(event.change), event.time_ms,
        before and before.revision, event.object.value, before and before.value,
    )  # fmt: skip


def _object_row(number: int, event: StoreEvent) -> tuple[Any, ...]:
    stored, key = event.object, event.key
    return (number, key.namespace, key.name, stored.uid, stored.revision, stored.value)


@cache
def _insertion(table: str, width: int, rows: int) -> str:
    row = f"({','.join('?' * width)})"
    return f"INSERT INTO {table} VALUES {','.join([row] * rows)} "
