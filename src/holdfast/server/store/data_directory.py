"""The data directory of a store: readable by its owner only, used by one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from holdfast.runtime import errors
from holdfast.runtime.private_files import PRIVATE_DIRECTORY, PRIVATE_FILE, open_private
from holdfast.server.store.database_file import damaged_error
from holdfast.server.store.revision_file import RevisionFile

DATABASE = "store.db"
LOCK = "store.lock"
REVISIONS = "store.revision"


class DataDirectory:
    """A locked data directory; the operating system releases the lock when the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / DATABASE
        self._lock = -1
        self._revision_file: RevisionFile | None = None
        try:
            _make_private(path)
            self._lock = open_private(path / LOCK, os.O_RDWR)
            self._lock_directory()
            # SQLite creates the -wal and -shm files with the mode of the database file.
            empty = self.database.exists() and self.database.stat().st_size == 0
            os.close(open_private(self.database, os.O_RDWR))
            self.database.chmod(PRIVATE_FILE)
            self._revision_file = RevisionFile(path / REVISIONS)
        except OSError as error:
            self.release()
            other_file = "" if error.filename in (None, str(path)) else f" ({error.filename})"
            raise errors.BadConfiguration(
                f"the data directory {path} cannot be used: {error.strerror}{other_file}; "
                "make it writable for this user, or choose another directory"
            ) from error
        if empty and self.revision_file.committed:
            self.release()
            raise damaged_error(
                self.database, f"it is empty; it had revision {self.revision_file.committed}"
            )

    @property
    def revision_file(self) -> RevisionFile:
        """The file with the high-water mark of revisions."""
        assert self._revision_file is not None
        return self._revision_file

    def _lock_directory(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 32, 0).decode().strip() or "unknown"
            self.release()
            raise errors.StoreLocked(
                f"the data directory {self.path} is in use by process {holder}: "
                "stop that process, or choose another directory"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock; calling it again does nothing."""
        if self._revision_file is not None:
            self._revision_file.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _make_private(path: Path) -> None:
    """Create the directory with mode 0700; one that contains foreign files keeps its mode."""
    path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    if (path / DATABASE).exists() or not any(path.iterdir()):
        path.chmod(PRIVATE_DIRECTORY)
