"""The SQLite file, spoken to by one thread at a time.

Python gives up its lock around every statement step and, while the event loop is busy,
waits up to 5 ms to get it back. So a batch is written in few statements with many rows
each, not with ``executemany``, which steps once a row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.store import sqlite_schema
from holdfast.store.integrity import damaged_error
from holdfast.store.objects import EventType, ObjectKey, StoreEvent
from holdfast.store.revision_file import RevisionFile

WriteFault = Callable[[sqlite3.Connection], None]
"""Runs inside each transaction before COMMIT and may raise; for tests."""

CHECKPOINT_IDLE = 4 << 20
"""With so many bytes in the write-ahead log, checkpoint as soon as nothing is queued."""
CHECKPOINT_BUSY = 128 << 20
"""With so many, checkpoint even though writers wait: the file must not grow for ever."""
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
    """One event as it lies in the log."""

    revision: int
    key: ObjectKey
    change: EventType
    time_ms: int
    value: bytes
    previous_revision: int | None
    previous: bytes | None


class Database:
    """Read everything at the start; afterwards commit, compact, copy."""

    def __init__(
        self, path: Path, fault: WriteFault | None = None, mark: RevisionFile | None = None
    ) -> None:
        self.path = path
        self._fault = fault
        self._mark = mark
        self._new_gaps: list[tuple[int, int]] | None = None
        self._unchecked = 0
        self._connection = sqlite_schema.connect(path)
        try:
            sqlite_schema.migrate(self._connection, path)
        except BaseException:
            self._connection.close()
            raise
        self._ids = self._read_ids()

    def close(self) -> None:
        """Fold the write-ahead log into the file and close it."""
        with suppress(sqlite3.Error):  # it is as durable where it is
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if self._mark is not None:
                with suppress(OSError):  # more stays reserved than was used
                    self._mark.release_unused(self.meta("last_rv"))
        self._connection.close()

    def close_without_checkpoint(self) -> None:
        """Close a file that could not be loaded."""
        self._connection.close()

    # Reading.

    def meta(self, name: str) -> Any:
        """Read one value of the meta table."""
        row = self._connection.execute("SELECT v FROM meta WHERE k = ?", (name,)).fetchone()
        return row[0]

    def gaps(self) -> list[tuple[int, int]]:
        """Read the gaps in the revisions, oldest first."""
        row = self._connection.execute("SELECT v FROM meta WHERE k = 'gaps'").fetchone()
        return [(before, after) for before, after in json.loads(row[0])] if row else []

    def set_gaps(self, gaps: list[tuple[int, int]]) -> None:
        """Store the gaps with the next commit: until then they can be found anew."""
        self._new_gaps = gaps

    def compact_revisions(self) -> dict[tuple[str, str], int]:
        """Tell for each resource up to which revision its log was compacted."""
        lowest = self.meta("compact_rv")
        rows = self._connection.execute("SELECT grp, resource, compact_rv FROM res")
        return {(group, plural): max(lowest, floor) for group, plural, floor in rows}

    def objects(self) -> Iterator[tuple[ObjectKey, int, bytes]]:
        """Read every object with its revision."""
        names = {number: resource for resource, number in self._ids.items()}
        rows = self._connection.execute("SELECT res, ns, name, rv, val FROM obj")
        for number, namespace, name, revision, value in rows:
            yield self._key(names, number, namespace, name), revision, value

    def log(self, after: int = 0) -> Iterator[LogRow]:
        """Read the events after a revision, in order; without those below their floor."""
        floors = self.compact_revisions()
        names = {number: resource for resource, number in self._ids.items()}
        rows = self._connection.execute(
            "SELECT rv, res, ns, name, type, ts, val, prev_rv, prev FROM log"
            " WHERE rv > ? ORDER BY rv",
            (after,),
        )
        for rv, number, ns, name, change, stamp, value, previous_rv, previous in rows:
            key = self._key(names, number, ns, name)
            if change not in _CHANGES:
                raise damaged_error(self.path, f"revision {rv} is a change of no known kind")
            if rv > floors[names[number]]:
                yield LogRow(rv, key, EventType(change), stamp, value, previous_rv, previous)

    def _key(self, names: dict[int, tuple[str, str]], number: int, ns: str, name: str) -> ObjectKey:
        if number not in names:
            raise damaged_error(self.path, f"{ns}/{name} is of a resource that is not listed")
        return ObjectKey(*names[number], ns, name)

    def _read_ids(self) -> dict[tuple[str, str], int]:
        rows = self._connection.execute("SELECT id, grp, resource FROM res")
        return {(group, plural): number for number, group, plural in rows}

    # Writing.

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
        """Make events durable, all or none."""
        last = {event.key: event for event in events}
        if self._mark is not None:
            self._mark.reserve(events[-1].revision)
        with self._transaction() as connection:
            numbers = [self._number(event.key) for event in events]
            self._insert("log", [_log_row(n, e) for n, e in zip(numbers, events, strict=True)])
            puts = [e for e in last.values() if e.change is not EventType.DELETED]
            self._insert("obj", [_object_row(self._number(e.key), e) for e in puts], _UPSERT)
            for event in last.values():
                if event.change is EventType.DELETED:
                    connection.execute(
                        "DELETE FROM obj WHERE res = ? AND ns = ? AND name = ?",
                        (self._number(event.key), event.key.namespace, event.key.name),
                    )
            connection.execute("UPDATE meta SET v = ? WHERE k = 'last_rv'", (events[-1].revision,))
            if self._new_gaps is not None:
                gaps = json.dumps(self._new_gaps)
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('gaps', ?)", (gaps,))
        self._new_gaps = None
        if self._mark is not None:
            self._mark.record_commit(events[-1].revision)
        self._unchecked += sum(3 * len(event.object.value) + 500 for event in events)

    def _number(self, key: ObjectKey) -> int:
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

    def compact(self, floors: Mapping[tuple[str, str], int]) -> bool:
        """Raise floors and delete log rows below them; tell whether some are left.

        Deleting goes piece by piece (call again, with nothing to raise), because writers
        wait meanwhile. Rows below a floor are never read, so stopping in between is safe.
        """
        with self._transaction() as connection:
            for (group, plural), floor in floors.items():
                connection.execute(
                    "UPDATE res SET compact_rv = ? WHERE grp = ? AND resource = ?",
                    (floor, group, plural),
                )
            gone = connection.execute(_COMPACTION, (COMPACTION_ROWS,)).rowcount
        return gone == COMPACTION_ROWS

    def test_commit(self) -> None:
        """Try whether commits work again, with enough bytes that a full disk shows."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(?))", (PROBE_BYTES,)
            )
        with self._transaction() as connection:
            connection.execute("DELETE FROM meta WHERE k = 'probe'")

    def checkpoint(self, idle: bool) -> None:
        """Fold the write-ahead log into the file if it is worth it now."""
        if self._unchecked >= (CHECKPOINT_IDLE if idle else CHECKPOINT_BUSY):
            self._unchecked = 0
            with suppress(sqlite3.Error):  # nothing is lost; the next commit will tell
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def copy(self, target: sqlite3.Connection) -> None:
        """Copy the whole database, as of now, into another connection."""
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
