"""Copies of a store: making one while it runs, and starting again from one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import errors
from holdfast.store import sqlite_schema
from holdfast.store.data_directory import DataDirectory
from holdfast.store.database import Database
from holdfast.store.integrity import convert_sqlite_errors

SKIPPED_REVISIONS = 1_000_000
"""No client may hold a revision that will be given out again with other content."""


def write_backup(database: Database, path: Path) -> None:
    """Copy a database to a new file of mode 0600, which appears only when complete."""
    if path.exists():
        raise errors.BadConfiguration(f"{path} exists already: choose another file for the backup")
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(partial)) as target:
            database.copy(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without companions
        partial.rename(path)
    except (OSError, sqlite3.Error) as error:
        partial.unlink(missing_ok=True)
        raise errors.BadConfiguration(
            f"the backup could not be written to {path}: {error}"
        ) from error


def restore(backup: Path, directory: Path) -> int:
    """Replace the store of a directory by a backup and return its new revision.

    The revision rises by a million and the history is emptied, so that every client is
    told Expired and lists again. Raises StoreLocked while a server runs there.
    """
    if not backup.is_file():
        raise errors.BadConfiguration(f"there is no backup at {backup}")
    home = DataDirectory(directory)
    try:
        with closing(sqlite3.connect(":memory:")) as copy:
            with convert_sqlite_errors(backup):
                _read(backup, copy)
            with (
                convert_sqlite_errors(home.database),
                closing(sqlite_schema.connect(home.database)) as target,
            ):
                sqlite_schema.migrate(target, home.database)
                revision = _leap(copy, target, home.revision_file.reserved)
                copy.backup(target)  # one transaction: the old store or the new, never between
                target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        home.release()
    return revision


def _read(backup: Path, copy: sqlite3.Connection) -> None:
    with closing(sqlite_schema.connect_read_only(backup)) as source:
        if sqlite_schema.check(source, backup) == 0:
            raise errors.BadConfiguration(f"{backup} is not a Holdfast store: it is empty")
        source.backup(copy)
    copy.isolation_level = None
    sqlite_schema.migrate(copy, backup)


def _leap(copy: sqlite3.Connection, target: sqlite3.Connection, reserved: int) -> int:
    newest = "SELECT v FROM meta WHERE k = 'last_rv'"
    used = max(reserved - 1, *(c.execute(newest).fetchone()[0] for c in (copy, target)))
    revision: int = used + SKIPPED_REVISIONS
    copy.execute("UPDATE meta SET v = ? WHERE k IN ('last_rv', 'compact_rv')", (revision,))
    copy.execute("DELETE FROM log")
    return revision
