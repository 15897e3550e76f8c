"""Back up a running store to a file, and restore a data directory from such a file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.runtime import errors
from holdfast.server.store import database_file
from holdfast.server.store.data_directory import DataDirectory
from holdfast.server.store.database import Database
from holdfast.server.store.database_file import convert_sqlite_errors

SKIPPED_REVISIONS = 1_000_000
"""A restore adds this to the revision, so that no revision that a client has seen is reused."""


def write_backup(database: Database, path: Path) -> None:
    """Copy a database to a new file of mode 0600; the file exists only once it is complete."""
    if path.exists():
        raise errors.BadConfiguration(f"{path} exists already: choose another file for the backup")
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(partial)) as target:
            database.copy(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without -wal and -shm
        partial.rename(path)
    except (OSError, sqlite3.Error) as error:
        partial.unlink(missing_ok=True)
        raise errors.BadConfiguration(
            f"the backup could not be written to {path}: {error}"
        ) from error


def restore(backup: Path, directory: Path) -> int:
    """Replace the store in a directory by a backup and return its new revision.

    The revision rises by a million and the watch history is deleted, so that every client gets
    Expired and lists again. Raises StoreLocked while a server uses the directory.
    """
    if not backup.is_file():
        raise errors.BadConfiguration(f"there is no backup at {backup}")
    data_directory = DataDirectory(directory)
    try:
        with closing(sqlite3.connect(":memory:")) as copy:
            with convert_sqlite_errors(backup):
                _read(backup, copy)
            with (
                convert_sqlite_errors(data_directory.database),
                closing(database_file.connect(data_directory.database)) as target,
            ):
                database_file.migrate(target, data_directory.database)
                revision = _raise_revision(copy, target, data_directory.revision_file.reserved)
                copy.backup(target)  # one transaction: either the old store or the new one
                target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        data_directory.release()
    return revision


def _read(backup: Path, copy: sqlite3.Connection) -> None:
    with closing(database_file.connect_read_only(backup)) as source:
        if database_file.schema_version(source, backup) == 0:
            raise errors.BadConfiguration(f"{backup} is not a Holdfast store: it is empty")
        source.backup(copy)
    copy.isolation_level = None
    database_file.migrate(copy, backup)


def _raise_revision(copy: sqlite3.Connection, target: sqlite3.Connection, reserved: int) -> int:
    newest = "SELECT v FROM meta WHERE k = 'last_rv'"
    used = max(reserved - 1, *(c.execute(newest).fetchone()[0] for c in (copy, target)))
    revision: int = used + SKIPPED_REVISIONS
    copy.execute("UPDATE meta SET v = ? WHERE k IN ('last_rv', 'compact_rv')", (revision,))
    copy.execute("DELETE FROM log")
    return revision
