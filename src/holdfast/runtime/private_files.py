"""Read and write files that only their owner can read or replace, and replace files atomically."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700


def make_private_directory(path: Path) -> None:
    """Create a directory and its missing parents, all with mode 0700."""
    if not path.is_dir():
        make_private_directory(path.parent)
        path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically by one of mode 0600 with this content."""
    make_private_directory(path.parent)
    replace_file(path, data, PRIVATE_FILE)


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Replace a file atomically by one with this content and mode.

    The content is written to a new file in the same directory (O_EXCL, O_NOFOLLOW), which is then
    renamed. A symbolic link at ``path`` is replaced; the file it points to is unchanged.
    """
    descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise


def open_private(path: Path, flags: int) -> int:
    """Open a file, created with mode 0600 if missing; raises OSError for a symbolic link."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)


def sync_directory(path: Path) -> None:
    """Sync a directory, so that the names of its files survive a crash."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_own(path: Path) -> bytes:
    """Read a regular file of this user; raises OSError for a link, a pipe or another owner."""
    # Without O_NONBLOCK opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a regular file of this user")
        return file.read()


def writable_by_others(directory: Path) -> bool:
    """Tell whether a user other than root can replace this user's files in a directory."""
    status = directory.stat()
    if status.st_uid not in (os.geteuid(), 0):
        return True
    return bool(status.st_mode & stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
