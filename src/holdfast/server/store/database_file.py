"""The database file: its tables, the migration of older files, and whether a file can be used."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from holdfast.runtime import errors

APPLICATION_ID = 0x484F4C44  # "HOLD"; `file` prints it

SCHEMA_1 = """
CREATE TABLE meta(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE res(id INTEGER PRIMARY KEY, grp TEXT NOT NULL, resource TEXT NOT NULL,
    compact_rv INTEGER NOT NULL DEFAULT 0, UNIQUE(grp, resource));
CREATE TABLE obj(res INTEGER NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL,
    uid TEXT NOT NULL, rv INTEGER NOT NULL, val BLOB NOT NULL,
    PRIMARY KEY(res, ns, name));
CREATE TABLE log(rv INTEGER PRIMARY KEY, res INTEGER NOT NULL, ns TEXT NOT NULL,
    name TEXT NOT NULL, type INTEGER NOT NULL, ts INTEGER NOT NULL,
    prev_rv INTEGER, val BLOB NOT NULL, prev BLOB);
INSERT INTO meta VALUES ('last_rv', 0), ('compact_rv', 0);
"""

MIGRATIONS: tuple[str, ...] = (SCHEMA_1,)
"""Step n migrates from ``user_version`` n to n + 1; never edit a step that was released."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_TEXT = "Could not decode to UTF-8"
_PRIMARY = 0xFF
"""Mask for the primary code in an extended error code of SQLite."""


def connect(path: Path) -> sqlite3.Connection:
    """Open a database file; commits are durable."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL may lose acknowledged commits at power loss; their revisions would then be
        # assigned again with other content, and caches of clients would diverge.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer thread does it when idle
    except BaseException:
        connection.close()
        raise
    return connection


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a database file read-only; closing it changes nothing either."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=1.0
    )


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of a file; raise BadConfiguration if it cannot be read."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and application != APPLICATION_ID:
        raise errors.BadConfiguration(f"{path} is the database of another program")
    if version > len(MIGRATIONS):
        raise errors.BadConfiguration(
            f"{path} was written by a newer Holdfast (schema {version}, this one knows "
            f"{len(MIGRATIONS)}): upgrade Holdfast, or restore a backup made by this version"
        )
    return version


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate a file to the current schema, each step in its own transaction."""
    for step in range(schema_version(connection, path), len(MIGRATIONS)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in MIGRATIONS[step].split(";"):
                connection.execute(statement)
            if step == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(
                    "INSERT INTO meta VALUES ('cluster_uid', ?)", (str(uuid.uuid4()),)
                )
            connection.execute(f"PRAGMA user_version = {step + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def check_file(path: Path) -> None:
    """Read every page of a file and raise StoreDamaged or BadConfiguration; nothing is changed.

    It takes about 1 s per gigabyte, a seventh of the time that loading takes.
    """
    with convert_sqlite_errors(path), closing(connect_read_only(path)) as connection:
        schema_version(connection, path)
        (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise damaged_error(path, result)


def is_damage(error: Exception) -> bool:
    """Return whether an error means that the file is damaged, so that retrying cannot help."""
    if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | errors.StoreDamaged):
        return True
    if isinstance(error, sqlite3.OperationalError) and _NOT_TEXT in str(error):
        return True  # an error of Python's module, without a code
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY in _DAMAGED


def damaged_error(path: Path, cause: object) -> errors.StoreDamaged:
    """Build the error about a damaged file."""
    text = " ".join(str(cause).split())
    return errors.StoreDamaged(
        f"{path} is damaged ({text}): nothing was changed; replace it by a backup, "
        f"or move {path.name} and {path.name}-wal away to start empty"
    )


@contextmanager
def convert_sqlite_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite to StoreDamaged, StoreLocked or BadConfiguration with the path."""
    try:
        yield
    except (sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        if is_damage(error):
            raise damaged_error(path, error) from error
        if getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _LOCKED:
            raise errors.StoreLocked(
                f"{path} is locked by another program ({error}): end that program and start again"
            ) from error
        raise errors.BadConfiguration(
            f"{path} cannot be used as a store: {error}; nothing was changed"
        ) from error
