"""The high-water mark of revisions, kept apart from the database.

Should the end of the database be lost (a write-ahead log that was cut, a file put back from a
copy), its last revision falls back, and revisions that clients have seen would be given out again
with other content. So a small file beside it holds two numbers:

``reserved``   every revision that was ever committed is below it. Reserved in blocks and synced
               before the commit that needs it; exact after a clean stop.
``committed``  the last commit. Written after each commit without a sync, so after a power failure
               it may be too low, and it is never too high.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from holdfast import errors
from holdfast.private_files import open_private, sync_directory

log = logging.getLogger(__name__)
BLOCK = 10_000
"""So many revisions are reserved with one sync; at most so many are skipped after a crash."""
_SIZE = 42
_MOST = 2**62
"""No revision gets so far; SQLite and clients cannot hold twice as much."""


class RevisionFile:
    """The mark of one data directory; 0 and 0 while there is none."""

    def __init__(self, path: Path) -> None:
        self._descriptor = open_private(path, os.O_RDWR)
        try:
            self.reserved, self.committed = self._read(path)
            self._lowest = self.reserved
        except BaseException:
            self.close()
            raise

    def _read(self, path: Path) -> tuple[int, int]:
        text = os.pread(self._descriptor, _SIZE, 0)
        words = text.split()
        if len(words) == 2 and all(word.isdigit() and int(word) <= _MOST for word in words):
            return int(words[0]), int(words[1])
        if text:
            log.warning("%s cannot be read: whether revisions were lost is not known", path)
        sync_directory(path.parent)
        return 0, 0

    def reserve(self, revision: int) -> None:
        """Make sure, before a commit, that its revision is below what is reserved."""
        if revision >= self.reserved:
            self._write(revision + BLOCK, self.committed, sync=True)

    def record_commit(self, revision: int) -> None:
        """Remember a commit, if that is possible: the commit itself is durable."""
        with suppress(OSError):
            self._write(self.reserved, revision, sync=False)

    def release_unused(self, revision: int) -> None:
        """Give back, at a clean stop, what was reserved beyond the last revision of the store.

        What was reserved when the store was opened is kept: it may have been given out.
        """
        self._write(max(revision + 1, self._lowest), self.committed, sync=True)

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, reserved: int, committed: int, *, sync: bool) -> None:
        os.pwrite(self._descriptor, f"{reserved:020d} {committed:020d}\n".encode(), 0)
        if sync:
            os.fsync(self._descriptor)
        self.reserved, self.committed = reserved, committed


class RevisionGaps:
    """Revisions that may have been given out and are not in the store: nothing follows from them.

    Each gap is (last revision before it, first revision after it).
    """

    MOST = 64
    """Of more than these, the two oldest become one."""

    def __init__(self, gaps: list[tuple[int, int]]) -> None:
        self._gaps = gaps

    def add(self, before: int, after: int) -> None:
        """Add the newest gap."""
        self._gaps.append((before, after))
        if len(self._gaps) > self.MOST:
            first, second, *rest = self._gaps
            self._gaps[:] = [(first[0], second[1]), *rest]

    def check(self, revision: int) -> None:
        """Raise Expired for a revision that lies in a gap."""
        for before, after in self._gaps:
            if before < revision < after:
                raise errors.Expired(f"too old resource version: {revision} ({after})")

    def as_list(self) -> list[tuple[int, int]]:
        """Return all gaps, oldest first."""
        return list(self._gaps)
